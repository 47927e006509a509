//! What to do about a ticket: its guardian is made, or goes; its status says how it is; and it ends when its time has come.

use super::Facts;
use super::budget;
use super::claim::TICKET_WITHIN;
use super::index::{Guardian, OrderEntry, ReleasedClaim, guardian, guardian_target, is_gated, ticket_target};
use super::names::{
    HIGHEST_PRIORITY, TICKET_CLAIMED, TICKET_NODE, guardian_class, guardian_of, is_guardian_class,
};
use super::reason::Reason;
use super::spec::{Claim, DEFAULT_DURATION, OrderSpec, Phase, Record, Refresh, Ticket, TicketSpec, amounts};
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

/// A claim ends when its pod is released and not bound for this long. A scheduler that is slow or restarts needs less.
pub const BIND_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// A claim that ends is looked at again this long after its nomination was cleared.
const CLEARED_WITHIN: SignedDuration = SignedDuration::from_secs(1);
/// How often a pod that the scheduler rejects is nominated again.
const MOST_NOMINATED_AGAIN: u8 = 3;
/// The reason of a ticket that waits for room, as its status has it.
pub const NO_ROOM: &str = Reason::NoRoom.code();
/// A ticket whose guardian is about to run need not say that it is Pending.
const SAID_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// People are told before the end: when a fifth of the time is left, but not later than this and not earlier than that.
const LATEST_WARNING: SignedDuration = SignedDuration::from_secs(2);
const EARLIEST_WARNING: SignedDuration = SignedDuration::from_hours(1);

/// The priority of the guardian of a ticket; an error names the class that is not known.
pub fn priority(facts: Facts<'_>, spec: &TicketSpec) -> Result<i32, Arc<str>> {
    let value = match &spec.priority_class {
        Some(name) => facts.reservations.class(name).map(|class| class.value).ok_or_else(|| name.clone())?,
        None => {
            let mut defaults = facts.reservations.classes().filter(|class| class.global_default);
            // Of several, Kubernetes takes the lowest.
            defaults.by_ref().map(|class| class.value).min().unwrap_or(0)
        }
    };
    Ok(value.min(HIGHEST_PRIORITY) + i32::from(planted(Bug::PriorityAbovePods)))
}

/// What a ticket is to be like, and how it gets there.
struct Outcome {
    record: Record,
    actions: Vec<Action>,
    events: Vec<Event>,
    wake_at: Option<Timestamp>,
    /// What it says can wait until then.
    quiet_until: Option<Timestamp>,
    /// What is known of its claiming pod while that is released and not bound.
    released: Option<ReleasedClaim>,
}

impl Outcome {
    fn of(record: Record) -> Outcome {
        let (actions, events) = (Vec::new(), Vec::new());
        Outcome { record, actions, events, wake_at: None, quiet_until: None, released: None }
    }
}

struct Work<'a> {
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
    // Without its Order it is about to be collected, or we have not heard of the Order.
    let orphan = matches!(order, Some(None));
    if ticket.terminating || orphan || facts.cluster.in_flight.is_writing(&ticket_target(ticket)) {
        return Decision::nothing();
    }
    let outcome = match &ticket.spec {
        Ok(spec) => Work { facts, ticket, spec, order: order.flatten(), now }.outcome(),
        Err(wrong) => {
            let record =
                Record { phase: Some(Phase::Pending), ..described(ticket, Reason::InvalidSpec, wrong) };
            Outcome::of(record)
        }
    };
    let Outcome { record, mut actions, events, wake_at, quiet_until, released } = outcome;
    let record = Record { observed_generation: ticket.generation, ..record };
    let quiet = quiet_until.filter(|until| *until > now);
    let changed = record != ticket.record;
    if changed && quiet.is_none() {
        let (target, version) = (ticket_target(ticket), ticket.version);
        actions.push(Action::WriteTicket(Box::new(TicketWrite { target, version, record })));
    }
    let wake_at = wake_at.into_iter().chain(quiet.filter(|_| changed)).min();
    Decision { actions, events, wake_at, keep: Keep::Ticket { released }, ..Decision::nothing() }
}

fn described(ticket: &Ticket, reason: Reason, message: &str) -> Record {
    Record { reason: reason.code().into(), message: message.into(), ..ticket.record.clone() }
}

