use super::{ReservingObject, Seeker, reserving_objects, seekers};
use crate::commands::lint::rules::prelude::*;
use crate::commands::lint::view::nodes::nodes;
use rollcall_core::node::{Node, Placement, is_part_of};
use rollcall_core::reservation::eligible::{Fit, fit};
use rollcall_core::reservation::spec::{OrderSpec, Places, RequestedTicket, Strategy};

pub const RULE: Rule = Rule {
    code: "RC605",
    severity: Severity::Warning,
    title: "two Orders that reserve capacity for the same pods",
    why: "Both Orders select the same pods and reserve on the same nodes at the same time, so capacity for each pod is \
          reserved twice. A pod claims the ticket of the Order whose name comes first; the tickets of the other Order stay \
          unclaimed.",
    hint: "# use one Order for these pods, or selectors that do not overlap\nselector: {matchLabels: {app: node-exporter}}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let rooms = reserving_objects(all);
    let seekers = seekers(all, &rooms);
    let nodes = nodes(all);
    let mut orders: Vec<(&ReservingObject, &OrderSpec)> = rooms
        .iter()
        .filter_map(|room| Some((room, room.order.as_deref()?)))
        .filter(|(_, order)| order.places == Places::EachNode && order.selector.is_some() && !order.paused)
        .collect();
    // A pod claims from the Order whose name comes first.
    orders.sort_by_key(|(room, _)| (&room.object.namespace, &room.object.name));
    for (number, (second, later)) in orders.iter().enumerate() {
        let twice = orders[..number].iter().find(|(first, order)| {
            first.object.namespace == second.object.namespace
                // Two definitions of one Order are reported by RC003.
                && first.object.name != second.object.name
                && same_time(order, later)
                && same_nodes(&nodes, &first.ticket.placement, &second.ticket.placement)
                && (order.selector == later.selector || seekers.iter().any(|one| served_by_both(one, first, second)))
        });
        if let Some((first, _)) = twice {
            let name = &second.object.name;
            found.at_key(
                &second.object.field("spec.selector"),
                format!(
                    "Order {name} reserves capacity for pods that Order {} already serves",
                    first.object.name
                ),
            );
        }
    }
}

fn served_by_both(seeker: &Seeker, one: &ReservingObject, other: &ReservingObject) -> bool {
    seeker.wanted == RequestedTicket::Any && one.serves(seeker) && other.serves(seeker)
}

/// Whether two Orders reserve at the same time: different schedules do not count as the same time.
fn same_time(one: &OrderSpec, other: &OrderSpec) -> bool {
    match (&one.strategy, &other.strategy) {
        (Strategy::OneTime, _) | (_, Strategy::OneTime) => true,
        (one, other) => one == other,
    }
}

/// Whether some node is eligible for both placements. If no nodes are known: whether the labels that one requires include those
/// that the other requires.
fn same_nodes(nodes: &[Node], one: &Placement, other: &Placement) -> bool {
    let within = |inner: &Placement, outer: &Placement| {
        is_part_of(&outer.node_selector, &inner.node_selector)
            && (outer.terms.is_none() || outer.terms == inner.terms)
    };
    match nodes.is_empty() {
        true => within(one, other) || within(other, one),
        false => nodes
            .iter()
            .any(|node| [one, other].iter().all(|placement| fit(placement, node) == Fit::Eligible)),
    }
}
