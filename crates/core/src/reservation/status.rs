//! The status of an Order.

use super::Facts;
use super::budget;
use super::index::{OrderEntry, Tally};
use super::reason::Reason;
use super::spec::{Places, Strategy};
use super::timetable::Window;
use crate::{Timestamp, decision::Subject, kind::Kind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    pub observed_generation: i64,
    /// Desired number of unclaimed tickets.
    pub desired: u32,
    pub replicas: u32,
    pub available: u32,
    pub unavailable: u32,
    pub terminal: u32,
    pub updated: u32,
    pub claimed: u32,
    /// Present only in daemonSet mode.
    pub nodes: Option<NodeNumbers>,
    pub last_schedule: Option<Timestamp>,
    pub next_schedule: Option<Timestamp>,
    pub message: String,
    pub ready: Cause,
    pub progressing: Cause,
    pub failure: Cause,
    /// Present if the spec is invalid.
    pub stalled: Option<Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeNumbers {
    pub desired: u32,
    pub current: u32,
    pub ready: u32,
    pub misscheduled: u32,
}

/// A condition: whether it holds, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub holds: bool,
    pub reason: Reason,
    pub message: String,
}

impl Cause {
    fn new(holds: bool, reason: Reason, message: impl Into<String>) -> Cause {
        Cause { holds, reason, message: message.into() }
    }
}

/// The prefix of a message that contains the API server's rejection of a ticket.
const REFUSED: &str = "cannot create a ticket: ";

/// Returns the API server's response from the message of a `TicketRefused` condition.
pub fn words_of_refusal(message: &str) -> &str {
    message.strip_prefix(REFUSED).unwrap_or(message)
}

pub fn subject(entry: &OrderEntry) -> Subject {
    let order = &entry.order;
    let (namespace, name) = (order.namespace.clone(), order.name.clone());
    Subject { kind: Kind::Order, namespace, name, uid: order.uid }
}

