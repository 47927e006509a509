use super::{ReservingObject, reserving_objects};
use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::nodes::{Unmet, no_node, nodes};
use rollcall_core::node::Node;
use rollcall_core::reservation::eligible::{Fit, fit};

pub const RULE: Rule = Rule {
    code: "RC604",
    severity: Severity::Warning,
    title: "a ticket that fits no node",
    why: "The files contain nodes, but the ticket fits none of them. They do not match its `nodeSelector`, required node \
          affinity or `nodeName`, or they have a taint that it does not tolerate. An Order with `daemonSet` then creates no \
          ticket (`NoEligibleNode`); tickets of other Orders stay Pending.",
    hint: "# to list labels and taints:\n# kubectl get nodes --show-labels\n# kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let nodes = nodes(all);
    for room in reserving_objects(all).iter().filter(|_| !nodes.is_empty()) {
        let (whose, placement) = (room.object.full_name(), &room.ticket.placement);
        let named = |node: &&Node| room.node.as_ref().is_none_or(|name| node.name == *name);
        let nodes: Vec<&Node> = nodes.iter().filter(named).collect();
        if let Some(name) = room.node.as_ref().filter(|_| nodes.is_empty()) {
            let field = room.ticket_field().get("nodeName");
            found.at(&field, format!("node {name}, which {whose} requires, is not found"));
            continue;
        }
        if let Some(unmet) = Unmet::find(&room.ticket_field(), placement, &nodes) {
            let no_node = match &room.node {
                Some(name) => format!("no node named {name}"),
                None => no_node(all).to_owned(),
            };
            found.at_key(&unmet.field, format!("{no_node} {}", unmet.text));
            continue;
        }
        let matching = nodes.into_iter().filter(|node| placement.matches(node));
        // What each matching node fails; `None` if one of these nodes is eligible.
        let unfit: Option<Vec<_>> = matching
            .map(|node| match fit(placement, node) {
                Fit::Unfit(criterion) => Some((node, criterion)),
                Fit::Eligible | Fit::Kept { .. } => None,
            })
            .collect();
        if let Some((node, criterion)) = unfit.iter().flatten().next() {
            found.at_key(
                &tolerations(room),
                format!(
                    "no matching node is eligible for {whose}: {} is {}",
                    node.name,
                    criterion.describe()
                ),
            );
        }
    }
}

/// The tolerations of a ticket, or its spec if it has none.
fn tolerations<'a>(room: &ReservingObject<'a>) -> Field<'a> {
    let ticket = room.ticket_field();
    let field = ticket.get("tolerations");
    if field.is_missing() { ticket } else { field }
}
