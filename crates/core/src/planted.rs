//! Planted bugs: they show that the fault runs find what they claim to find. They exist only in builds with debug
//! assertions, so no release has them. A test plants one bug at a time, for the thread that runs a simulation. In a
//! release build [`planted`] is a constant, and the compiler removes every trace of the bugs.

macro_rules! bugs {
    ($($bug:ident = $name:literal, $what:literal;)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug { $(#[doc = $what] $bug,)* }

        impl Bug {
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];

            pub fn name(self) -> &'static str {
                match self { $(Bug::$bug => $name,)* }
            }

            /// What is wrong with it, for people.
            pub fn what(self) -> &'static str {
                match self { $(Bug::$bug => $what,)* }
            }
        }
    };
}

bugs! {
    // Which object, and which view of it.
    NoUidInRelease = "no-uid-in-release", "a release does not say which uid it is for";
    NoTestInStatus = "no-test-in-status", "a status is written whatever the object has become";
    NamesNotUids = "names-not-uids", "a pod re-created under its name is taken for the old one";
    OlderPodWins = "older-pod-wins", "an older view of a pod replaces a newer one";
    TerminatingCounts = "terminating-counts", "a pod on its way out still counts as arrived";
    LatePodForgotten = "late-pod-forgotten", "a pod that comes after the first list belongs to nobody";

    // When a group is complete, and what that opens.
    InFlightIsDone = "in-flight-is-done", "a release that was sent counts as arrived";
    StartedIsReady = "started-is-ready", "a pod that runs counts as arrived";
    OneShort = "one-short", "a group is complete with one member less than it needs";
    OwnersNotAsked = "owners-not-asked", "only pods that are there are expected, whatever their owner wants";
    SettleIgnored = "settle-ignored", "nobody waits for the waitDuration of a group";
    CompleteWhenOpened = "complete-when-opened", "a group is journaled as complete as soon as it is open";
    AllAtOnce = "all-at-once", "maxConcurrentStarts is not looked at";
    SharedPodOneVote = "shared-pod-one-vote", "one of two sequences is enough to release a pod of both";
    SuspendIgnored = "suspend-ignored", "a suspended sequence goes on";
    PermissionIgnored = "permission-ignored", "other namespaces are not asked";
    HoldIgnored = "hold-ignored", "what is deleted lets go, whatever its deletionPolicy";

    // Waiting, failing, trying again.
    UnsureForgotten = "unsure-forgotten", "a release without an answer is never looked at again";
    RefusedForgotten = "refused-forgotten", "a release that was refused is never sent again";
    StatusNotRetried = "status-not-retried", "a status that could not be written is given up";
    WakeForgotten = "wake-forgotten", "nobody wakes when the time has come that was waited for";
    TrustsClocks = "trusts-clocks", "a time journaled by a clock ahead of ours is waited for";
    SentAgain = "sent-again", "what is in flight is sent again with every decision";
    StatusLoop = "status-loop", "the status changes with every look at it";
    StatusFight = "status-fight", "who is contradicted by another controller answers at once, for ever";

    // Watches.
    GoneNotListed = "gone-not-listed", "after 410 the watch is resumed where it was";
    EventsSkipped = "events-skipped", "a watch that was closed is resumed a little later than it ended";
    WatchDies = "watch-dies", "a watch that broke is never opened again";
    GarbageIsEmpty = "garbage-is-empty", "an answer that is no list is taken for an empty one";
    AbsentIsEmpty = "absent-is-empty", "a kind that is not there has no objects, and those known are gone";
    TokenEndsList = "token-ends-list", "an expired continue token is the end of the list";
    AliveForEver = "alive-for-ever", "a dead watch is not missed";

    // Restarts, leaders, what is left behind.
    LastStartCounts = "last-start-counts", "a sequence that begins again goes by the times of its last start";
    JournalForgotten = "journal-forgotten", "what the status has journaled is not read at the start";
    GenerationBack = "generation-back", "after a restart the status speaks of the first generation";
    ActsWithoutLease = "acts-without-lease", "a replica that lost its lease goes on";
    LeaseTakenEarly = "lease-taken-early", "a lease is taken before it has run out";
    NotesStay = "notes-stay", "the notes of deleted sequences are never removed";
    AllGatesGo = "all-gates-go", "a release takes the gates of others away, too";

    // Nodes.
    OneNodeOpensAll = "one-node-opens-all", "as soon as one node has reached a group, no node is closed to it any more";
    NotSteered = "not-steered", "a pod that could land anywhere is let go without a word about where";
    NodeReadyIgnored = "node-ready-ignored", "nobody waits for what a node has to show besides its pods";
    NodeNameNotUid = "node-name-not-uid", "a node that comes back under its name is taken for the old one";
    TaintsReplaced = "taints-replaced", "the taints of a node are written as a whole, and those of others are gone";
    MarksStay = "marks-stay", "what a deleted sequence wrote on nodes stays there";
    UnseenNotTaken = "unseen-not-taken", "nobody takes off the label by which new nodes are known";

    // The order of containers.
    GateBeforeBarrier = "gate-before-barrier", "a pod is let go before its ConfigMap is there";
    OnePassesForAll = "one-passes-for-all", "a rank has passed as soon as one of its containers has";
    AllKeysAtOnce = "all-keys-at-once", "the ConfigMap of a pod is made with the keys of all ranks";
    AnnouncedBeforeKey = "announced-before-key", "the kubelet is told to look before the key is there";
    CompletedEarly = "completed-early", "with the second rank a pod says that every rank is open";
    RankTrusted = "rank-trusted", "after a restart the rank that was opened last counts as ready";
    ExitCodeIgnored = "exit-code-ignored", "a container that has failed counts as one that has done its work";
    StuckForgotten = "stuck-forgotten", "nobody looks after a container that does not find its key";
    NamesakeReused = "namesake-reused", "the ConfigMap of a pod that had the same name is taken for one's own";
    StrangersBarrierGoes = "strangers-barrier-goes", "a ConfigMap that nobody owns is deleted if it is in the way";
    OldViewDeletes = "old-view-deletes", "the ConfigMap of the next pod is deleted for one that is gone, and not known to be";
    BarrierWithoutOwner = "barrier-without-owner", "a ConfigMap does not go with its pod";
    KeyForAnybody = "key-for-anybody", "a key is added to a ConfigMap whosever it is";

    // Reservations.
    GuardianBeforeNomination = "guardian-before-nomination", "a guardian goes before its claimer is nominated";
    GateBeforeGuardian = "gate-before-guardian", "a claimer is let go while the guardian is there";
    GuardianBeforeOthersNominated = "guardian-before-others-nominated", "a guardian is deleted before every pod of its batch is nominated";
    GateBeforeOtherGuardians = "gate-before-other-guardians", "a pod is released before every guardian of its batch is deleted";
    NoUidInDeletion = "no-uid-in-deletion", "a deletion does not say which uid it is for";
    ConflictIsGone = "conflict-is-gone", "what could not be deleted because of a conflict counts as gone";
    AbsentIsGone = "absent-is-gone", "a ticket that is not found because its kind is not served counts as gone";
    ReplacedTooEarly = "replaced-too-early", "the next ticket is made while the room of the last one is handed over";
    GuardianNamedAnew = "guardian-named-anew", "a guardian that is made again has another name";
    ExpiredKeepsGuardian = "expired-keeps-guardian", "the guardian of a ticket that has ended stays";
    ClaimTooSmall = "claim-too-small", "a pod gets a ticket that keeps less than it asks for";
    ClaimWithOtherGates = "claim-with-other-gates", "a pod that others hold, too, gets a ticket";
    OtherNodesTicket = "other-nodes-ticket", "the pod of a DaemonSet gets the ticket of another node";
    TicketOnClosedNode = "ticket-on-closed-node", "a cordoned node has a ticket";
    ClaimerDeleted = "claimer-deleted", "a pod that did not take its room is deleted";
    NotBoundIgnored = "not-bound-ignored", "nobody looks whether a claimer has taken its room";
    ClaimNeverEnds = "claim-never-ends", "a claim outlives its pod";
    PriorityAbovePods = "priority-above-pods", "guardians are more important than those they keep the room for";
    GuardiansEvict = "guardians-evict", "guardians evict those that are less important";
    AnsweredAtOnce = "answered-at-once", "what somebody undoes is made again at once, for ever";
    BoundBeforeLetGo = "bound-before-let-go", "a claimer is expected to run before it is let go";
    GuardianBeside = "guardian-beside", "a guardian that is there beside its claimer stays";
    RefusedOnce = "refused-once", "a nomination that was refused once is given up";
    ReservedBeforeItRuns = "reserved-before-it-runs", "a ticket is Reserved before its guardian runs";
}

impl Bug {
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

#[cfg(debug_assertions)]
mod chosen {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug, or none, in what this thread does from here on.
    pub fn plant(bug: Option<Bug>) {
        CHOSEN.set(bug);
    }

    /// Whether this bug is planted here.
    pub fn planted(bug: Bug) -> bool {
        CHOSEN.get() == Some(bug)
    }
}

#[cfg(debug_assertions)]
pub use chosen::{plant, planted};

/// Whether this bug is planted here: never.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}
