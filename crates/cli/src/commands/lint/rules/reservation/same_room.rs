use super::{Room, Seeker, nodes, rooms, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_core::node::{Node, Placement, is_part_of};
use rollcall_core::reservation::eligible::{Fit, fit};
use rollcall_core::reservation::spec::{OrderSpec, Places, Strategy, Wanted};

pub const RULE: Rule = Rule {
    code: "RC605",
    severity: Severity::Warning,
    title: "two Orders that keep room for the same pods",
    why: "Both select the same pods and reserve on the same nodes at the same time, so each pod has room kept for it twice. It takes the \
          ticket of the Order whose name comes first; the room of the other one is kept for nobody.",
    hint: "# one Order for these pods, or a selector that only one of them has\nselector: {matchLabels: {app: node-exporter}}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let rooms = rooms(all);
    let seekers = seekers(all, &rooms);
    let nodes = nodes(all);
    let mut orders: Vec<(&Room, &OrderSpec)> = rooms
        .iter()
        .filter_map(|room| Some((room, room.order.as_deref()?)))
        .filter(|(_, order)| order.places == Places::EachNode && order.selector.is_some() && !order.paused)
        .collect();
    // Pods are served in the order of names.
    orders.sort_by_key(|(room, _)| (&room.object.namespace, &room.object.name));
    for (number, (second, later)) in orders.iter().enumerate() {
        let twice = orders[..number].iter().find(|(first, order)| {
            first.object.namespace == second.object.namespace
                // One of the same name is another version of it, and another rule's matter.
                && first.object.name != second.object.name
                && same_time(order, later)
                && same_nodes(&nodes, &first.ticket.placement, &second.ticket.placement)
                && (order.selector == later.selector || seekers.iter().any(|one| served_by_both(one, first, second)))
        });
        if let Some((first, _)) = twice {
            let name = &second.object.name;
            found.at_key(
                &second.object.field("spec.selector"),
                format!("Order {name} keeps room for pods that Order {} serves already", first.object.name),
            );
        }
    }
}

fn served_by_both(seeker: &Seeker, one: &Room, other: &Room) -> bool {
    seeker.wanted == Wanted::Any && one.serves(seeker) && other.serves(seeker)
}

/// Room at night and room by day are not the same.
fn same_time(one: &OrderSpec, other: &OrderSpec) -> bool {
    match (&one.strategy, &other.strategy) {
        (Strategy::OneTime, _) | (_, Strategy::OneTime) => true,
        (one, other) => one == other,
    }
}

/// Whether there is a node for both. Where no nodes are known: whether one of them has all nodes of the other, as far as labels go.
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
