//! Decides the next step for a pod with the ticket gate: the pod claims a ticket and gets its capacity, or runs without a ticket.
//!
//! The ticket records the claim first. From then on its guardian is not re-created, and no other pod can claim it. The steps
//! after that are those of [`hand_over`](super::hand_over).

use super::Facts;
use super::eligible::may_run_on;
use super::hand_over::{HandOverStep, next_step};
use super::index::{Guardian, OrderEntry, Place, WaitingPodState, guardian, is_gated, ticket_target};
use super::names::{TICKET_CLAIMED, TICKET_NODE};
use super::orphan;
use super::reason::Reason;
use super::spec::{
    Order, Places, Request, RequestedTicket, Ticket, TicketClaim, TicketPhase, TicketRecord, amounts,
    lacking, utilization,
};
use super::ticket::priority;
use super::timetable::Window;
use crate::{
    Timestamp, Uid,
    cluster::Target,
    decision::{
        Action, Decision, Delete, DropGate, Event, EventKind, Keep, Nominate, PodPatch, Subject, TicketWrite,
    },
    facts::Pod,
    gates,
    kind::Kind,
    planted::{Bug, planted},
};
use jiff::SignedDuration;
use std::sync::Arc;

/// How long a pod waits for a ticket that is about to be Reserved.
pub const TICKET_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// The choice for a waiting pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice<'a> {
    Ticket(&'a Ticket),
    /// No ticket yet: a suitable one is not Reserved yet. Contains an explanation.
    Soon(String),
    /// No ticket: the pod runs without one. Contains the reason of the event and an explanation.
    None {
        reason: Reason,
        why: String,
    },
}

pub fn decide(facts: Facts<'_>, uid: Uid, now: Timestamp) -> Decision {
    let Facts { cluster, reservations } = facts;
    let found = cluster.pod(uid).filter(|pod| is_gated(pod) && !pod.terminating);
    let found = found.and_then(|pod| Some((pod, pod.request.as_deref()?, reservations.waiting(pod)?)));
    let Some((pod, request, waiting)) = found else {
        let actions: Vec<Action> = orphan::removal(facts, uid).into_iter().collect();
        return Decision { finished: actions.is_empty(), actions, ..Decision::nothing() };
    };
    let nothing = Decision { keep: Keep::Claim(*waiting), ..Decision::nothing() };
    // Claim only when the ticket gate is the last gate. While other gates hold the pod, other pods could take capacity that is
    // handed over.
    let others = pod.gates.len() > 1 && !planted(Bug::ClaimWithOtherGates);
    if others || cluster.is_writing_pod(uid) || cluster.in_flight.is_claiming(uid) {
        return nothing;
    }
    let since = waiting.since.unwrap_or(now);
    let waiting = WaitingPodState { since: Some(since), ..*waiting };
    let keep = Keep::Claim(waiting);
    if let Some(ticket) = reservations.claimed_by(uid) {
        if cluster.in_flight.is_writing(&ticket_target(ticket)) {
            return nothing;
        }
        return hand_over(facts, pod, ticket, keep, now);
    }
    match choose(facts, pod, request, now) {
        Choice::Ticket(ticket) => {
            let record = claimed(ticket, pod, request, now);
            let (target, version) = (ticket_target(ticket), ticket.version);
            let keep = Keep::Claim(WaitingPodState { tried: Some((ticket.uid, version)), ..waiting });
            let write = Action::WriteTicket(Box::new(TicketWrite { target, version, record }));
            Decision { actions: vec![write], keep, ..Decision::nothing() }
        }
        Choice::Soon(_) if since + TICKET_WITHIN > now => {
            Decision { wake_at: Some(since + TICKET_WITHIN), keep, ..Decision::nothing() }
        }
        Choice::Soon(why) => unreserved(pod, Reason::NoTicket, &why, keep),
        Choice::None { reason, why } => unreserved(pod, reason, &why, keep),
    }
}

fn claimed(ticket: &Ticket, pod: &Pod, request: &Request, now: Timestamp) -> TicketRecord {
    let room = ticket.spec.as_ref().map(|spec| &spec.requests);
    let utilization = room.map_or(0, |room| utilization(room, &request.resources));
    let claim = TicketClaim { pod: pod.uid, name: pod.name.clone(), at: now, utilization };
    let message = format!("claimed by {}", pod.name).into();
    let expiring = ticket.record.expiring.becomes(false, now);
    let (phase, reason) = (Some(TicketPhase::Claimed), Reason::Claimed.code().into());
    TicketRecord { phase, claim: Some(claim), reason, message, expiring, ..ticket.record.clone() }
}

