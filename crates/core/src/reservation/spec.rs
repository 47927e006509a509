//! Facts about Orders, Tickets and pods that request a ticket: parsed, with all defaults applied.

use super::timetable::{OrderTimes, Timetable};
use crate::{Timestamp, Uid, labels::Labels, node::Placement, quantity::Quantity, selector::Selector};
use jiff::SignedDuration;
use std::sync::Arc;

pub use crate::resources::Resources;

/// How long a ticket without `duration` is reserved.
pub const DEFAULT_DURATION: SignedDuration = SignedDuration::from_hours(24);

/// An Order. Its spec is shared, so a status change does not copy it.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: u64,
    pub generation: i64,
    pub created: Timestamp,
    pub terminating: bool,
    /// The tick (scheduled time) of its last reservation, from its status. A `Scheduled` Order reserves once, even if its
    /// schedule changes.
    pub last_tick: Option<Timestamp>,
    /// The spec, or an error that the API server could not detect.
    pub spec: Result<Arc<OrderSpec>, Arc<str>>,
}

impl Order {
    pub fn times(&self) -> OrderTimes {
        OrderTimes { created: self.created, last_tick: self.last_tick }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrderSpec {
    pub paused: bool,
    pub places: Places,
    pub strategy: Strategy,
    pub refresh: Refresh,
    /// Selects pods that claim a ticket without requesting one.
    pub selector: Option<Selector>,
    pub min_ready: SignedDuration,
    pub template: Template,
}

/// The places where an Order has tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// One ticket on each eligible node.
    EachNode,
    /// A number of tickets on any nodes.
    Number(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    OneTime,
    Scheduled(Timetable),
    Recurring(Timetable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    Always,
    OnClaim,
    Never,
}

/// The template of an Order's tickets.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub spec: Arc<TicketSpec>,
    /// Tickets with another hash must be replaced.
    pub hash: Arc<str>,
    /// Labels and annotations of tickets, as JSON.
    pub metadata: Arc<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TicketSpec {
    /// How long an expired ticket is kept.
    pub ttl: SignedDuration,
    /// Whether an expired ticket is kept indefinitely.
    pub retain: bool,
    pub start: Option<Timestamp>,
    pub duration: Option<SignedDuration>,
    pub priority_class: Option<Arc<str>>,
    pub requests: Resources,
    pub placement: Placement,
    /// The whole spec except the node name, as JSON. Guardians and tickets are built from it.
    pub text: Arc<str>,
}

impl OrderSpec {
    /// How long its tickets are reserved; `None`: indefinitely.
    pub fn duration(&self) -> Option<SignedDuration> {
        match (self.template.spec.duration, self.refresh) {
            (None, Refresh::Never) => None,
            (duration, _) => Some(duration.unwrap_or(DEFAULT_DURATION)),
        }
    }

    pub fn timetable(&self) -> Option<&Timetable> {
        match &self.strategy {
            Strategy::OneTime => None,
            Strategy::Scheduled(timetable) | Strategy::Recurring(timetable) => Some(timetable),
        }
    }
}

/// One Ticket.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: u64,
    pub generation: i64,
    pub created: Timestamp,
    pub terminating: bool,
    /// Labels by which pods can request it.
    pub labels: Labels,
    /// The Order that created it.
    pub order: Option<Uid>,
    /// Its place in an Order with a number of tickets.
    pub index: Option<u32>,
    /// The hash of its template.
    pub template: Option<Arc<str>>,
    /// The scheduled time that caused its creation.
    pub tick: Option<Timestamp>,
    /// The node name in its spec.
    pub node: Option<Arc<str>>,
    pub spec: Result<Arc<TicketSpec>, Arc<str>>,
    pub record: TicketRecord,
}

/// The status of a ticket: state that must survive a restart, and the reason and message for users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TicketRecord {
    pub phase: Option<TicketPhase>,
    pub observed_generation: i64,
    /// When its guardian first ran.
    pub activated: Option<Timestamp>,
    /// When it expires or has expired. Meaningless while the ticket is claimed.
    pub expires: Option<Timestamp>,
    /// The node where the capacity is reserved.
    pub node: Option<Arc<str>>,
    /// The name of the guardian. For a claimed ticket: until the claiming pod is bound to the node.
    pub guardian: Option<Arc<str>>,
    pub claim: Option<TicketClaim>,
    pub reason: Arc<str>,
    pub message: Arc<str>,
    pub ready: TimedCondition,
    pub guardian_ready: TimedCondition,
    pub expiring: TimedCondition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TicketPhase {
    Pending,
    Reserved,
    Claimed,
    Expired,
}

impl TicketPhase {
    pub const ALL: [TicketPhase; 4] =
        [TicketPhase::Pending, TicketPhase::Reserved, TicketPhase::Claimed, TicketPhase::Expired];

    pub fn as_str(self) -> &'static str {
        match self {
            TicketPhase::Pending => "Pending",
            TicketPhase::Reserved => "Reserved",
            TicketPhase::Claimed => "Claimed",
            TicketPhase::Expired => "Expired",
        }
    }
}

/// A condition, and the time of its last transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedCondition {
    pub holds: bool,
    pub since: Option<Timestamp>,
}

