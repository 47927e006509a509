//! Limits on the Orders and tickets that are served in one namespace. The oldest objects are served first. The status of an
//! object that is not served says so.

use super::Facts;
use super::index::OrderEntry;
use super::spec::Ticket;

/// Maximum number of Orders that are served in one namespace. Each Order is evaluated again for every node that changes.
pub const MOST_ORDERS: usize = 200;
/// Maximum number of tickets that are served in one namespace: 20 Orders on 1,000 nodes. Each ticket is an object and a pod.
pub const MOST_TICKETS: usize = 20_000;

/// Returns why an Order creates no tickets, if it exceeds the budget of its namespace.
pub fn order_over(facts: Facts<'_>, entry: &OrderEntry) -> Option<String> {
    let order = &entry.order;
    let number = facts.reservations.number_of_orders(&order.namespace);
    // The Orders are compared only if there are too many, because that takes longer.
    if number > MOST_ORDERS {
        let is_older =
            |other: &&OrderEntry| (other.order.created, other.order.uid) < (order.created, order.uid);
        let older = facts.reservations.orders_in(&order.namespace).filter(is_older).take(MOST_ORDERS).count();
        if older == MOST_ORDERS {
            let namespace = &order.namespace;
            return Some(format!(
                "namespace {namespace} has {number} Orders; only the oldest {MOST_ORDERS} are served, not this one"
            ));
        }
    }
    no_ticket_left(facts, &order.namespace)
}

/// Returns why a ticket gets no guardian, if its namespace has too many tickets. An existing guardian is not deleted.
pub fn ticket_over(facts: Facts<'_>, ticket: &Ticket) -> Option<String> {
    let (namespace, number) = (&ticket.namespace, facts.reservations.number_of_tickets(&ticket.namespace));
    facts.reservations.is_beyond_budget(ticket).then(|| {
        format!(
            "namespace {namespace} has {number} tickets; only the oldest {MOST_TICKETS} are served, not this one"
        )
    })
}

fn no_ticket_left(facts: Facts<'_>, namespace: &str) -> Option<String> {
    let number = facts.reservations.number_of_tickets(namespace);
    (number >= MOST_TICKETS).then(|| {
        format!(
            "namespace {namespace} has {number} tickets; at most {MOST_TICKETS} are served, so no more are created"
        )
    })
}
