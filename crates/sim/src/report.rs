//! What a simulated run showed, for people and for programs. Times are milliseconds since the run began.

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub seed: u64,
    pub nodes: usize,
    /// When everything had arrived, or when nothing could happen any more.
    pub ended: u64,
    /// When the last of what was to happen meanwhile (`--at`) did; 0 if nothing was.
    pub last_action: u64,
    pub outcome: Outcome,
    pub sequences: Vec<SequenceReport>,
    /// Every pod there was, in the order in which they were created.
    pub pods: Vec<PodReport>,
    /// Every volume claim there was, in the order in which they were created.
    pub claims: Vec<ClaimReport>,
    /// Orders, and every ticket there was, in the order in which they were created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tickets: Vec<TicketReport>,
    /// The chain of pods that the end had to wait for, first one first.
    pub critical: Vec<CriticalStep>,
    /// What can never start.
    pub never: Vec<Never>,
    /// What the simulation did not look at, and other things worth knowing.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// Every sequence is complete, every pod has arrived.
    Complete,
    /// Something can never start.
    Stuck,
    /// Not over within the time that was given.
    Unfinished,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceReport {
    pub namespace: String,
    pub name: String,
    /// Each node goes through the groups on its own.
    pub by_node: bool,
    pub phase: String,
    pub message: String,
    pub groups: Vec<GroupReport>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupReport {
    pub name: String,
    /// The groups it waits for, by their place in the list.
    pub waits_for: Vec<usize>,
    /// `Waiting`, `Open`, `Complete`, `TimedOut`.
    pub state: String,
    pub expected: Option<u32>,
    pub arrived: u32,
    pub opened: Option<u64>,
    pub completed: Option<u64>,
    /// Its members, by their place in [`Report::pods`].
    pub pods: Vec<usize>,
    /// Why it is not complete.
    pub reason: Option<Why>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    pub namespace: String,
    pub name: String,
    /// Such as `Deployment/web`.
    pub workload: Option<String>,
    pub node: Option<String>,
    /// The names by which it alone is found, while a headless Service selects it.
    pub dns: Vec<String>,
    /// What it was when; each lasts until the next begins, the last one to the end unless the pod was deleted.
    pub spans: Vec<Span>,
    pub deleted: Option<u64>,
    /// When it first arrived: became ready, or ended well.
    pub arrived: Option<u64>,
    /// Why it has not arrived.
    pub reason: Option<Why>,
    /// How its containers started, if they have an order: the highest priority first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankReport>,
}

/// The containers of a pod that have the same priority, and start together.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RankReport {
    pub priority: i32,
    pub containers: Vec<String>,
    /// What the rank was when, as for a pod. It is held until the ranks above are ready.
    pub spans: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimReport {
    pub namespace: String,
    /// Such as `data-db-0`.
    pub name: String,
    pub deleted: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderReport {
    pub namespace: String,
    pub name: String,
    /// Whether all room that it wants is kept.
    pub ready: bool,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TicketReport {
    pub namespace: String,
    pub name: String,
    /// The Order that made it.
    pub order: Option<String>,
    /// Where its room is.
    pub node: Option<String>,
    /// What it was when; each lasts until the next begins, the last one to the end unless the ticket was deleted.
    pub spans: Vec<TicketSpan>,
    pub deleted: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TicketSpan {
    pub from: u64,
    pub state: TicketState,
    /// The pod that has its room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Why it is not reserved, if nothing is about to change that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TicketState {
    Pending,
    /// Pending, and there is no room for it.
    NoRoom,
    Reserved,
    Claimed,
    Expired,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    pub from: u64,
    pub state: PodState,
    /// Why it was in this state, in a few words, where there is more to say than the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PodState {
    /// By a scheduling gate, or because the nodes that fit are not open for it yet.
    Held,
    /// No node has room, or none fits.
    Unschedulable,
    /// Bound, not ready.
    Starting,
    Ready,
    /// Was ready, or runs, and is not ready.
    NotReady,
    Succeeded,
    Failed,
    Terminating,
}

/// A reason as `explain` gives it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub code: String,
    pub sentence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A pod on the critical chain, from when it was let go until it arrived.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CriticalStep {
    /// By its place in [`Report::pods`].
    pub pod: usize,
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Never {
    /// Such as `pod/web`, `3 pods of Deployment/web` or `podseq/shop group "Frontend Layer"`.
    pub what: String,
    /// By their places in [`Report::pods`].
    pub pods: Vec<usize>,
    pub why: Why,
}
