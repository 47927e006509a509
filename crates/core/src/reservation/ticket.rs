//! Decides the next step for a ticket: creates or deletes its guardian, updates its status, and lets the ticket expire.

use super::Facts;
use super::budget;
use super::claim::TICKET_WITHIN;
use super::index::{
    Guardian, OrderEntry, ReleasedPodState, guardian, guardian_target, is_gated, ticket_target,
};
use super::names::{
    HIGHEST_PRIORITY, TICKET_CLAIMED, TICKET_NODE, guardian_class, guardian_of, is_guardian_class,
};
use super::reason::Reason;
use super::spec::{
    DEFAULT_DURATION, OrderSpec, Refresh, Ticket, TicketClaim, TicketPhase, TicketRecord, TicketSpec, amounts,
};
use super::timetable::ends;
use crate::{
    Timestamp, Uid,
    cluster::Target,
    decision::{
        Action, Decision, Delete, Event, EventKind, Keep, New, NewGuardian, Nominate, Subject, TicketWrite,
    },
    facts::{Pod, PodPhase},
    kind::Kind,
    planted::{Bug, planted},
};
use jiff::SignedDuration;
use std::sync::Arc;

/// A claim ends if its pod has been released but not bound for this long. This is enough for a slow or restarting scheduler.
pub const BIND_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// Delay until an ending claim is decided again after its nomination was cleared.
const CLEARED_WITHIN: SignedDuration = SignedDuration::from_secs(1);
/// How often a pod that the scheduler rejects is nominated again.
const MOST_NOMINATED_AGAIN: u8 = 3;
/// The reason in the status of a ticket that waits for capacity.
pub const NO_ROOM: &str = Reason::NoRoom.code();
/// Delay until a new ticket with a starting guardian is reported as Pending. Usually the guardian runs sooner, which saves a
/// write.
const SAID_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// Bounds of the warning before a ticket expires. It is emitted when a fifth of the duration remains, within these bounds.
const LATEST_WARNING: SignedDuration = SignedDuration::from_secs(2);
const EARLIEST_WARNING: SignedDuration = SignedDuration::from_hours(1);

/// Returns the priority of a ticket's guardian. The error is the name of an unknown PriorityClass.
pub fn priority(facts: Facts<'_>, spec: &TicketSpec) -> Result<i32, Arc<str>> {
    let value = match &spec.priority_class {
        Some(name) => facts.reservations.class(name).map(|class| class.value).ok_or_else(|| name.clone())?,
        None => {
            let mut defaults = facts.reservations.classes().filter(|class| class.global_default);
            // Kubernetes uses the lowest of several defaults.
            defaults.by_ref().map(|class| class.value).min().unwrap_or(0)
        }
    };
    Ok(value.min(HIGHEST_PRIORITY) + i32::from(planted(Bug::PriorityAbovePods)))
}

/// The new status of a ticket, and the actions and events of a decision.
struct Outcome {
    record: TicketRecord,
    actions: Vec<Action>,
    events: Vec<Event>,
    wake_at: Option<Timestamp>,
    /// The status need not be written before this time.
    quiet_until: Option<Timestamp>,
    /// State of the claiming pod while it is released and not bound.
    released: Option<ReleasedPodState>,
}

impl Outcome {
    fn from_record(record: TicketRecord) -> Outcome {
        let (actions, events) = (Vec::new(), Vec::new());
        Outcome { record, actions, events, wake_at: None, quiet_until: None, released: None }
    }
}

struct TicketDecider<'a> {
    facts: Facts<'a>,
    ticket: &'a Ticket,
    spec: &'a TicketSpec,
    order: Option<&'a OrderEntry>,
    now: Timestamp,
}

