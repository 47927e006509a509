//! What is known of Orders, Tickets and the pods that want one: parsed, with all defaults applied.

use super::timetable::{OrderTimes, Timetable};
use crate::{Timestamp, Uid, labels::Labels, node::Placement, quantity::Quantity, selector::Selector};
use jiff::SignedDuration;
use std::sync::Arc;

pub use crate::resources::Resources;

/// How long a ticket lasts that says nothing of it.
pub const DEFAULT_DURATION: SignedDuration = SignedDuration::from_hours(24);

/// One Order. What stands in its spec is shared: a status that changes does not copy it.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: u64,
    pub generation: i64,
    pub created: Timestamp,
    pub terminating: bool,
    /// The tick for which it reserved last. Journaled in its status: `Scheduled` reserves once, also when the schedule is edited.
    pub last_tick: Option<Timestamp>,
    /// Or what is wrong with it, where the API server could not tell.
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
    /// Pods that get a ticket without asking for one.
    pub selector: Option<Selector>,
    pub min_ready: SignedDuration,
    pub template: Template,
}

/// How many tickets an Order has, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// One on each node that is eligible.
    EachNode,
    /// So many, wherever there is room.
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

/// What the tickets of an Order are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub spec: Arc<TicketSpec>,
    /// Changes when tickets have to be made anew.
    pub hash: Arc<str>,
    /// Labels and annotations of tickets, as JSON.
    pub metadata: Arc<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TicketSpec {
    /// How long a ticket stays after its end.
    pub ttl: SignedDuration,
    /// It stays for ever.
    pub retain: bool,
    pub start: Option<Timestamp>,
    pub duration: Option<SignedDuration>,
    pub priority_class: Option<Arc<str>>,
    pub requests: Resources,
    pub placement: Placement,
    /// All of it but for the name of a node, as JSON: what guardians and tickets are made of.
    pub text: Arc<str>,
}

impl OrderSpec {
    /// How long its tickets last; `None`: for ever.
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
    /// By these, claims may name it.
    pub labels: Labels,
    /// The Order that made it.
    pub order: Option<Uid>,
    /// Its place in an Order that wants a number of tickets.
    pub index: Option<u32>,
    /// The template it was made of.
    pub template: Option<Arc<str>>,
    /// The time of the schedule for which it was made.
    pub tick: Option<Timestamp>,
    /// The only node it can be on.
    pub node: Option<Arc<str>>,
    pub spec: Result<Arc<TicketSpec>, Arc<str>>,
    pub record: Record,
}

/// What its status says: what must outlive the process, and what people read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub phase: Option<Phase>,
    pub observed_generation: i64,
    /// When its guardian first ran.
    pub activated: Option<Timestamp>,
    /// When it ends, or has ended. While somebody has it, this says nothing.
    pub expires: Option<Timestamp>,
    /// The node of its guardian, or of its claimer.
    pub node: Option<Arc<str>>,
    /// The guardian; of a claimed ticket: until the claimer is in its place.
    pub guardian: Option<Arc<str>>,
    pub claim: Option<Claim>,
    pub reason: Arc<str>,
    pub message: Arc<str>,
    pub ready: Condition,
    pub guardian_ready: Condition,
    pub expiring: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    Reserved,
    Claimed,
    Expired,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Pending, Phase::Reserved, Phase::Claimed, Phase::Expired];

    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Reserved => "Reserved",
            Phase::Claimed => "Claimed",
            Phase::Expired => "Expired",
        }
    }
}

/// A condition, and since when it is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    pub holds: bool,
    pub since: Option<Timestamp>,
}

impl Condition {
    /// The same, or the other from now on.
    pub fn becomes(self, holds: bool, now: Timestamp) -> Condition {
        match self.since {
            Some(_) if self.holds == holds => self,
            _ => Condition { holds, since: Some(now) },
        }
    }
}

/// The pod that has, or is being given, the room of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub pod: Uid,
    pub name: Arc<str>,
    pub at: Timestamp,
    /// What the pod asks for, in percent of what the ticket keeps: the largest of its resources.
    pub utilization: u32,
}

impl Ticket {
    pub fn phase(&self) -> Phase {
        self.record.phase.unwrap_or(Phase::Pending)
    }

    pub fn claim(&self) -> Option<&Claim> {
        self.record.claim.as_ref().filter(|_| self.phase() == Phase::Claimed)
    }

    /// A pod has claimed it, and does not run in its room yet.
    pub fn is_being_handed_over(&self) -> bool {
        self.claim().is_some() && self.record.guardian.is_some()
    }

    /// It keeps room for nobody in particular, or is about to.
    pub fn is_unclaimed(&self) -> bool {
        !self.terminating && matches!(self.phase(), Phase::Pending | Phase::Reserved)
    }
}

/// What a pod with the ticket gate asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub wanted: Wanted,
    /// By these an Order may select it. They are kept here: of other pods only those are kept that a sequence asks for.
    pub labels: Labels,
    pub resources: Resources,
    pub priority: i32,
    pub placement: Placement,
}

/// Which ticket a pod wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None in particular: an Order may select it.
    Any,
    Ticket(Arc<str>),
    /// A ticket with this label.
    Label {
        key: Arc<str>,
        value: Arc<str>,
    },
    Order(Arc<str>),
    /// What is asked for cannot be understood: in words.
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

/// The first resource of which `room` has less than is asked for.
pub fn lacking<'a>(room: &Resources, asked: &'a Resources) -> Option<(&'a Arc<str>, Quantity)> {
    let enough = |name: &Arc<str>, amount: &Quantity| {
        amount.nanos() <= 0 || room.get(name).is_some_and(|room| room >= amount)
    };
    asked.iter().find(|(name, amount)| !enough(name, amount)).map(|(name, amount)| (name, *amount))
}

/// What is asked for in percent of the room, rounded up: of the resource of which it is most.
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

/// As `500m cpu, 1Gi memory`.
pub fn amounts(resources: &Resources) -> String {
    let parts: Vec<String> = resources.iter().map(|(name, amount)| format!("{amount} {name}")).collect();
    parts.join(", ")
}