fn number(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// Returns the status, and the time when the number of available tickets next changes without an event.
pub fn order_status(
    facts: Facts<'_>,
    entry: &OrderEntry,
    now: Timestamp,
) -> (OrderStatus, Option<Timestamp>) {
    let Tally { pending, reserved, claimed, expired, updated, no_room, current, ready, misplaced } =
        entry.tally;
    let (maturing, next) = entry.maturing(now);
    let maturing = maturing as i64;
    // Only wanted places count here. A surplus ticket is about to be deleted: counted, it would make "3 of 2 tickets reserved".
    let available = number(ready - maturing);
    let spec = entry.spec();
    let is_paused = spec.is_some_and(|spec| spec.paused);
    let window = spec.map(|spec| spec.window(entry.order.times(), entry.order.created, now));
    let reserves = matches!(window, Some(Window::Open { .. }));
    let each_node = spec.is_some_and(|spec| spec.places == Places::EachNode);
    let places = match spec.map(|spec| spec.places) {
        Some(Places::Number(number)) => number,
        Some(Places::EachNode) => number(entry.eligible() as i64),
        None => 0,
    };
    // Outside a reservation window no tickets are desired, but existing ones stay until they expire. The places of a OneTime
    // Order have different windows, so the places with an unclaimed ticket count as desired.
    let one_time = spec.is_some_and(|spec| spec.strategy == Strategy::OneTime);
    let desired = match (reserves, one_time) {
        (true, _) => places,
        (false, true) => number(current),
        (false, false) => 0,
    };
    let timetable = spec.and_then(|spec| spec.timetable());
    // A paused Order has not reserved for the tick, and may do so later.
    let last_schedule = match window {
        Some(Window::Open { tick: Some(tick) }) if !is_paused => Some(tick),
        _ => entry.order.last_tick,
    };
    let next_schedule = spec.zip(timetable).and_then(|(spec, timetable)| match (&spec.strategy, window) {
        (Strategy::Scheduled(_), Some(Window::Opens(tick))) => Some(tick),
        (Strategy::Recurring(_), _) => timetable.next(now),
        _ => None,
    });
    let counted =
        OrderCounts { desired, available, no_room: number(no_room), each_node, nodes: entry.eligible() };
    let lacks = i64::from(desired) > current;
    let over = budget::order_over(facts, entry).filter(|_| lacks);
    let (ready_cause, message) = match &over {
        Some(why) => (Cause::new(false, Reason::TooMany, why.clone()), why.clone()),
        None => counted.ready(entry, window),
    };
    let changes = spec.is_some() && (misplaced > 0 || updated < pending + reserved);
    // A rejection counts only while tickets are missing or outdated. Another controller may have created or replaced them
    // meanwhile.
    let failure = match facts.reservations.refusal(entry.order.uid).filter(|_| lacks || changes) {
        Some(refusal) => Cause::new(true, Reason::TicketRefused, format!("{REFUSED}{}", refusal.message)),
        None if over.is_some() => Cause::new(true, Reason::TooMany, message.clone()),
        None if no_room > 0 => Cause::new(true, Reason::NoRoom, message.clone()),
        None => Cause::new(false, Reason::NoFailure, ""),
    };
    // A ticket without capacity waits for other pods to end, so the Order does not count as progressing because of it.
    let waits = !ready_cause.holds && no_room < i64::from(desired) - i64::from(available);
    let progressing = match is_paused {
        true => Cause::new(false, Reason::Paused, "no tickets are created or removed"),
        false if (waits || changes) && over.is_none() => Cause::new(true, Reason::Reserving, message.clone()),
        false => Cause::new(false, Reason::Settled, ""),
    };
    let stalled =
        entry.order.spec.as_ref().err().map(|wrong| Cause::new(true, Reason::InvalidSpec, &**wrong));
    let status = OrderStatus {
        observed_generation: entry.order.generation,
        desired,
        replicas: number(pending + reserved + claimed),
        available,
        unavailable: number(current - ready + maturing),
        terminal: number(expired),
        updated: number(updated),
        claimed: number(claimed),
        nodes: each_node.then(|| NodeNumbers {
            desired: number(entry.eligible() as i64),
            current: number(current),
            ready: number(ready),
            misscheduled: number(misplaced),
        }),
        last_schedule,
        next_schedule,
        message: stalled.as_ref().map_or(message, |stalled| stalled.message.clone()),
        ready: ready_cause,
        progressing,
        failure,
        stalled,
    };
    (status, next)
}

struct OrderCounts {
    desired: u32,
    available: u32,
    no_room: u32,
    each_node: bool,
    nodes: usize,
}

impl OrderCounts {
    fn ready(&self, entry: &OrderEntry, window: Option<Window>) -> (Cause, String) {
        let OrderCounts { desired, available, no_room, each_node, nodes } = *self;
        let no_room_text = match (no_room, each_node) {
            (0, _) => String::new(),
            (1, true) => "; not enough capacity on 1 node".to_owned(),
            (number, true) => format!("; not enough capacity on {number} nodes"),
            (number, false) => format!("; not enough capacity for {number}"),
        };
        let what = if each_node { "nodes" } else { "tickets" };
        let text = format!("{available} of {desired} {what} reserved{no_room_text}");
        let cause = match window {
            None => Cause::new(false, Reason::InvalidSpec, text.clone()),
            _ if each_node && nodes == 0 => {
                let text = match entry.most_often_unfit() {
                    Some((criterion, number)) => {
                        let all = entry.fits().count();
                        format!("none of {all} nodes is eligible: {number} {}", criterion.describe())
                    }
                    None => "the cluster has no nodes".to_owned(),
                };
                return (Cause::new(false, Reason::NoEligibleNode, text.clone()), text);
            }
            Some(Window::Opens(at)) if desired == 0 => {
                let text = format!("the next reservation is at {at}");
                return (Cause::new(false, Reason::NotYet, text.clone()), text);
            }
            Some(Window::Closed) if desired == 0 => {
                let text = "the reservation period has ended: no more tickets are created".to_owned();
                return (Cause::new(false, Reason::Over, text.clone()), text);
            }
            _ if available >= desired => Cause::new(true, Reason::Reserved, text.clone()),
            _ if no_room > 0 => Cause::new(false, Reason::NoRoom, text.clone()),
            _ => Cause::new(false, Reason::Reserving, text.clone()),
        };
        (cause, text)
    }
}