pub fn subject(ticket: &Ticket) -> Subject {
    let (namespace, name) = (ticket.namespace.clone(), ticket.name.clone());
    Subject { kind: Kind::Ticket, namespace, name, uid: ticket.uid }
}

impl<'a> Work<'a> {
    fn outcome(&self) -> Outcome {
        match self.ticket.phase() {
            Phase::Expired => self.expired(),
            Phase::Claimed => match self.ticket.claim() {
                Some(claim) => self.claimed(claim),
                // Somebody has changed the status by hand.
                None => self.active(),
            },
            Phase::Pending | Phase::Reserved => self.active(),
        }
    }

    fn same(&self) -> Outcome {
        Outcome::of(self.ticket.record.clone())
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

    /// When it ends, if no pod claims it: a duration after its tick or, without a tick, after it was first Reserved.
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

    /// Its time is over, or that of its claim. It goes when nobody wants to see it any more.
    fn expired(&self) -> Outcome {
        let mut outcome = self.same();
        outcome.actions = self.delete_guardian();
        let record = &self.ticket.record;
        let never = self.order_spec().is_some_and(|order| order.refresh == Refresh::Never);
        // The only trace of a claim that is not to be repeated.
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

    /// Its room belongs to a pod, or is being handed over to it.
    fn claimed(&self, claim: &Claim) -> Outcome {
        let mut outcome = self.same();
        let cluster = self.facts.cluster;
        let guarded = matches!(guardian(cluster, self.ticket), Guardian::Ours(_));
        let here = self.ticket.record.node.as_ref();
        match cluster.pod(claim.pod).filter(|pod| !is_over(pod)) {
            // It never got the room. One that had it had its guardian taken off the record; what is there now came late.
            None if guarded && self.ticket.record.guardian.is_some() => {
                outcome.record = self.unclaimed(Reason::Unclaimed, "the pod that claimed it is gone")
            }
            None if planted(Bug::ClaimNeverEnds) => {}
            None => outcome.record = self.ended(claim),
            // The claim is being carried out.
            Some(pod) if is_gated(pod) => {}
            Some(pod) if pod.node.as_ref() != here && planted(Bug::NotBoundIgnored) => {}
            Some(pod) => match &pod.node {
                // It runs beside it: the gate was taken away by hand, or the guardian was made long ago and comes late.
                Some(node) if Some(node) == here && guarded && !planted(Bug::GuardianBeside) => {
                    outcome.actions = self.delete_guardian();
                }
                Some(node) if Some(node) == here => {
                    outcome.record.ready = outcome.record.ready.becomes(true, self.now);
                    outcome.record.guardian_ready = outcome.record.guardian_ready.becomes(false, self.now);
                    outcome.record.guardian = None;
                }
                Some(node) => {
                    let message = format!("{} runs on {node} instead", claim.name);
                    self.not_bound(&mut outcome, pod, &message);
                }
                None => self.released(&mut outcome, claim, pod, guarded),
            },
        }
        outcome
    }

    /// Its claiming pod is released, and the scheduler has not bound it.
    fn released(&self, outcome: &mut Outcome, claim: &Claim, pod: &Pod, guarded: bool) {
        // While it was gated, the scheduler did not look at it: what its status says now was written after the release.
        let nominated = pod.nominated.as_ref() == self.ticket.record.node.as_ref();
        let rejected = pod.trouble.is_some() && !nominated;
        let known = self.facts.reservations.released(self.ticket.uid);
        let known = known.unwrap_or(ReleasedClaim { since: self.now, nominated_again: 0 });
        outcome.released = Some(known);
        // Counted from the release: until then there was nothing to bind.
        let end = match planted(Bug::BoundBeforeLetGo) {
            true => claim.at + TICKET_WITHIN,
            false => known.since + BIND_WITHIN,
        };
        outcome.wake_at = Some(end).filter(|end| *end > self.now);
        if end <= self.now {
            let message = format!("{} was not bound within {} s", claim.name, BIND_WITHIN.as_secs());
            self.not_bound(outcome, pod, &message);
        } else if guarded {
            // The pod would count twice on the node, which harms the other claims there.
            self.not_bound(outcome, pod, &format!("another client removed the gate of {}", claim.name));
        } else if rejected && known.nominated_again >= MOST_NOMINATED_AGAIN {
            self.not_bound(outcome, pod, &format!("the scheduler rejected {}", claim.name));
        } else if rejected && !self.facts.cluster.is_writing_pod(pod.uid) {
            let (target, node) = (Target::of_pod(pod), self.ticket.record.node.clone());
            outcome.actions.push(Action::Nominate(Nominate { target, node, forget: Vec::new() }));
            let nominated_again = known.nominated_again + 1;
            outcome.released = Some(ReleasedClaim { nominated_again, ..known });
        }
    }

    /// The claim ends without the pod in its place. Its nomination is cleared first: a nomination that stays keeps the guardian away.
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
            // News of the pod may lead to another ticket: two controllers can each have claimed one for it.
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
            "did not take the room of ticket {} on {node}: {message}; the room is kept again",
            self.ticket.name
        );
        outcome.events.push(Event {
            about,
            kind: EventKind::Warning,
            reason: Reason::NotBound.code(),
            message,
        });
    }

