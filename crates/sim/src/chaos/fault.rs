//! The faults: each has a name, a switch and a counter.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal, $place:ident;)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $($(#[$doc])* $fault,)* }

        impl Fault {
            pub const ALL: &[Fault] = &[$(Fault::$fault,)*];

            pub fn name(self) -> &'static str {
                match self { $(Fault::$fault => $name,)* }
            }

            pub fn place(self) -> Place {
                match self { $(Fault::$fault => Place::$place,)* }
            }
        }
    };
}

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At one write of the controller.
    Write,
    /// At one list of the controller.
    List,
    /// In one watch of the controller.
    Watch,
    /// At the controller's process, at some time.
    Process,
    /// At the cluster, at some time.
    Cluster,
    /// At nodes, at some time, in worlds whose sequences go by nodes.
    Nodes,
    /// At pods whose containers start in order, at some time.
    Launch,
    /// At what room is kept by, at some time.
    Reservation,
    /// At one step in which room is handed over to a pod, just before it is carried out.
    HandOver,
}

faults! {
    /// 409, and nothing is done.
    Conflict = "conflict", Write;
    Throttled = "429", Write;
    ServerError = "500", Write;
    Unavailable = "503", Write;
    Unauthorized = "401", Write;
    Forbidden = "403", Write;
    /// No answer, and nothing is done.
    Timeout = "timeout", Write;
    /// Done, and the connection breaks before the answer.
    LostAnswer = "lost-answer", Write;
    /// Done, and the answer takes its time.
    SlowAnswer = "slow-answer", Write;
    /// Done, but only after a while.
    SlowCommit = "slow-commit", Write;
    /// Done, and the connection breaks within the answer.
    CutAnswer = "cut-answer", Write;
    /// Done, and the answer is not JSON.
    Garbage = "garbage", Write;
    /// Somebody else writes to the object between our decision and our write.
    Raced = "raced", Write;
    /// The process ends; the write is not done.
    CrashBefore = "crash-before", Write;
    /// The process ends; the write is done.
    CrashAfter = "crash-after", Write;

    ListRefused = "list-500", List;
    ListForbidden = "list-403", List;
    /// The answer is older than what was seen before.
    OlderList = "older-list", List;
    ListGarbage = "list-garbage", List;
    /// Pages are small, and a continue token is too old.
    ExpiredToken = "expired-token", List;

    /// 410 as the answer to the request.
    Gone = "410", Watch;
    /// 410 as an event.
    GoneEvent = "410-event", Watch;
    /// Nothing comes for minutes, and nothing breaks.
    Silence = "silence", Watch;
    Close = "close", Watch;
    Duplicate = "duplicate", Watch;
    /// One kind is seconds behind the others.
    Behind = "behind", Watch;
    /// Events that were seen long ago come again.
    OlderEvents = "older-events", Watch;
    WatchGarbage = "watch-garbage", Watch;
    /// Nothing comes any more, however often it is tried, until the process is started anew.
    Hang = "hang", Watch;

    /// SIGKILL at any time.
    Kill = "kill", Process;
    /// Not running for longer than its lease.
    Pause = "pause", Process;
    /// A second one that believes it leads.
    TwoLeaders = "two-leaders", Process;
    /// It starts anew with another idea of the time.
    ClockJump = "clock-jump", Process;
    /// An ordinary end and start.
    Restart = "restart", Process;
    /// Killed, and not started again for a while.
    Away = "away", Process;

    /// A pod is deleted and another one of its name is created.
    Recreated = "recreated", Cluster;
    Evicted = "evicted", Cluster;
    /// A pod is not ready for a moment.
    Flap = "flap", Cluster;
    /// A node is gone and comes back under its name.
    NodeGone = "node-gone", Cluster;
    /// Somebody else takes our gate away.
    GateTaken = "gate-taken", Cluster;
    /// Somebody else writes to pods and sequences all the time.
    ForeignWrites = "foreign-writes", Cluster;
    /// Somebody taints and labels nodes.
    ForeignTaint = "foreign-taint", Cluster;
    /// The spec is edited and rolled back.
    Edited = "edited", Cluster;
    /// The API server is not there for a moment; every connection breaks.
    ServerRestart = "server-restart", Cluster;
    /// Our kind is not served for a moment, and the process starts just then.
    KindAbsent = "crd-absent", Cluster;
    /// A quota refuses whatever we create, for a moment.
    Quota = "quota", Cluster;
    /// A pod is made anew while no watch is open, and by the time they are, the history of that is forgotten.
    Unseen = "unseen", Cluster;
    /// The history is forgotten: whoever resumes has to list.
    Compacted = "compacted", Cluster;
    /// Our own namespace is deleted.
    NamespaceGone = "namespace-gone", Cluster;
    /// The sequence is deleted and created anew.
    SequenceRecreated = "sequence-recreated", Cluster;
    /// Everything of the sequence is stopped and started once more, as `rollcall stop` and `rollcall start` do it.
    BegunAgain = "begun-again", Cluster;

    /// A node joins, and leaves after a while.
    NodeVisits = "node-visits", Nodes;
    Cordoned = "cordoned", Nodes;
    /// A label by which agents choose their nodes goes and comes back.
    Relabelled = "relabelled", Nodes;
    /// The agents are replaced, node by node.
    AgentsRolled = "agents-rolled", Nodes;
    /// Somebody takes our labels and taints off a node.
    MarksTaken = "marks-taken", Nodes;
    /// Somebody puts our labels or taints on a node, as we would write them.
    MarksAdded = "marks-added", Nodes;

    /// Somebody deletes the ConfigMap that the containers of a pod wait for.
    BarrierDeleted = "barrier-deleted", Launch;
    /// Somebody takes away the gate that holds a pod until its ConfigMap is there.
    LaunchGateTaken = "launch-gate-taken", Launch;
    /// A pod is made anew, and meanwhile somebody makes a ConfigMap of the name that it needs, and keeps it for a while.
    BarrierInTheWay = "barrier-in-the-way", Launch;
    /// A kubelet does nothing for a while.
    KubeletAway = "kubelet-away", Launch;

    /// Somebody deletes a guardian.
    GuardianDeleted = "guardian-deleted", Reservation;
    /// A guardian has failed, as one that its kubelet has evicted.
    GuardianFailed = "guardian-failed", Reservation;
    TicketDeleted = "ticket-deleted", Reservation;
    /// What an Order asks for is edited and rolled back.
    OrderEdited = "order-edited", Reservation;
    OrderPaused = "order-paused", Reservation;
    /// An Order is deleted and created anew.
    OrderRecreated = "order-recreated", Reservation;
    /// A PriorityClass is deleted: ours, or that of the pods, which comes back.
    ClassDeleted = "class-deleted", Reservation;
    /// A node is not Ready for a moment.
    NodeNotReady = "node-not-ready", Reservation;

    /// The pod that is given the room is deleted.
    ClaimerGone = "claimer-gone", HandOver;
    /// The ticket is deleted.
    TicketGone = "ticket-gone", HandOver;
    /// Somebody else deletes the guardian.
    GuardianGone = "guardian-gone", HandOver;
    /// Somebody else takes the gate of the pod away.
    TicketGateTaken = "ticket-gate-taken", HandOver;
    /// The node is cordoned, for a while.
    NodeClosed = "node-closed", HandOver;
}

