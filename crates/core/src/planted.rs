//! Planted bugs: deliberate errors that show that the fault runs detect what they claim to detect. They exist only in builds with
//! debug assertions. A test plants one bug at a time, for the thread that runs a simulation. In a release build [`planted`] is a
//! constant, and the compiler removes the bugs.

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

            /// The incorrect behaviour that the bug causes.
            pub fn what(self) -> &'static str {
                match self { $(Bug::$bug => $what,)* }
            }
        }
    };
}

bugs! {
    // Identity and versions of objects.
    NoUidInRelease = "no-uid-in-release", "a release does not contain the uid of its pod";
    NoTestInStatus = "no-test-in-status", "a status is written even if the object has changed since it was read";
    NamesNotUids = "names-not-uids", "a pod that is re-created under the same name is treated as the old pod";
    OlderPodWins = "older-pod-wins", "an older view of a pod replaces a newer one";
    TerminatingCounts = "terminating-counts", "a terminating pod still counts as arrived";
    LatePodForgotten = "late-pod-forgotten", "a pod that is created after the first list belongs to no group";

    // Completion of groups, and releases.
    InFlightIsDone = "in-flight-is-done", "a pod counts as arrived as soon as its release is sent";
    StartedIsReady = "started-is-ready", "a running pod counts as arrived even if it is not ready";
    OneShort = "one-short", "a group is complete with one member less than it needs";
    OwnersNotAsked = "owners-not-asked", "only existing pods are expected; the replica counts of their owners are ignored";
    SettleIgnored = "settle-ignored", "the waitDuration of a group is ignored";
    CompleteWhenOpened = "complete-when-opened", "a group is journaled as complete as soon as it opens";
    AllAtOnce = "all-at-once", "maxConcurrentStarts is ignored";
    SharedPodOneVote = "shared-pod-one-vote", "a pod of two sequences is released when one of them permits it";
    SuspendIgnored = "suspend-ignored", "a suspended sequence continues";
    PermissionIgnored = "permission-ignored", "a sequence acts in other namespaces without their permission";
    HoldIgnored = "hold-ignored", "a deleted sequence releases its pods, whatever its deletionPolicy is";

    // Delays, failures and retries.
    UnsureForgotten = "unsure-forgotten", "a release that got no answer is never checked again";
    RefusedForgotten = "refused-forgotten", "a rejected release is never retried";
    StatusNotRetried = "status-not-retried", "a failed status write is never retried";
    WakeForgotten = "wake-forgotten", "the controller does not wake at the end of a delay";
    TrustsClocks = "trusts-clocks", "a journaled time that is ahead of the local clock is waited for";
    SentAgain = "sent-again", "a write that is in flight is sent again with every decision";
    StatusLoop = "status-loop", "the status changes with every decision";
    StatusFight = "status-fight", "a status that another controller overwrites is written again without back-off";

    // Watches.
    GoneNotListed = "gone-not-listed", "after a 410 response, the watch is resumed instead of listing again";
    EventsSkipped = "events-skipped", "a closed watch is resumed after a gap, so that events are missed";
    WatchDies = "watch-dies", "a broken watch is never reopened";
    GarbageIsEmpty = "garbage-is-empty", "a response that is not a list is treated as an empty list";
    AbsentIsEmpty = "absent-is-empty", "a kind that the API server does not serve is treated as an empty list, which removes the known objects";
    TokenEndsList = "token-ends-list", "an expired continue token is treated as the end of the list";
    AliveForEver = "alive-for-ever", "a watch that no longer delivers events is not detected";

    // Restarts, leadership and leftovers.
    LastStartCounts = "last-start-counts", "a sequence that restarts uses the times of its previous start";
    JournalForgotten = "journal-forgotten", "the state journaled in the status is not read after a restart";
    GenerationBack = "generation-back", "after a restart, the status reports the first generation";
    ActsWithoutLease = "acts-without-lease", "a replica that has lost its lease continues to write";
    LeaseTakenEarly = "lease-taken-early", "a lease is taken before it has expired";
    NotesStay = "notes-stay", "the notes of deleted sequences are never removed";
    AllGatesGo = "all-gates-go", "a release also removes foreign gates";

    // Nodes.
    OneNodeOpensAll = "one-node-opens-all", "a group is open on all nodes as soon as one node has reached it";
    NotSteered = "not-steered", "a pod that could run on any node is released without a constraint to open nodes";
    NodeReadyIgnored = "node-ready-ignored", "a node is open without the conditions and resources that nodeReady requires";
    NodeNameNotUid = "node-name-not-uid", "a node that is re-created under the same name is treated as the old node";
    TaintsReplaced = "taints-replaced", "a write replaces all taints of a node, which removes foreign taints";
    MarksStay = "marks-stay", "the labels and taints of a deleted sequence stay on nodes";
    UnseenNotTaken = "unseen-not-taken", "the label that marks new nodes is never removed";

    // Launch order of containers.
    GateBeforeBarrier = "gate-before-barrier", "a pod is released before its ConfigMap exists";
    OnePassesForAll = "one-passes-for-all", "a rank has passed as soon as one of its containers has passed";
    AllKeysAtOnce = "all-keys-at-once", "the ConfigMap of a pod is created with the keys of all ranks";
    AnnouncedBeforeKey = "announced-before-key", "the kubelet is nudged before the key exists";
    CompletedEarly = "completed-early", "a pod is annotated as completed before its last rank is open";
    RankTrusted = "rank-trusted", "after a restart, the rank that was opened last counts as ready";
    ExitCodeIgnored = "exit-code-ignored", "a container that has failed counts as one that has succeeded";
    StuckForgotten = "stuck-forgotten", "a container that does not find its key is ignored";
    NamesakeReused = "namesake-reused", "a pod uses the ConfigMap of an earlier pod of the same name";
    StrangersBarrierGoes = "strangers-barrier-goes", "a ConfigMap without an owner is deleted if it has the name of a barrier";
    OldViewDeletes = "old-view-deletes", "an old view makes the controller delete the ConfigMap of the next pod of the same name";
    BarrierWithoutOwner = "barrier-without-owner", "a ConfigMap is not deleted with its pod";
    KeyForAnybody = "key-for-anybody", "a key is added to a ConfigMap without checking its owner";

    // Reservations.
    GuardianBeforeNomination = "guardian-before-nomination", "a guardian is deleted before the claiming pod is nominated";
    GateBeforeGuardian = "gate-before-guardian", "a claiming pod is released while the guardian still exists";
    GuardianBeforeOthersNominated = "guardian-before-others-nominated", "a guardian is deleted before every pod of its batch is nominated";
    GateBeforeOtherGuardians = "gate-before-other-guardians", "a pod is released before every guardian of its batch is deleted";
    NoUidInDeletion = "no-uid-in-deletion", "a deletion does not contain the uid of its object";
    ConflictIsGone = "conflict-is-gone", "an object whose deletion failed with a conflict counts as deleted";
    AbsentIsGone = "absent-is-gone", "a ticket counts as deleted if its kind is not served";
    ReplacedTooEarly = "replaced-too-early", "a ticket is replaced while its hand-over is in progress";
    GuardianNamedAnew = "guardian-named-anew", "a guardian that is re-created has another name";
    ExpiredKeepsGuardian = "expired-keeps-guardian", "an expired ticket keeps its guardian";
    ClaimTooSmall = "claim-too-small", "a pod claims a ticket that reserves less than the pod requests";
    ClaimWithOtherGates = "claim-with-other-gates", "a pod that is held by other gates claims a ticket";
    OtherNodesTicket = "other-nodes-ticket", "the pod of a DaemonSet claims the ticket of another node";
    TicketOnClosedNode = "ticket-on-closed-node", "a cordoned node gets a ticket";
    ClaimerDeleted = "claimer-deleted", "a claiming pod that is not bound to the node of its ticket is deleted";
    NotBoundIgnored = "not-bound-ignored", "a claiming pod that is not bound to the node of its ticket is ignored";
    ClaimNeverEnds = "claim-never-ends", "a claim outlives its pod";
    PriorityAbovePods = "priority-above-pods", "guardians have a higher priority than the pods that claim their tickets";
    GuardiansEvict = "guardians-evict", "guardians preempt pods of lower priority";
    AnsweredAtOnce = "answered-at-once", "a write that another client keeps undoing is repeated without back-off";
    BoundBeforeLetGo = "bound-before-let-go", "a claiming pod is expected to run before it is released";
    GuardianBeside = "guardian-beside", "a guardian that exists beside its claiming pod is not deleted";
    RefusedOnce = "refused-once", "a nomination is given up after one rejection";
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

    /// Plants a bug in this thread, or with `None` removes it.
    pub fn plant(bug: Option<Bug>) {
        CHOSEN.set(bug);
    }

    /// Whether this bug is planted in this thread.
    pub fn planted(bug: Bug) -> bool {
        CHOSEN.get() == Some(bug)
    }
}

#[cfg(debug_assertions)]
pub use chosen::{plant, planted};

/// Whether this bug is planted: never in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}