impl TimedCondition {
    /// Returns the condition with a new value. The time changes only if the value does.
    pub fn becomes(self, holds: bool, now: Timestamp) -> TimedCondition {
        match self.since {
            Some(_) if self.holds == holds => self,
            _ => TimedCondition { holds, since: Some(now) },
        }
    }
}

/// The pod that has claimed a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketClaim {
    pub pod: Uid,
    pub name: Arc<str>,
    pub at: Timestamp,
    /// Requests of the pod in percent of the reserved capacity: the highest percentage of any resource.
    pub utilization: u32,
}

impl Ticket {
    pub fn phase(&self) -> TicketPhase {
        self.record.phase.unwrap_or(TicketPhase::Pending)
    }

    pub fn claim(&self) -> Option<&TicketClaim> {
        self.record.claim.as_ref().filter(|_| self.phase() == TicketPhase::Claimed)
    }

    /// Whether a pod has claimed it and is not bound to its node yet.
    pub fn is_being_handed_over(&self) -> bool {
        self.claim().is_some() && self.record.guardian.is_some()
    }

    /// Whether it reserves capacity, or is about to, and no pod has claimed it.
    pub fn is_unclaimed(&self) -> bool {
        !self.terminating && matches!(self.phase(), TicketPhase::Pending | TicketPhase::Reserved)
    }
}

/// The request of a pod with the ticket gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub wanted: RequestedTicket,
    /// All labels of the pod, for the selectors of Orders. For other pods, only the labels that sequences select by are kept.
    pub labels: Labels,
    pub resources: Resources,
    pub priority: i32,
    pub placement: Placement,
}

/// The ticket that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedTicket {
    /// No particular ticket: an Order may select the pod.
    Any,
    Ticket(Arc<str>),
    /// A ticket with this label.
    Label {
        key: Arc<str>,
        value: Arc<str>,
    },
    Order(Arc<str>),
    /// An invalid request, with an explanation.
    Unclear(Arc<str>),
}

/// A PriorityClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityClass {
    pub uid: Uid,
    pub name: Arc<str>,
    pub version: u64,
    pub value: i32,
    pub global_default: bool,
    pub never_preempts: bool,
}

/// Returns the first resource whose amount in `room` is below `asked`, with the requested amount.
pub fn lacking<'a>(room: &Resources, asked: &'a Resources) -> Option<(&'a Arc<str>, Quantity)> {
    let enough = |name: &Arc<str>, amount: &Quantity| {
        amount.nanos() <= 0 || room.get(name).is_some_and(|room| room >= amount)
    };
    asked.iter().find(|(name, amount)| !enough(name, amount)).map(|(name, amount)| (name, *amount))
}

/// Returns `asked` in percent of `room`, rounded up: the highest percentage of any resource.
pub fn utilization(room: &Resources, asked: &Resources) -> u32 {
    let percent = |(name, room): (&Arc<str>, &Quantity)| {
        let asked = asked.get(name).map_or(0, |amount| amount.nanos()).max(0);
        match room.nanos() {
            0 => 0,
            room => (asked * 100 + room - 1) / room,
        }
    };
    room.iter().map(percent).max().and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
}

/// Formats resources as `500m cpu, 1Gi memory`.
pub fn amounts(resources: &Resources) -> String {
    let parts: Vec<String> = resources.iter().map(|(name, amount)| format!("{amount} {name}")).collect();
    parts.join(", ")
}
