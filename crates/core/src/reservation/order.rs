//! Decides the next steps for an Order: creates missing tickets, and deletes tickets that are not wanted. Only places that have
//! changed are checked, or all places when a reservation window opens or closes.

use super::Facts;
use super::budget;
use super::index::{Guardian, OrderEntry, Place, guardian, ticket_target};
use super::names::ticket_name_beside;
use super::reason::Reason;
use super::spec::{Order, OrderSpec, Refresh, Ticket};
use super::status::{order_status, subject};
use super::timetable::Window;
use crate::{
    Timestamp, Uid,
    cluster::{Cluster, Target},
    decision::{Action, Decision, Delete, Event, EventKind, Keep, New, NewTicket, Report},
    kind::Kind,
    node::Node,
    planted::{Bug, planted},
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of ticket names in an event.
const NAMED: usize = 5;

/// The next step in one place.
#[derive(Clone, Debug, PartialEq)]
enum PlaceStep {
    /// No action is needed.
    Settled,
    /// A write or a hand-over is in progress, or the place waits for its turn.
    Wait,
    Make(Box<NewTicket>),
    /// Delete these tickets.
    Remove(Vec<Uid>),
}

pub fn decide(facts: Facts<'_>, uid: Uid, now: Timestamp, budget: usize) -> Decision {
    let Some(entry) = facts.reservations.order(uid) else {
        return Decision { finished: true, ..Decision::nothing() };
    };
    if entry.order.terminating {
        return Decision::nothing();
    }
    let mut decision = Decision::nothing();
    let mut work = OrderDecider { facts, entry, now, replacing: None };
    let mut settled = Vec::new();
    let mut window = entry.window();
    if let Some(spec) = entry.spec().filter(|spec| !spec.paused) {
        let now_open = spec.window(entry.order.times(), entry.order.created, now);
        let everywhere = window != Some(now_open);
        window = Some(now_open);
        let places: BTreeSet<Place> = match everywhere {
            true => entry.all_places(),
            false => entry.unsettled(now),
        };
        let (mut made, mut gone) = (Vec::new(), Vec::new());
        let over = budget::order_over(facts, entry).is_some();
        let left =
            budget::MOST_TICKETS.saturating_sub(facts.reservations.number_of_tickets(&entry.order.namespace));
        for place in places {
            if decision.actions.len() >= budget {
                decision.more = true;
                break;
            }
            match work.step(spec, &place) {
                PlaceStep::Settled => settled.push(place),
                PlaceStep::Wait => {}
                PlaceStep::Make(_) if over || made.len() >= left => {}
                PlaceStep::Make(ticket) => {
                    made.push(ticket.target.name.clone());
                    decision.actions.push(Action::Create(Box::new(New::Ticket(*ticket))));
                }
                PlaceStep::Remove(tickets) => {
                    for ticket in tickets.into_iter().filter_map(|uid| facts.reservations.ticket(uid)) {
                        gone.push(ticket.name.clone());
                        decision.actions.extend(work.removal(ticket));
                    }
                }
            }
        }
        decision.events.extend(ticket_event(entry, Reason::TicketsMade, "created", &made));
        decision.events.extend(ticket_event(entry, Reason::TicketsRemoved, "removed", &gone));
        // Places that are not settled are decided again when they change, so only changes that depend on time need a wake-up.
        let changes = [spec.next_change(entry.order.times(), now), entry.next_loss(now)];
        decision.wake_at = changes.into_iter().flatten().min();
    }
    let (status, next) = order_status(facts, entry, now);
    decision.wake_at = decision.wake_at.into_iter().chain(next).min();
    decision.report = Some(Report::Order(Box::new(status)));
    decision.keep = Keep::Order { window, settled };
    decision
}

fn ticket_event(entry: &OrderEntry, reason: Reason, verb: &str, names: &[Arc<str>]) -> Option<Event> {
    let number = names.len();
    let first: Vec<&str> = names.iter().take(NAMED).map(|name| &**name).collect();
    let rest = if number > NAMED { format!(" and {} more", number - NAMED) } else { String::new() };
    let tickets = if number == 1 { "ticket" } else { "tickets" };
    let message = format!("{verb} {number} {tickets}: {}{rest}", first.join(", "));
    (number > 0).then(|| Event {
        about: subject(entry),
        kind: EventKind::Normal,
        reason: reason.code(),
        message,
    })
}

/// Why no ticket is created in a place without an unclaimed ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Not before this time.
    Until(Timestamp),
    /// The reservation window has ended.
    Over,
    /// The place had a ticket in this window, and the Order does not replace tickets (`refreshPolicy: Never`).
    Once,
}

/// Returns the scheduled time for a new ticket in a place without an unclaimed ticket, or why none is created.
/// `tickets` are the existing tickets of the place.
pub fn opening(
    facts: Facts<'_>,
    order: &Order,
    spec: &OrderSpec,
    place: &Place,
    tickets: &[&Ticket],
    now: Timestamp,
) -> Result<Option<Timestamp>, Closed> {
    let last_claim =
        tickets.iter().filter_map(|ticket| ticket.record.claim.as_ref()).map(|claim| claim.at).max();
    let node = node_at(facts.cluster, place).map(|node| node.created);
    let since = [Some(order.created), node, last_claim].into_iter().flatten().max();
    let tick = match spec.window(order.times(), since.unwrap_or(order.created), now) {
        Window::Open { tick } => tick,
        Window::Opens(at) => return Err(Closed::Until(at)),
        Window::Closed => return Err(Closed::Over),
    };
    let again = tickets.iter().any(|ticket| ticket.tick == tick);
    if spec.refresh == Refresh::Never && again { Err(Closed::Once) } else { Ok(tick) }
}