    fn unclaimed(&self, reason: Reason, message: &str) -> Record {
        let ready = self.ticket.record.ready.becomes(false, self.now);
        let record = described(self.ticket, reason, message);
        Record { phase: Some(Phase::Pending), claim: None, ready, ..record }
    }

    fn ended(&self, claim: &Claim) -> Record {
        let record = described(self.ticket, Reason::ClaimEnded, &format!("{} has ended", claim.name));
        let (ready, expires) = (record.ready.becomes(false, self.now), Some(self.now));
        let expiring = record.expiring.becomes(false, self.now);
        Record { phase: Some(Phase::Expired), guardian: None, ready, expires, expiring, ..record }
    }

    /// Nobody has claimed it.
    fn active(&self) -> Outcome {
        let mut outcome = self.same();
        if let Some(start) = self.spec.start.filter(|start| *start > self.now) {
            let message = format!("reserves at {start}");
            outcome.record = Record {
                phase: Some(Phase::Pending),
                ..described(self.ticket, Reason::NotStarted, &message)
            };
            outcome.wake_at = Some(start);
            return outcome;
        }
        let found = guardian(self.facts.cluster, self.ticket);
        // The clock of a ticket starts when its capacity is reserved. A ticket that waits for capacity loses none of its time.
        let activated = self.ticket.record.activated.or(is_running(found).then_some(self.now));
        let expires = self.expires(activated);
        if expires.is_some_and(|end| end <= self.now) {
            outcome.record = self.time_is_over(activated, expires);
            outcome.actions = self.delete_guardian();
            return outcome;
        }
        let mut record = Record { activated, expires, claim: None, ..self.ticket.record.clone() };
        self.warn_of_end(&mut outcome, &mut record);
        if self.is_chosen() {
            outcome.actions.extend(self.guard(found));
        }
        self.describe(&mut record, found);
        if record.phase == Some(Phase::Pending) && *record.reason == *Reason::GuardianStarting.code() {
            outcome.quiet_until = Some(self.ticket.created + SAID_AFTER);
        }
        if *record.reason == *NO_ROOM && *record.reason != *self.ticket.record.reason {
            let (about, message) = (subject(self.ticket), record.message.to_string());
            outcome.events.push(Event { about, kind: EventKind::Warning, reason: NO_ROOM, message });
        }
        outcome.record = record;
        outcome
    }

    /// Whether this is the ticket that stays in its place. Any other ticket there is about to be removed.
    fn is_chosen(&self) -> bool {
        self.order.is_none_or(|entry| {
            let tickets = |uid| self.facts.reservations.ticket(uid);
            entry
                .chosen(&OrderEntry::place_of(self.ticket), tickets)
                .is_some_and(|chosen| chosen.uid == self.ticket.uid)
        })
    }

    /// Whether a ticket that is about to be removed still has a guardian in the same place.
    fn is_place_guarded(&self) -> bool {
        let place = OrderEntry::place_of(self.ticket);
        let here = self.order.into_iter().flat_map(|entry| entry.tickets_at(&place));
        let mut others = here
            .filter(|uid| *uid != self.ticket.uid)
            .filter_map(|uid| self.facts.reservations.ticket(uid))
            .filter(|other| other.is_unclaimed());
        others.any(|other| matches!(guardian(self.facts.cluster, other), Guardian::Ours(_)))
    }

