//! The faults, each with a name, a place and a counter.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal, $place:ident;)*) => {
        /// A fault that a run can inject.
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
    /// At the controller's process, at a given time.
    Process,
    /// At the cluster, at a given time.
    Cluster,
    /// At nodes, at a given time, in worlds with sequences in Node scope.
    Nodes,
    /// At pods whose containers start in order, at a given time.
    Launch,
    /// At objects that take part in reservations, at a given time.
    Reservation,
    /// At one step of the hand-over of a ticket's capacity to a pod, just before the step is carried out.
    HandOver,
}

faults! {
    /// Status 409; the write is not carried out.
    Conflict = "conflict", Write;
    Throttled = "429", Write;
    ServerError = "500", Write;
    Unavailable = "503", Write;
    Unauthorized = "401", Write;
    Forbidden = "403", Write;
    /// No answer; the write is not carried out.
    Timeout = "timeout", Write;
    /// The write is carried out, but the connection breaks before the answer.
    LostAnswer = "lost-answer", Write;
    /// The write is carried out, but the answer is delayed.
    SlowAnswer = "slow-answer", Write;
    /// The write is carried out after a delay.
    SlowCommit = "slow-commit", Write;
    /// The write is carried out, but the connection breaks in the middle of the answer.
    CutAnswer = "cut-answer", Write;
    /// The write is carried out, but the answer is not JSON.
    Garbage = "garbage", Write;
    /// A foreign actor writes to the object between the controller's decision and its write.
    Raced = "raced", Write;
    /// The process ends; the write is not carried out.
    CrashBefore = "crash-before", Write;
    /// The process ends; the write is carried out.
    CrashAfter = "crash-after", Write;

    ListRefused = "list-500", List;
    ListForbidden = "list-403", List;
    /// The answer is older than an earlier one.
    OlderList = "older-list", List;
    ListGarbage = "list-garbage", List;
    /// Pages are small, and a continue token has expired.
    ExpiredToken = "expired-token", List;

    /// Status 410 as the answer to the watch request.
    Gone = "410", Watch;
    /// Status 410 as an event of the watch.
    GoneEvent = "410-event", Watch;
    /// The watch delivers nothing for minutes, but the connection does not break.
    Silence = "silence", Watch;
    Close = "close", Watch;
    Duplicate = "duplicate", Watch;
    /// The watch of one kind is delayed against the others.
    Behind = "behind", Watch;
    /// Old events are delivered again.
    OlderEvents = "older-events", Watch;
    WatchGarbage = "watch-garbage", Watch;
    /// The watch delivers nothing, even after reconnects, until the process restarts.
    Hang = "hang", Watch;

    /// SIGKILL at a given time.
    Kill = "kill", Process;
    /// The process is suspended for longer than its lease.
    Pause = "pause", Process;
    /// A second controller also believes that it leads.
    TwoLeaders = "two-leaders", Process;
    /// The process restarts with a different clock.
    ClockJump = "clock-jump", Process;
    /// An ordinary stop and start.
    Restart = "restart", Process;
    /// The process is killed and stays down for a while.
    Away = "away", Process;

    /// A pod is deleted, and another one with its name is created.
    Recreated = "recreated", Cluster;
    Evicted = "evicted", Cluster;
    /// A pod is briefly not ready.
    Flap = "flap", Cluster;
    /// A node is deleted and re-created with the same name.
    NodeGone = "node-gone", Cluster;
    /// A foreign actor removes Rollcall's gate.
    GateTaken = "gate-taken", Cluster;
    /// A foreign actor repeatedly writes to pods and sequences.
    ForeignWrites = "foreign-writes", Cluster;
    /// A foreign actor taints and labels nodes.
    ForeignTaint = "foreign-taint", Cluster;
    /// The spec of a sequence is edited and rolled back.
    Edited = "edited", Cluster;
    /// The API server is briefly down; all connections break.
    ServerRestart = "server-restart", Cluster;
    /// The PodSequence kind is briefly not served, and the process starts at that time.
    KindAbsent = "crd-absent", Cluster;
    /// A quota briefly rejects everything that the controller creates.
    Quota = "quota", Cluster;
    /// A pod is re-created while no watch is open, and a compaction removes the events before the watches resume.
    Unseen = "unseen", Cluster;
    /// A compaction: watches that resume must list again.
    Compacted = "compacted", Cluster;
    /// The controller's own namespace is deleted.
    NamespaceGone = "namespace-gone", Cluster;
    /// The sequence is deleted and re-created.
    SequenceRecreated = "sequence-recreated", Cluster;
    /// All pods of the sequence are stopped and started again, as by `rollcall stop` and `rollcall start`.
    BegunAgain = "begun-again", Cluster;

    /// A node joins, and leaves after a while.
    NodeVisits = "node-visits", Nodes;
    Cordoned = "cordoned", Nodes;
    /// A node label that agents select is removed and added again.
    Relabelled = "relabelled", Nodes;
    /// The agents are replaced, node by node.
    AgentsRolled = "agents-rolled", Nodes;
    /// A foreign actor removes Rollcall's labels and taints from a node.
    MarksTaken = "marks-taken", Nodes;
    /// A foreign actor adds Rollcall's labels or taints to a node, with valid values.
    MarksAdded = "marks-added", Nodes;

    /// A foreign actor deletes the ConfigMap that the containers of a pod wait for.
    BarrierDeleted = "barrier-deleted", Launch;
    /// A foreign actor removes the gate that holds a pod until its ConfigMap exists.
    LaunchGateTaken = "launch-gate-taken", Launch;
    /// A pod is re-created. Meanwhile a foreign actor creates a ConfigMap with the name that the pod needs, and keeps it
    /// for a while.
    BarrierInTheWay = "barrier-in-the-way", Launch;
    /// A kubelet is inactive for a while.
    KubeletAway = "kubelet-away", Launch;

    /// A foreign actor deletes a guardian.
    GuardianDeleted = "guardian-deleted", Reservation;
    /// A guardian fails, as after an eviction by the kubelet.
    GuardianFailed = "guardian-failed", Reservation;
    TicketDeleted = "ticket-deleted", Reservation;
    /// The spec of an Order is edited and rolled back.
    OrderEdited = "order-edited", Reservation;
    OrderPaused = "order-paused", Reservation;
    /// An Order is deleted and re-created.
    OrderRecreated = "order-recreated", Reservation;
    /// A PriorityClass is deleted: Rollcall's, or that of the pods, which is re-created.
    ClassDeleted = "class-deleted", Reservation;
    /// A node is briefly not Ready.
    NodeNotReady = "node-not-ready", Reservation;

    /// The claiming pod is deleted.
    ClaimerGone = "claimer-gone", HandOver;
    /// The ticket is deleted.
    TicketGone = "ticket-gone", HandOver;
    /// A foreign actor deletes the guardian.
    GuardianGone = "guardian-gone", HandOver;
    /// A foreign actor removes the gate of the pod.
    TicketGateTaken = "ticket-gate-taken", HandOver;
    /// The node is cordoned for a while.
    NodeClosed = "node-closed", HandOver;
}

impl Fault {
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.name() == name)
    }

    /// Whether the fault strikes at a time, rather than at a request.
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
    /// For a fault at a write, list, watch or hand-over step: the number of that request, counted from 1. Otherwise:
    /// milliseconds since the start.
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
        let (name, when) = text.split_once('@').ok_or(format!("{text:?} is not of the form fault@when"))?;
        let fault = Fault::named(name).ok_or_else(|| {
            let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            format!("unknown fault {name:?}; known faults: {}", names.join(", "))
        })?;
        let when = when.parse().map_err(|_| format!("{when:?} in {text:?} is not a number"))?;
        Ok(Planned { fault, when })
    }
}

/// How often each fault struck.
pub type Counts = BTreeMap<Fault, u64>;
