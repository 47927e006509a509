//! What to do about an Order: tickets that are missing are made, and those that are not wanted go. Only places in which something has
//! changed are looked at, or all of them when the time has come to reserve anew.

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

/// Names of tickets that an event lists.
const NAMED: usize = 5;

/// What is to be done in one place.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// It is as it should be, as far as that depends on us.
    Settled,
    /// Something is under way there, or waits for its turn.
    Wait,
    Make(Box<NewTicket>),
    /// These go.
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
    let mut work = Work { facts, entry, now, replacing: None };
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
                Step::Settled => settled.push(place),
                Step::Wait => {}
                Step::Make(_) if over || made.len() >= left => {}
                Step::Make(ticket) => {
                    made.push(ticket.target.name.clone());
                    decision.actions.push(Action::Create(Box::new(New::Ticket(*ticket))));
                }
                Step::Remove(tickets) => {
                    for ticket in tickets.into_iter().filter_map(|uid| facts.reservations.ticket(uid)) {
                        gone.push(ticket.name.clone());
                        decision.actions.extend(work.removal(ticket));
                    }
                }
            }
        }
        decision.events.extend(told(entry, Reason::TicketsMade, "made", &made));
        decision.events.extend(told(entry, Reason::TicketsRemoved, "removed", &gone));
        // What was decided everywhere and is not settled is looked at again when it changes.
        let changes = [spec.next_change(entry.order.times(), now), entry.next_loss(now)];
        decision.wake_at = changes.into_iter().flatten().min();
    }
    let (status, next) = order_status(facts, entry, now);
    decision.wake_at = decision.wake_at.into_iter().chain(next).min();
    decision.report = Some(Report::Order(Box::new(status)));
    decision.keep = Keep::Order { window, settled };
    decision
}

fn told(entry: &OrderEntry, reason: Reason, verb: &str, names: &[Arc<str>]) -> Option<Event> {
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

/// Why no ticket is made in a place that has none which is unclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Not before this time.
    Until(Timestamp),
    /// The time in which one would have been made is over.
    Over,
    /// There was one, and the Order never makes a second one (`refreshPolicy: Never`).
    Once,
}

/// Whether a ticket is made in a place that has none which is unclaimed, and for which time of the schedule. `tickets` are those
/// that were there before.
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

struct Work<'a> {
    facts: Facts<'a>,
    entry: &'a OrderEntry,
    now: Timestamp,
    /// The place whose ticket of an old template is being replaced.
    replacing: Option<Place>,
}

impl Work<'_> {
    fn step(&mut self, spec: &OrderSpec, place: &Place) -> Step {
        let Facts { cluster, reservations } = self.facts;
        let tickets: Vec<&Ticket> =
            self.entry.tickets_at(place).filter_map(|uid| reservations.ticket(uid)).collect();
        let is_writing = |ticket: &&Ticket| cluster.in_flight.is_writing(&ticket_target(ticket));
        // A room that is being handed over may come back: then the ticket is this place's again.
        let is_handed_over =
            |ticket: &&Ticket| ticket.is_being_handed_over() && !planted(Bug::ReplacedTooEarly);
        if tickets.iter().any(|ticket| is_writing(ticket) || is_handed_over(ticket)) {
            return Step::Wait;
        }
        let mut unclaimed: Vec<&Ticket> =
            tickets.iter().copied().filter(|ticket| ticket.is_unclaimed()).collect();
        unclaimed.sort_by_key(|ticket| (ticket.created, ticket.uid));
        let uids = |tickets: &[&Ticket]| tickets.iter().map(|ticket| ticket.uid).collect::<Vec<Uid>>();
        let wanted = self.entry.wants(place, self.now);
        match (wanted, unclaimed.as_slice()) {
            (None, []) => Step::Settled,
            (None, misplaced) => Step::Remove(uids(misplaced)),
            (Some(_), [_, surplus @ ..]) if !surplus.is_empty() => Step::Remove(uids(surplus)),
            (Some(_), [ticket, ..]) => self.replace(spec, place, ticket),
            // A ticket that is going away still has its name.
            (Some(true), []) if tickets.iter().any(|ticket| ticket.terminating) => Step::Wait,
            (Some(true), []) => self.make(spec, place, &tickets),
            (Some(false), []) => Step::Settled,
        }
    }

    /// A ticket of an old template goes, one at a time, and only while all others are Reserved.
    fn replace(&mut self, spec: &OrderSpec, place: &Place, ticket: &Ticket) -> Step {
        if ticket.template.as_ref() == Some(&spec.template.hash) {
            return Step::Settled;
        }
        let own = i64::from(ticket.phase() == super::spec::Phase::Pending);
        let others_wait = self.entry.tally.pending - own > 0;
        // A new ticket of another place that is not made yet counts as one that is not Reserved.
        let missing = self.entry.eligible() as i64 - self.entry.tally.current;
        let missing = if matches!(place, Place::Node(_)) { missing } else { 0 };
        if others_wait || missing > 0 || self.replacing.is_some() {
            return Step::Wait;
        }
        self.replacing = Some(place.clone());
        Step::Remove(vec![ticket.uid])
    }

    fn make(&self, spec: &OrderSpec, place: &Place, tickets: &[&Ticket]) -> Step {
        let Facts { cluster, reservations } = self.facts;
        let order = &self.entry.order;
        let Ok(tick) = opening(self.facts, order, spec, place, tickets, self.now) else {
            return Step::Settled;
        };
        let node = node_at(cluster, place);
        let text = place.to_string();
        let mut name: Arc<str> = self.entry.plain_name(place).into();
        // A ticket that has the name: ours, which somebody has claimed or which has ended, or that of another Order.
        let mut passed = BTreeSet::new();
        while let Some(taken) =
            reservations.ticket_named(&order.namespace, &name).filter(|taken| passed.insert(taken.uid))
        {
            name = ticket_name_beside(&order.name, &text, taken.uid).into();
        }
        let target = Target { kind: Kind::Ticket, namespace: order.namespace.clone(), name, uid: None };
        if cluster.in_flight.is_writing(&target) {
            return Step::Wait;
        }
        Step::Make(Box::new(NewTicket {
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

    /// A ticket goes, and its guardian with it: the garbage collector would take its time.
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