impl Fault {
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.name() == name)
    }

    /// Whether it comes at a time, and not with a request.
    pub fn is_timed(self) -> bool {
        match self.place() {
            Place::Process | Place::Cluster | Place::Nodes | Place::Launch | Place::Reservation => true,
            Place::Write | Place::List | Place::Watch | Place::HandOver => false,
        }
    }

    pub fn at(place: Place) -> impl Iterator<Item = Fault> {
        Fault::ALL.iter().copied().filter(move |fault| fault.place() == place)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault and when it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Planned {
    pub fault: Fault,
    /// At a write, a list, a watch or a step of a hand-over: its number, counted from 1. Else: milliseconds since the start.
    pub when: u64,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.fault, self.when)
    }
}

impl std::str::FromStr for Planned {
    type Err = String;

    fn from_str(text: &str) -> Result<Planned, String> {
        let (name, when) = text.split_once('@').ok_or(format!("{text:?} is no fault@when"))?;
        let fault = Fault::named(name).ok_or_else(|| {
            let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            format!("no fault {name:?}; there are {}", names.join(", "))
        })?;
        let when = when.parse().map_err(|_| format!("{when:?} in {text:?} is no number"))?;
        Ok(Planned { fault, when })
    }
}

/// How often each fault struck.
pub type Counts = BTreeMap<Fault, u64>;
