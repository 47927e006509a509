//! What one namespace can cost at most. Who is over it is told so in his own status. Who was there first keeps what he has.

use super::Facts;
use super::index::OrderEntry;
use super::spec::Ticket;

/// Orders of one namespace that are served. Each of them costs a look at every node that changes.
pub const MOST_ORDERS: usize = 200;
/// Tickets of one namespace that are served: 20 Orders on a thousand nodes. Each of them is an object and a pod.
pub const MOST_TICKETS: usize = 20_000;

/// Why an Order makes no ticket, if it is over the budget of its namespace.
pub fn order_over(facts: Facts<'_>, entry: &OrderEntry) -> Option<String> {
    let order = &entry.order;
    let number = facts.reservations.number_of_orders(&order.namespace);
    // Only then are they looked through.
    if number > MOST_ORDERS {
        let is_older =
            |other: &&OrderEntry| (other.order.created, other.order.uid) < (order.created, order.uid);
        let older = facts.reservations.orders_in(&order.namespace).filter(is_older).take(MOST_ORDERS).count();
        if older == MOST_ORDERS {
            let namespace = &order.namespace;
            return Some(format!(
                "namespace {namespace} has {number} Orders: the oldest {MOST_ORDERS} are served, and this one is younger"
            ));
        }
    }
    no_ticket_left(facts, &order.namespace)
}

/// Why a ticket gets no guardian, if there are too many tickets in its namespace. One that has a guardian keeps it.
pub fn ticket_over(facts: Facts<'_>, ticket: &Ticket) -> Option<String> {
    let (namespace, number) = (&ticket.namespace, facts.reservations.number_of_tickets(&ticket.namespace));
    facts.reservations.is_beyond_budget(ticket).then(|| {
        format!(
            "namespace {namespace} has {number} tickets: the oldest {MOST_TICKETS} are served, and this one is younger"
        )
    })
}

fn no_ticket_left(facts: Facts<'_>, namespace: &str) -> Option<String> {
    let number = facts.reservations.number_of_tickets(namespace);
    (number >= MOST_TICKETS).then(|| {
        format!(
            "namespace {namespace} has {number} tickets, and at most {MOST_TICKETS} are served: no room is kept for more"
        )
    })
}