pub fn decide(facts: Facts<'_>, uid: Uid, now: Timestamp) -> Decision {
    let Some(ticket) = facts.reservations.ticket(uid) else {
        return Decision { finished: true, ..Decision::nothing() };
    };
    let order = ticket.order.map(|order| facts.reservations.order(order));
    // If the Order is unknown, it was deleted and the ticket will be, too, or it has not been observed yet.
    let orphan = matches!(order, Some(None));
    if ticket.terminating || orphan || facts.cluster.in_flight.is_writing(&ticket_target(ticket)) {
        return Decision::nothing();
    }
    let outcome = match &ticket.spec {
        Ok(spec) => TicketDecider { facts, ticket, spec, order: order.flatten(), now }.outcome(),
        Err(wrong) => {
            let record = TicketRecord {
                phase: Some(TicketPhase::Pending),
                ..described(ticket, Reason::InvalidSpec, wrong)
            };
            Outcome::from_record(record)
        }
    };
    let Outcome { record, mut actions, events, wake_at, quiet_until, released } = outcome;
    let record = TicketRecord { observed_generation: ticket.generation, ..record };
    let quiet = quiet_until.filter(|until| *until > now);
    let changed = record != ticket.record;
    if changed && quiet.is_none() {
        let (target, version) = (ticket_target(ticket), ticket.version);
        actions.push(Action::WriteTicket(Box::new(TicketWrite { target, version, record })));
    }
    let wake_at = wake_at.into_iter().chain(quiet.filter(|_| changed)).min();
    Decision { actions, events, wake_at, keep: Keep::Ticket { released }, ..Decision::nothing() }
}

fn described(ticket: &Ticket, reason: Reason, message: &str) -> TicketRecord {
    TicketRecord { reason: reason.code().into(), message: message.into(), ..ticket.record.clone() }
}

pub fn subject(ticket: &Ticket) -> Subject {
    let (namespace, name) = (ticket.namespace.clone(), ticket.name.clone());
    Subject { kind: Kind::Ticket, namespace, name, uid: ticket.uid }
}

impl<'a> TicketDecider<'a> {
    fn outcome(&self) -> Outcome {
        match self.ticket.phase() {
            TicketPhase::Expired => self.expired(),
            TicketPhase::Claimed => match self.ticket.claim() {
                Some(claim) => self.claimed(claim),
                // The phase is Claimed without a claim: another client has changed the status.
                None => self.active(),
            },
            TicketPhase::Pending | TicketPhase::Reserved => self.active(),
        }
    }

    fn unchanged(&self) -> Outcome {
        Outcome::from_record(self.ticket.record.clone())
    }