/// Carries out the next step for a pod that has claimed a ticket.
fn hand_over(facts: Facts<'_>, pod: &Pod, ticket: &Ticket, keep: Keep, now: Timestamp) -> Decision {
    let Some(node) = &ticket.record.node else {
        return Decision { actions: vec![drop_gate(pod, Vec::new())], keep, ..Decision::nothing() };
    };
    let nominate = |node: Option<&Arc<str>>| {
        let (target, node) = (Target::of_pod(pod), node.cloned());
        Action::Nominate(Nominate { target, node, forget: Vec::new() })
    };
    let (mut action, mut wake_at) = (None, None);
    match next_step(facts, ticket, now) {
        Some(HandOverStep::Nominate) => action = Some(nominate(Some(node))),
        Some(HandOverStep::ClearNomination) => action = Some(nominate(None)),
        Some(HandOverStep::DeleteGuardian(guardian)) => {
            action = Some(Action::Delete(Delete { target: Target::of_pod(guardian), at_once: true }));
        }
        Some(HandOverStep::RemoveGate) => {
            let results = vec![(TICKET_CLAIMED, ticket.name.to_string()), (TICKET_NODE, node.to_string())];
            action = Some(drop_gate(pod, results));
        }
        Some(HandOverStep::AwaitForeign(_, until)) => wake_at = Some(until),
        Some(HandOverStep::AwaitTurn | HandOverStep::AwaitNominations | HandOverStep::AwaitDeletions)
        | None => {}
    }
    Decision { actions: action.into_iter().collect(), wake_at, keep, ..Decision::nothing() }
}

fn drop_gate(pod: &Pod, annotations: Vec<(&'static str, String)>) -> Action {
    let place = pod.gates.iter().position(|gate| **gate == *gates::TICKET);
    let drop_gate = Some(DropGate { name: gates::TICKET.into(), place });
    let patch = PodPatch::new(pod.uid, pod.namespace.clone(), pod.name.clone());
    Action::PatchPod(PodPatch { drop_gate, annotations, ..patch })
}

fn unreserved(pod: &Pod, reason: Reason, why: &str, keep: Keep) -> Decision {
    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
    let about = Subject { kind: Kind::Pod, namespace, name, uid: pod.uid };
    let message = format!("runs without reserved capacity: {why}");
    let event = Event { about, kind: EventKind::Warning, reason: reason.code(), message };
    Decision { actions: vec![drop_gate(pod, Vec::new())], events: vec![event], keep, ..Decision::nothing() }
}

/// Chooses a ticket for a pod.
pub fn choose<'a>(facts: Facts<'a>, pod: &Pod, request: &Request, now: Timestamp) -> Choice<'a> {
    let Facts { reservations, .. } = facts;
    let none = |why: String| Choice::None { reason: Reason::NoTicket, why };
    match &request.wanted {
        RequestedTicket::Unclear(why) => none(why.to_string()),
        RequestedTicket::Ticket(name) => match reservations.ticket_named(&pod.namespace, name) {
            None => none(format!("ticket {name} not found")),
            Some(ticket) => best(facts, pod, request, &[ticket], || format!("ticket {name}")),
        },
        RequestedTicket::Label { key, value } => {
            let tickets = labelled(facts, pod, key, value);
            best(facts, pod, request, &tickets, || format!("a ticket labelled {key}={value}"))
        }
        RequestedTicket::Order(name) => match reservations.order_named(&pod.namespace, name) {
            None => none(format!("Order {name} not found")),
            Some(entry) => of_order(facts, pod, request, entry, now),
        },
        RequestedTicket::Any => {
            let mut orders = selecting(facts, pod, request);
            let mut answer = none("no Order selects the pod, and the pod requests no ticket".to_owned());
            while !matches!(answer, Choice::Ticket(_) | Choice::Soon(_))
                && let Some(entry) = orders.next()
            {
                answer = of_order(facts, pod, request, entry, now);
            }
            answer
        }
    }
}

