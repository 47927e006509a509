use super::{Room, nodes, rooms};
use crate::commands::lint::rules::prelude::*;
use rollcall_core::reservation::eligible::{Criterion, Fit, fit};
use std::collections::BTreeMap;

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

fn check(all: &Scene, found: &mut Findings) {
    let nodes = nodes(all);
    for room in rooms(all).iter().filter(|_| !nodes.is_empty()) {
        if let Some(name) = room.node.as_ref().filter(|name| nodes.iter().all(|node| node.name != **name)) {
            found.at(
                &room.ticket_field().get("nodeName"),
                format!("node {name}, which {} requires, is not found", room.object.full_name()),
            );
            continue;
        }
        let there = nodes.iter().filter(|node| room.node.as_ref().is_none_or(|name| node.name == *name));
        let mut unfit: BTreeMap<Criterion, usize> = BTreeMap::new();
        let mut eligible = false;
        for node in there {
            match fit(&room.ticket.placement, node) {
                Fit::Eligible | Fit::Kept { .. } => eligible = true,
                Fit::Unfit(criterion) => *unfit.entry(criterion).or_default() += 1,
            }
        }
        // Report the criterion that excludes most nodes, like the status of an Order does.
        let worst = unfit.iter().max_by_key(|(_, number)| **number).filter(|_| !eligible);
        if let Some((criterion, number)) = worst {
            let whose = room.object.full_name();
            found.at_key(
                &place(room, criterion),
                format!(
                    "none of the {} nodes is eligible for {whose}: {number} {}",
                    nodes.len(),
                    criterion.describe()
                ),
            );
        }
    }
}

fn place<'a>(room: &Room<'a>, criterion: &Criterion) -> Field<'a> {
    let ticket = room.ticket_field();
    let field = match criterion {
        Criterion::NodeSelector => ticket.get("nodeSelector"),
        Criterion::Affinity => ticket.get("affinity"),
        Criterion::Taint(_) => ticket.get("tolerations"),
        Criterion::Leaving | Criterion::Cordoned | Criterion::NotReady => ticket.clone(),
    };
    if field.is_missing() { ticket } else { field }
}