    fn order_spec(&self) -> Option<&'a Arc<OrderSpec>> {
        self.order?.spec()
    }

    fn duration(&self) -> Option<SignedDuration> {
        match self.order_spec() {
            Some(order) if order.refresh == Refresh::Never && self.spec.duration.is_none() => None,
            _ => Some(self.spec.duration.unwrap_or(DEFAULT_DURATION)),
        }
    }

    fn is_renewed(&self) -> bool {
        self.order_spec().is_some_and(|order| order.refresh == Refresh::Always)
    }

    /// When it expires if no pod claims it: `duration` after its tick or, without a tick, after it was first Reserved.
    fn expires(&self, activated: Option<Timestamp>) -> Option<Timestamp> {
        let duration = self.duration();
        let planned = self.ticket.tick.or(activated).and_then(|begin| ends(begin, duration));
        let Some(order) = self.order_spec().filter(|_| self.is_renewed()) else { return planned };
        let last_tick = order.timetable().and_then(|timetable| timetable.last(self.now));
        let renewed = last_tick.and_then(|tick| ends(tick, duration));
        let later = planned.max(renewed).max(self.ticket.record.expires);
        later.map(|end| if end <= self.now { ends(self.now, duration).unwrap_or(end) } else { end })
    }

    fn delete_guardian(&self) -> Vec<Action> {
        match guardian(self.facts.cluster, self.ticket) {
            Guardian::Ours(_) if planted(Bug::ExpiredKeepsGuardian) => Vec::new(),
            Guardian::Ours(pod) if !self.facts.cluster.is_writing_pod(pod.uid) => {
                vec![Action::Delete(Delete { target: Target::of_pod(pod), at_once: true })]
            }
            Guardian::Ours(_) | Guardian::Taken(_) | Guardian::None => Vec::new(),
        }
    }

    /// Handles an expired ticket: deletes its guardian, and the ticket after its TTL.
    fn expired(&self) -> Outcome {
        let mut outcome = self.unchanged();
        outcome.actions = self.delete_guardian();
        let record = &self.ticket.record;
        let never = self.order_spec().is_some_and(|order| order.refresh == Refresh::Never);
        // With refreshPolicy Never, an expired claim is kept as the record that prevents a replacement ticket.
        if self.spec.retain || never && record.claim.is_some() {
            return outcome;
        }
        let gone_at = ends(record.expires.unwrap_or(self.now), Some(self.spec.ttl));
        match gone_at.filter(|at| *at > self.now) {
            Some(at) => outcome.wake_at = Some(at),
            None => {
                let target = ticket_target(self.ticket);
                outcome.actions.push(Action::Delete(Delete { target, at_once: false }));
            }
        }
        outcome
    }

    /// Handles a claimed ticket.
    fn claimed(&self, claim: &TicketClaim) -> Outcome {
        let mut outcome = self.unchanged();
        let cluster = self.facts.cluster;
        let guarded = matches!(guardian(cluster, self.ticket), Guardian::Ours(_));
        let here = self.ticket.record.node.as_ref();
        match cluster.pod(claim.pod).filter(|pod| !is_over(pod)) {
            // The pod ended before the hand-over. After a hand-over, the status names no guardian; a guardian that exists then
            // came late.
            None if guarded && self.ticket.record.guardian.is_some() => {
                outcome.record = self
                    .unclaimed(Reason::Unclaimed, "the claiming pod ended before the hand-over was complete")
            }
            None if planted(Bug::ClaimNeverEnds) => {}
            None => outcome.record = self.ended(claim),
            // The hand-over is in progress.
            Some(pod) if is_gated(pod) => {}
            Some(pod) if pod.node.as_ref() != here && planted(Bug::NotBoundIgnored) => {}
            Some(pod) => match &pod.node {
                // The guardian runs beside the pod: another client removed the gate, or an old request to create the guardian
                // took effect late.
                Some(node) if Some(node) == here && guarded && !planted(Bug::GuardianBeside) => {
                    outcome.actions = self.delete_guardian();
                }
                Some(node) if Some(node) == here => {
                    outcome.record.ready = outcome.record.ready.becomes(true, self.now);
                    outcome.record.guardian_ready = outcome.record.guardian_ready.becomes(false, self.now);
                    outcome.record.guardian = None;
                }
                Some(node) => {
                    let message = format!("{} was bound to {node} instead", claim.name);
                    self.not_bound(&mut outcome, pod, &message);
                }
                None => self.released(&mut outcome, claim, pod, guarded),
            },
        }
        outcome
    }

    /// Handles a claiming pod that is released and not bound.
    fn released(&self, outcome: &mut Outcome, claim: &TicketClaim, pod: &Pod, guarded: bool) {
        // The scheduler ignores gated pods, so a rejection in the pod's status was written after the release.
        let nominated = pod.nominated.as_ref() == self.ticket.record.node.as_ref();
        let rejected = pod.trouble.is_some() && !nominated;
        let known = self.facts.reservations.released(self.ticket.uid);
        let known = known.unwrap_or(ReleasedPodState { since: self.now, nominated_again: 0 });
        outcome.released = Some(known);
        // The time counts from the release, because the scheduler could not bind the pod before.
        let end = match planted(Bug::BoundBeforeLetGo) {
            true => claim.at + TICKET_WITHIN,
            false => known.since + BIND_WITHIN,
        };
        outcome.wake_at = Some(end).filter(|end| *end > self.now);
        if end <= self.now {
            let message = format!("{} was not bound within {} s", claim.name, BIND_WITHIN.as_secs());
            self.not_bound(outcome, pod, &message);
        } else if guarded {
            // The capacity of the pod and its guardian would count twice on the node, so the scheduler could reject other claims
            // there.
            self.not_bound(outcome, pod, &format!("another client removed the gate of {}", claim.name));
        } else if rejected && known.nominated_again >= MOST_NOMINATED_AGAIN {
            self.not_bound(outcome, pod, &format!("the scheduler rejected {}", claim.name));
        } else if rejected && !self.facts.cluster.is_writing_pod(pod.uid) {
            let (target, node) = (Target::of_pod(pod), self.ticket.record.node.clone());
            outcome.actions.push(Action::Nominate(Nominate { target, node, forget: Vec::new() }));
            let nominated_again = known.nominated_again + 1;
            outcome.released = Some(ReleasedPodState { nominated_again, ..known });
        }
    }

    /// Ends a claim whose pod is not bound to the node. Its nomination is cleared first, because the scheduler would otherwise
    /// reject the next guardian.
    fn not_bound(&self, outcome: &mut Outcome, pod: &Pod, message: &str) {
        if planted(Bug::ClaimerDeleted) {
            outcome.actions.push(Action::Delete(Delete { target: Target::of_pod(pod), at_once: false }));
        }
        let cluster = self.facts.cluster;
        let is_marked = pod.nominated.is_some() || pod.request.is_some();
        if is_marked && cluster.in_flight.refusal(pod.uid).is_none() {
            if !cluster.is_writing_pod(pod.uid) {
                let (target, forget) = (Target::of_pod(pod), vec![TICKET_CLAIMED, TICKET_NODE]);
                outcome.actions.push(Action::Nominate(Nominate { target, node: None, forget }));
            }
            // A change of the pod may not cause a decision for this ticket, because two controllers may have claimed tickets for
            // the same pod. So wake up after a delay.
            outcome.wake_at = Some(self.now + CLEARED_WITHIN);
            return;
        }
        outcome.record = self.unclaimed(Reason::NotBound, message);
        outcome.released = None;
        let node = self.ticket.record.node.as_deref().unwrap_or("its node");
        let about = Subject {
            kind: Kind::Pod,
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid,
        };
        let message = format!(
            "did not use the capacity of ticket {} on {node}: {message}; the capacity is reserved again",
            self.ticket.name
        );
        outcome.events.push(Event {
            about,
            kind: EventKind::Warning,
            reason: Reason::NotBound.code(),
            message,
        });
    }

    fn unclaimed(&self, reason: Reason, message: &str) -> TicketRecord {
        let ready = self.ticket.record.ready.becomes(false, self.now);
        let record = described(self.ticket, reason, message);
        TicketRecord { phase: Some(TicketPhase::Pending), claim: None, ready, ..record }
    }

    fn ended(&self, claim: &TicketClaim) -> TicketRecord {
        let record =
            described(self.ticket, Reason::ClaimEnded, &format!("the claiming pod {} has ended", claim.name));
        let (ready, expires) = (record.ready.becomes(false, self.now), Some(self.now));
        let expiring = record.expiring.becomes(false, self.now);
        TicketRecord { phase: Some(TicketPhase::Expired), guardian: None, ready, expires, expiring, ..record }
    }

    /// Handles an unclaimed ticket.
    fn active(&self) -> Outcome {
        let mut outcome = self.unchanged();
        if let Some(start) = self.spec.start.filter(|start| *start > self.now) {
            let message = format!("the reservation starts at {start}");
            outcome.record = TicketRecord {
                phase: Some(TicketPhase::Pending),
                ..described(self.ticket, Reason::NotStarted, &message)
            };
            outcome.wake_at = Some(start);
            return outcome;
        }
        let found = guardian(self.facts.cluster, self.ticket);
        // The duration of a ticket counts from when its capacity is reserved, not while it waits for capacity.
        let activated = self.ticket.record.activated.or(is_running(found).then_some(self.now));
        let expires = self.expires(activated);
        if expires.is_some_and(|end| end <= self.now) {
            outcome.record = self.time_is_over(activated, expires);
            outcome.actions = self.delete_guardian();
            return outcome;
        }
        let mut record = TicketRecord { activated, expires, claim: None, ..self.ticket.record.clone() };
        self.warn_of_end(&mut outcome, &mut record);
        if self.is_chosen() {
            outcome.actions.extend(self.guard(found));
        }
        self.describe(&mut record, found);
        if record.phase == Some(TicketPhase::Pending) && *record.reason == *Reason::GuardianStarting.code() {
            outcome.quiet_until = Some(self.ticket.created + SAID_AFTER);
        }
        if *record.reason == *NO_ROOM && *record.reason != *self.ticket.record.reason {
            let (about, message) = (subject(self.ticket), record.message.to_string());
            outcome.events.push(Event { about, kind: EventKind::Warning, reason: NO_ROOM, message });
        }
        outcome.record = record;
        outcome
    }

    /// Whether this is the ticket that its place keeps. Other unclaimed tickets there are about to be deleted.
    fn is_chosen(&self) -> bool {
        self.order.is_none_or(|entry| {
            let tickets = |uid| self.facts.reservations.ticket(uid);
            entry
                .chosen(&OrderEntry::place_of(self.ticket), tickets)
                .is_some_and(|chosen| chosen.uid == self.ticket.uid)
        })
    }

    /// Whether another ticket in the same place, which is about to be deleted, still has a guardian.
    fn is_place_guarded(&self) -> bool {
        let place = OrderEntry::place_of(self.ticket);
        let here = self.order.into_iter().flat_map(|entry| entry.tickets_at(&place));
        let mut others = here
            .filter(|uid| *uid != self.ticket.uid)
            .filter_map(|uid| self.facts.reservations.ticket(uid))
            .filter(|other| other.is_unclaimed());
        others.any(|other| matches!(guardian(self.facts.cluster, other), Guardian::Ours(_)))
    }

    fn time_is_over(&self, activated: Option<Timestamp>, expires: Option<Timestamp>) -> TicketRecord {
        let message = match activated {
            Some(_) => "no pod claimed the ticket before it expired",
            None => "the ticket expired before its capacity could be reserved",
        };
        let record = described(self.ticket, Reason::Expired, message);
        let (ready, guardian_ready) =
            (record.ready.becomes(false, self.now), record.guardian_ready.becomes(false, self.now));
        let expiring = record.expiring.becomes(false, self.now);
        TicketRecord {
            phase: Some(TicketPhase::Expired),
            activated,
            expires,
            claim: None,
            guardian: None,
            ready,
            guardian_ready,
            expiring,
            ..record
        }
    }

    fn warn_of_end(&self, outcome: &mut Outcome, record: &mut TicketRecord) {
        let begin = self.ticket.tick.or(record.activated);
        let Some((begin, end)) = begin.zip(record.expires).filter(|_| !self.is_renewed()) else {
            record.expiring = record.expiring.becomes(false, self.now);
            outcome.wake_at = record.expires;
            return;
        };
        let fifth = end.duration_since(begin) / 5;
        let warn_at = end - fifth.max(LATEST_WARNING).min(EARLIEST_WARNING);
        let warned = self.ticket.record.expiring.holds;
        // A warning is not withdrawn. Otherwise a replica whose clock is behind would withdraw it.
        let due = warn_at <= self.now || warned && self.ticket.record.expires == Some(end);
        record.expiring = record.expiring.becomes(due, self.now);
        if due && !warned {
            let message = format!("expires at {end}; after that, its capacity is no longer reserved");
            outcome.events.push(Event {
                about: subject(self.ticket),
                kind: EventKind::Normal,
                reason: Reason::Expiring.code(),
                message,
            });
        }
        outcome.wake_at = Some(if due { end } else { warn_at });
    }

    /// Creates the guardian, or deletes a leftover pod that has its name.
    fn guard(&self, found: Guardian<'_>) -> Vec<Action> {
        let cluster = self.facts.cluster;
        let delete = |pod: &Pod| match cluster.is_writing_pod(pod.uid) {
            true => Vec::new(),
            false => vec![Action::Delete(Delete { target: Target::of_pod(pod), at_once: true })],
        };
        match found {
            Guardian::Ours(pod) if is_over(pod) => delete(pod),
            Guardian::Ours(_) => Vec::new(),
            // The leftover guardian of an earlier ticket of the same name, which the garbage collector has not deleted yet.
            Guardian::Taken(pod) if self.is_left_behind(pod) => delete(pod),
            Guardian::Taken(_) => Vec::new(),
            Guardian::None if self.is_place_guarded() => Vec::new(),
            Guardian::None => self.make_guardian().into_iter().collect(),
        }
    }

    fn is_left_behind(&self, pod: &Pod) -> bool {
        let owner = pod.owner.filter(|owner| owner.kind == crate::facts::OwnerKind::Other);
        owner.is_some_and(|owner| {
            self.facts.reservations.ticket(owner.uid).is_none()
                && self.facts.cluster.freshness.is_deleted(owner.uid)
        })
    }

    fn make_guardian(&self) -> Option<Action> {
        if budget::ticket_over(self.facts, self.ticket).is_some() {
            return None;
        }
        let target = guardian_target(self.ticket);
        let priority = priority(self.facts, self.spec).ok()?;
        let class: Arc<str> = guardian_class(priority).into();
        let create = |new: New| Some(Action::Create(Box::new(new)));
        match self.facts.reservations.class(&class) {
            None => {
                let class =
                    Target { kind: Kind::PriorityClass, namespace: "".into(), name: class, uid: None };
                let writing = self.facts.cluster.in_flight.is_writing(&class);
                if writing { None } else { create(New::PriorityClass { target: class, priority }) }
            }
            Some(known) if !is_guardian_class(known, priority) => None,
            Some(_) if self.facts.cluster.in_flight.is_writing(&target) => None,
            Some(_) => create(New::Guardian(NewGuardian {
                target,
                ticket: self.ticket.uid,
                ticket_name: self.ticket.name.clone(),
                order: self.ticket.order,
                each_node: self.ticket.order.is_some() && self.ticket.index.is_none(),
                spec: Arc::new(self.spec.clone()),
                node: self.ticket.node.clone(),
                node_uid: self.node_uid(),
                class,
            })),
        }
    }

    fn node_uid(&self) -> Option<Uid> {
        let node = self.facts.cluster.node(self.ticket.node.as_ref()?)?;
        Some(node.uid)
    }

    fn describe(&self, record: &mut TicketRecord, found: Guardian<'_>) {
        let name = guardian_of(self.ticket);
        let running = is_running(found);
        record.phase = Some(if running { TicketPhase::Reserved } else { TicketPhase::Pending });
        record.ready = record.ready.becomes(running, self.now);
        record.guardian_ready = record.guardian_ready.becomes(running, self.now);
        let room = amounts(&self.spec.requests);
        let on = self.ticket.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let (reason, message) = match found {
            Guardian::Ours(pod) if running => {
                record.node = pod.node.clone();
                let on = pod.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
                (Reason::Reserved, format!("reserves {room}{on}"))
            }
            Guardian::Ours(pod) => match &pod.trouble {
                Some(trouble) if &*trouble.what == "Unschedulable" => {
                    (Reason::NoRoom, format!("not enough capacity{on} for {room}; guardians never preempt"))
                }
                Some(trouble) if is_persistent(&trouble.what) => {
                    (Reason::GuardianNotRunning, format!("guardian {name} is not running: {}", trouble.what))
                }
                _ => (Reason::GuardianStarting, format!("guardian {name} is starting")),
            },
            Guardian::Taken(pod) if !self.is_left_behind(pod) => {
                (Reason::GuardianNameTaken, format!("another pod is named {name}; rename or delete that pod"))
            }
            Guardian::Taken(_) | Guardian::None => self.describe_missing(&name),
        };
        record.guardian = match found {
            Guardian::Ours(_) => Some(name),
            Guardian::Taken(_) | Guardian::None => None,
        };
        if !running {
            record.node = self.ticket.node.clone();
        }
        (record.reason, record.message) = (reason.code().into(), message.into());
    }

    fn describe_missing(&self, name: &str) -> (Reason, String) {
        let class = |priority: &i32| self.facts.reservations.class(&guardian_class(*priority));
        let refusal = self.facts.reservations.refusal(self.ticket.uid);
        if let Some(why) = budget::ticket_over(self.facts, self.ticket) {
            return (Reason::TooMany, why);
        }
        match priority(self.facts, self.spec) {
            Err(class) => (
                Reason::UnknownPriorityClass,
                format!("PriorityClass {class} not found; create it, or set another priorityClassName"),
            ),
            Ok(priority) if class(&priority).is_some_and(|known| !is_guardian_class(known, priority)) => {
                let text = format!(
                    "PriorityClass {} must have value {priority}, preemptionPolicy Never and globalDefault false; delete it to have it re-created",
                    guardian_class(priority)
                );
                (Reason::GuardianClassTaken, text)
            }
            Ok(_) => match refusal {
                Some(refusal) => {
                    (Reason::GuardianRefused, format!("cannot create guardian {name}: {}", refusal.message))
                }
                None => (Reason::GuardianStarting, format!("guardian {name} is starting")),
            },
        }
    }
}

fn is_running(found: Guardian<'_>) -> bool {
    match found {
        Guardian::Ours(pod) => {
            (pod.phase == PodPhase::Running || planted(Bug::ReservedBeforeItRuns)) && !pod.terminating
        }
        Guardian::Taken(_) | Guardian::None => false,
    }
}

fn is_over(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

/// Whether a problem persists until a user fixes it. Other problems are transient.
fn is_persistent(trouble: &str) -> bool {
    ["ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerError", "CrashLoopBackOff"]
        .iter()
        .any(|word| trouble.starts_with(word))
}