    fn time_is_over(&self, activated: Option<Timestamp>, expires: Option<Timestamp>) -> Record {
        let message = match activated {
            Some(_) => "nobody claimed it in time",
            None => "its window ended before its capacity was reserved",
        };
        let record = described(self.ticket, Reason::Expired, message);
        let (ready, guardian_ready) =
            (record.ready.becomes(false, self.now), record.guardian_ready.becomes(false, self.now));
        let expiring = record.expiring.becomes(false, self.now);
        Record {
            phase: Some(Phase::Expired),
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

    fn warn_of_end(&self, outcome: &mut Outcome, record: &mut Record) {
        let begin = self.ticket.tick.or(record.activated);
        let Some((begin, end)) = begin.zip(record.expires).filter(|_| !self.is_renewed()) else {
            record.expiring = record.expiring.becomes(false, self.now);
            outcome.wake_at = record.expires;
            return;
        };
        let fifth = end.duration_since(begin) / 5;
        let warn_at = end - fifth.max(LATEST_WARNING).min(EARLIEST_WARNING);
        let warned = self.ticket.record.expiring.holds;
        // Who was warned stays warned: another clock than the one that warned would take it back.
        let due = warn_at <= self.now || warned && self.ticket.record.expires == Some(end);
        record.expiring = record.expiring.becomes(due, self.now);
        if due && !warned {
            let message = format!("ends at {end}: claim it, or nothing keeps its room after that");
            outcome.events.push(Event {
                about: subject(self.ticket),
                kind: EventKind::Normal,
                reason: Reason::Expiring.code(),
                message,
            });
        }
        outcome.wake_at = Some(if due { end } else { warn_at });
    }

    /// Makes the guardian, or what stands in its way go.
    fn guard(&self, found: Guardian<'_>) -> Vec<Action> {
        let cluster = self.facts.cluster;
        let delete = |pod: &Pod| match cluster.is_writing_pod(pod.uid) {
            true => Vec::new(),
            false => vec![Action::Delete(Delete { target: Target::of_pod(pod), at_once: true })],
        };
        match found {
            Guardian::Ours(pod) if is_over(pod) => delete(pod),
            Guardian::Ours(_) => Vec::new(),
            // Left behind by a ticket that had the name before; the garbage collector has not come by.
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

    fn describe(&self, record: &mut Record, found: Guardian<'_>) {
        let name = guardian_of(self.ticket);
        let running = is_running(found);
        record.phase = Some(if running { Phase::Reserved } else { Phase::Pending });
        record.ready = record.ready.becomes(running, self.now);
        record.guardian_ready = record.guardian_ready.becomes(running, self.now);
        let room = amounts(&self.spec.requests);
        let on = self.ticket.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let (reason, message) = match found {
            Guardian::Ours(pod) if running => {
                record.node = pod.node.clone();
                let on = pod.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
                (Reason::Reserved, format!("keeps {room}{on}"))
            }
            Guardian::Ours(pod) => match &pod.trouble {
                Some(trouble) if &*trouble.what == "Unschedulable" => {
                    (Reason::NoRoom, format!("there is no room{on} for {room}, and nobody is evicted for it"))
                }
                Some(trouble) if is_persistent(&trouble.what) => {
                    (Reason::GuardianNotRunning, format!("{name} does not run: {}", trouble.what))
                }
                _ => (Reason::GuardianStarting, format!("{name} is about to run")),
            },
            Guardian::Taken(pod) if !self.is_left_behind(pod) => {
                (Reason::GuardianNameTaken, format!("another pod is called {name}: rename or delete it"))
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
                format!("there is no PriorityClass {class}: create it, or name another one"),
            ),
            Ok(priority) if class(&priority).is_some_and(|known| !is_guardian_class(known, priority)) => {
                let text = format!(
                    "the PriorityClass {} is not ours: it must have the value {priority} and preemptionPolicy Never; delete it",
                    guardian_class(priority)
                );
                (Reason::GuardianClassTaken, text)
            }
            Ok(_) => match refusal {
                Some(refusal) => {
                    (Reason::GuardianRefused, format!("{name} cannot be made: {}", refusal.message))
                }
                None => (Reason::GuardianStarting, format!("{name} is about to run")),
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

/// Whether somebody has to do something about it; the rest passes.
fn is_persistent(trouble: &str) -> bool {
    ["ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerError", "CrashLoopBackOff"]
        .iter()
        .any(|word| trouble.starts_with(word))
}