fn node_at<'a>(cluster: &'a Cluster, place: &Place) -> Option<&'a Node> {
    match place {
        Place::Node(node) => cluster.node(node),
        Place::Index(_) => None,
    }
}

struct OrderDecider<'a> {
    facts: Facts<'a>,
    entry: &'a OrderEntry,
    now: Timestamp,
    /// The place whose ticket has an old template and is being replaced.
    replacing: Option<Place>,
}

impl OrderDecider<'_> {
    fn step(&mut self, spec: &OrderSpec, place: &Place) -> PlaceStep {
        let Facts { cluster, reservations } = self.facts;
        let tickets: Vec<&Ticket> =
            self.entry.tickets_at(place).filter_map(|uid| reservations.ticket(uid)).collect();
        let is_writing = |ticket: &&Ticket| cluster.in_flight.is_writing(&ticket_target(ticket));
        // If a hand-over fails, its ticket becomes unclaimed again, so it must not have been replaced.
        let is_handed_over =
            |ticket: &&Ticket| ticket.is_being_handed_over() && !planted(Bug::ReplacedTooEarly);
        if tickets.iter().any(|ticket| is_writing(ticket) || is_handed_over(ticket)) {
            return PlaceStep::Wait;
        }
        let mut unclaimed: Vec<&Ticket> =
            tickets.iter().copied().filter(|ticket| ticket.is_unclaimed()).collect();
        unclaimed.sort_by_key(|ticket| (ticket.created, ticket.uid));
        let uids = |tickets: &[&Ticket]| tickets.iter().map(|ticket| ticket.uid).collect::<Vec<Uid>>();
        let wanted = self.entry.wants(place, self.now);
        match (wanted, unclaimed.as_slice()) {
            (None, []) => PlaceStep::Settled,
            (None, misplaced) => PlaceStep::Remove(uids(misplaced)),
            (Some(_), [_, surplus @ ..]) if !surplus.is_empty() => PlaceStep::Remove(uids(surplus)),
            (Some(_), [ticket, ..]) => self.replace(spec, place, ticket),
            // A terminating ticket still occupies its name.
            (Some(true), []) if tickets.iter().any(|ticket| ticket.terminating) => PlaceStep::Wait,
            (Some(true), []) => self.make(spec, place, &tickets),
            (Some(false), []) => PlaceStep::Settled,
        }
    }

    /// Replaces a ticket with an old template: one at a time, and only while all others are Reserved.
    fn replace(&mut self, spec: &OrderSpec, place: &Place, ticket: &Ticket) -> PlaceStep {
        if ticket.template.as_ref() == Some(&spec.template.hash) {
            return PlaceStep::Settled;
        }
        let own = i64::from(ticket.phase() == super::spec::TicketPhase::Pending);
        let others_wait = self.entry.tally.pending - own > 0;
        // A ticket that has not been created yet counts as one that is not Reserved.
        let missing = self.entry.eligible() as i64 - self.entry.tally.current;
        let missing = if matches!(place, Place::Node(_)) { missing } else { 0 };
        if others_wait || missing > 0 || self.replacing.is_some() {
            return PlaceStep::Wait;
        }
        self.replacing = Some(place.clone());
        PlaceStep::Remove(vec![ticket.uid])
    }

    fn make(&self, spec: &OrderSpec, place: &Place, tickets: &[&Ticket]) -> PlaceStep {
        let Facts { cluster, reservations } = self.facts;
        let order = &self.entry.order;
        let Ok(tick) = opening(self.facts, order, spec, place, tickets, self.now) else {
            return PlaceStep::Settled;
        };
        let node = node_at(cluster, place);
        let text = place.to_string();
        let mut name: Arc<str> = self.entry.plain_name(place).into();
        // The name may belong to a claimed or expired ticket of this Order, or to a ticket of another Order.
        let mut passed = BTreeSet::new();
        while let Some(taken) =
            reservations.ticket_named(&order.namespace, &name).filter(|taken| passed.insert(taken.uid))
        {
            name = ticket_name_beside(&order.name, &text, taken.uid).into();
        }
        let target = Target { kind: Kind::Ticket, namespace: order.namespace.clone(), name, uid: None };
        if cluster.in_flight.is_writing(&target) {
            return PlaceStep::Wait;
        }
        PlaceStep::Make(Box::new(NewTicket {
            target,
            order: order.uid,
            order_name: order.name.clone(),
            template: spec.template.clone(),
            node: node.map(|node| node.name.clone()),
            index: match place {
                Place::Index(index) => Some(*index),
                Place::Node(_) => None,
            },
            tick,
        }))
    }

    /// Deletes a ticket and its guardian. The garbage collector would delete the guardian only later.
    fn removal(&self, ticket: &Ticket) -> Vec<Action> {
        let mut actions = vec![Action::Delete(Delete { target: ticket_target(ticket), at_once: false })];
        if let Guardian::Ours(pod) = guardian(self.facts.cluster, ticket)
            && !self.facts.cluster.is_writing_pod(pod.uid)
        {
            actions.push(Action::Delete(Delete { target: Target::of_pod(pod), at_once: true }));
        }
        actions
    }
}