/// Returns the tickets among which [`choose`] chooses, including those that the pod cannot claim.
pub fn candidates<'a>(facts: Facts<'a>, pod: &Pod, request: &Request) -> Vec<&'a Ticket> {
    let Facts { reservations, .. } = facts;
    match &request.wanted {
        RequestedTicket::Unclear(_) => Vec::new(),
        RequestedTicket::Ticket(name) => {
            reservations.ticket_named(&pod.namespace, name).into_iter().collect()
        }
        RequestedTicket::Label { key, value } => labelled(facts, pod, key, value),
        RequestedTicket::Order(name) => {
            let entry = reservations.order_named(&pod.namespace, name);
            entry.map(|entry| tickets_for(facts, pod, entry).1).unwrap_or_default()
        }
        RequestedTicket::Any => {
            selecting(facts, pod, request).flat_map(|entry| tickets_for(facts, pod, entry).1).collect()
        }
    }
}

fn labelled<'a>(facts: Facts<'a>, pod: &Pod, key: &Arc<str>, value: &Arc<str>) -> Vec<&'a Ticket> {
    let labelled = |ticket: &&Ticket| ticket.labels.get(key) == Some(value);
    facts.reservations.tickets_in(&pod.namespace).filter(labelled).collect()
}

/// Returns the Orders that select a pod without a ticket request.
fn selecting<'a>(facts: Facts<'a>, pod: &Pod, request: &Request) -> impl Iterator<Item = &'a OrderEntry> {
    facts.reservations.orders_in(&pod.namespace).filter(move |entry| {
        let spec = entry.spec().filter(|spec| spec.places == Places::EachNode);
        spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| selector.matches(&request.labels))
    })
}

/// Returns the tickets of an Order that a pod may claim. For an Order with one ticket per node and a pod that can run on only one
/// node, these are the tickets of that node. The returned place is then that node.
fn tickets_for<'a>(facts: Facts<'a>, pod: &Pod, entry: &'a OrderEntry) -> (Option<Place>, Vec<&'a Ticket>) {
    let own = |_: &Place| is_each_node(entry) && !planted(Bug::OtherNodesTicket);
    let place = facts.cluster.node_of(pod).map(Place::Node).filter(own);
    let ticket = |uid: Uid| facts.reservations.ticket(uid);
    let tickets = match &place {
        Some(place) => entry.tickets_at(place).filter_map(ticket).collect(),
        None => entry.tickets().filter_map(ticket).collect(),
    };
    (place, tickets)
}

fn of_order<'a>(
    facts: Facts<'a>,
    pod: &Pod,
    request: &Request,
    entry: &'a OrderEntry,
    now: Timestamp,
) -> Choice<'a> {
    let Order { name, .. } = &entry.order;
    let (place, tickets) = tickets_for(facts, pod, entry);
    let choice = best(facts, pod, request, &tickets, || match &place {
        Some(node) => format!("a ticket of Order {name} on {node}"),
        None => format!("a ticket of Order {name}"),
    });
    // A ticket that is about to be created counts like one that is Pending.
    let missing = match &place {
        Some(place) => {
            entry.wants(place, now) == Some(true)
                && entry.chosen(place, |uid| facts.reservations.ticket(uid)).is_none()
        }
        None => !entry.unsettled(now).is_empty(),
    };
    let times = entry.order.times();
    let open = entry
        .spec()
        .is_some_and(|spec| !spec.paused && matches!(spec.window(times, now, now), Window::Open { .. }));
    match choice {
        Choice::None { reason: Reason::NoTicket, why } if missing && open => Choice::Soon(why),
        choice => choice,
    }
}

fn is_each_node(entry: &OrderEntry) -> bool {
    entry.spec().is_some_and(|spec| spec.places == Places::EachNode)
}

/// The obstacle that prevents a pod from claiming a ticket, in ascending order of severity. Messages name the smallest obstacle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    Soon(Arc<str>),
    Priority {
        ticket: i32,
        pod: i32,
    },
    TooSmall(String),
    Node(Arc<str>),
    Taken(Arc<str>),
    /// The ticket has an invalid spec.
    Invalid(Arc<str>),
    Over,
}

impl Obstacle {
    /// Describes the obstacle. `what` denotes the ticket, such as "ticket a".
    pub fn describe(&self, what: &str) -> String {
        match self {
            Obstacle::Soon(reason) => format!("{what} is not Reserved yet: {reason}"),
            Obstacle::Priority { ticket, pod } => format!(
                "the pod's priority {pod} is below {ticket}, the priority of {what}; give the pod the priorityClassName of the ticket"
            ),
            Obstacle::TooSmall(lack) => format!("{what} is too small: {lack}"),
            Obstacle::Node(node) => format!("{what} is on {node}, where the pod cannot run"),
            Obstacle::Taken(by) => format!("{what} is claimed by {by}"),
            Obstacle::Invalid(wrong) => format!("{what} has an invalid spec: {wrong}"),
            Obstacle::Over => format!("{what} has expired or is being deleted"),
        }
    }
}

fn best<'a>(
    facts: Facts<'a>,
    pod: &Pod,
    request: &Request,
    tickets: &[&'a Ticket],
    what: impl Fn() -> String,
) -> Choice<'a> {
    let mut free: Vec<&Ticket> = Vec::new();
    let mut obstacle: Option<Obstacle> = None;
    for ticket in tickets {
        match check(facts, pod, request, ticket) {
            Ok(()) => free.push(ticket),
            Err(other) => obstacle = Some(obstacle.map_or(other.clone(), |first| first.min(other))),
        }
    }
    // Prefer the ticket that the pod may have claimed already, in a write without an answer. Then prefer a ticket on the node for
    // which the pod is nominated, and then the smallest ticket.
    let tried = facts.reservations.waiting(pod).and_then(|waiting| waiting.tried);
    let tried = |ticket: &Ticket| tried == Some((ticket.uid, ticket.version));
    let size = |ticket: &Ticket| {
        let room = ticket.spec.as_ref().map(|spec| &spec.requests).ok();
        room.into_iter().flatten().map(|(_, amount)| amount.nanos()).collect::<Vec<i128>>()
    };
    let nominated = |ticket: &Ticket| ticket.record.node.is_some() && ticket.record.node == pod.nominated;
    let first = free
        .into_iter()
        .min_by_key(|ticket| (!tried(ticket), !nominated(ticket), size(ticket), ticket.name.clone()));
    let what = what();
    match (first, obstacle) {
        (Some(ticket), _) => Choice::Ticket(ticket),
        (None, Some(obstacle)) => {
            let why = obstacle.describe(&what);
            match obstacle {
                Obstacle::Soon(_) => Choice::Soon(why),
                Obstacle::Priority { .. } => Choice::None { reason: Reason::PriorityBelowTicket, why },
                Obstacle::TooSmall(_)
                | Obstacle::Node(_)
                | Obstacle::Taken(_)
                | Obstacle::Invalid(_)
                | Obstacle::Over => Choice::None { reason: Reason::NoTicket, why },
            }
        }
        (None, None) => {
            let why = format!("no {} exists", what.trim_start_matches("a "));
            Choice::None { reason: Reason::NoTicket, why }
        }
    }
}

/// Checks whether a pod can claim a ticket now.
pub fn check(facts: Facts<'_>, pod: &Pod, request: &Request, ticket: &Ticket) -> Result<(), Obstacle> {
    let spec = ticket.spec.as_ref().map_err(|wrong| Obstacle::Invalid(wrong.clone()))?;
    if let Some(claim) = ticket.claim() {
        return Err(Obstacle::Taken(claim.name.clone()));
    }
    if !ticket.is_unclaimed() {
        return Err(Obstacle::Over);
    }
    if let Some((name, amount)) = lacking(&spec.requests, &request.resources)
        && !planted(Bug::ClaimTooSmall)
    {
        let text =
            format!("the pod requests {amount} {name}, the ticket reserves {}", amounts(&spec.requests));
        return Err(Obstacle::TooSmall(text));
    }
    let on = ticket.record.node.as_ref().or(ticket.node.as_ref());
    if let Some(node) = on.and_then(|node| facts.cluster.node(node))
        && !may_run_on(&request.placement, node)
        && !planted(Bug::OtherNodesTicket)
    {
        return Err(Obstacle::Node(node.name.clone()));
    }
    if let Ok(of_ticket) = priority(facts, spec)
        && request.priority < of_ticket
    {
        return Err(Obstacle::Priority { ticket: of_ticket, pod: request.priority });
    }
    let busy = facts.cluster.in_flight.is_writing(&ticket_target(ticket));
    let guarded = matches!(guardian(facts.cluster, ticket), Guardian::Ours(_));
    match ticket.phase() == TicketPhase::Reserved && guarded && !busy && pod.request.is_some() {
        true => Ok(()),
        false if ticket.phase() == TicketPhase::Reserved => {
            Err(Obstacle::Soon("its guardian is being replaced".into()))
        }
        false => Err(Obstacle::Soon(ticket.record.message.clone())),
    }
}
