//! The report of a simulated run, for people and programs. Times are milliseconds since the beginning of the run.

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub seed: u64,
    pub nodes: usize,
    /// When everything had arrived, or when nothing could happen any more; the time limit of an unfinished run.
    pub ended: u64,
    /// Time of the last user action (`--at`); 0 if there was none.
    pub last_action: u64,
    pub outcome: Outcome,
    pub sequences: Vec<SequenceReport>,
    /// Every pod that existed, in order of creation.
    pub pods: Vec<PodReport>,
    /// Every volume claim that existed, in order of creation.
    pub claims: Vec<ClaimReport>,
    /// All Orders. `tickets` contains every ticket that existed, in order of creation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tickets: Vec<TicketReport>,
    /// The chain of pods that determined the end of the run, from first to last.
    pub critical: Vec<CriticalStep>,
    /// Pods, groups and workloads that can never start.
    pub never: Vec<Never>,
    /// Limits of the simulation and other remarks.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// Every sequence is complete, every pod has arrived.
    Complete,
    /// A pod, group or workload can never start.
    Stuck,
    /// The time limit was reached first.
    Unfinished,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceReport {
    pub namespace: String,
    pub name: String,
    /// Whether each node passes through the groups independently (Node scope).
    pub by_node: bool,
    pub phase: String,
    pub message: String,
    pub groups: Vec<GroupReport>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupReport {
    pub name: String,
    /// The groups that this group waits for, by their place in the list.
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
    /// DNS names of this single pod. It has them while a headless Service selects it.
    pub dns: Vec<String>,
    /// States of the pod over time. Each lasts until the next begins, the last one until the end of the run or the pod's
    /// deletion.
    pub spans: Vec<Span>,
    pub deleted: Option<u64>,
    /// When the pod first arrived: became ready, or succeeded.
    pub arrived: Option<u64>,
    /// Why it has not arrived.
    pub reason: Option<Why>,
    /// Progress of its containers if they have a launch order, highest priority first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankReport>,
}

/// Containers of a pod with the same priority, which start together.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RankReport {
    pub priority: i32,
    pub containers: Vec<String>,
    /// States of the rank over time, as for a pod. A rank is held until the ranks above it are ready.
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
    /// Whether the Order has all of its tickets.
    pub ready: bool,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TicketReport {
    pub namespace: String,
    pub name: String,
    /// The Order that created the ticket.
    pub order: Option<String>,
    /// The node with the reserved capacity.
    pub node: Option<String>,
    /// States of the ticket over time. Each lasts until the next begins, the last one until the end of the run or the
    /// ticket's deletion.
    pub spans: Vec<TicketSpan>,
    pub deleted: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TicketSpan {
    pub from: u64,
    pub state: TicketState,
    /// The pod that claimed the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Why the ticket is not reserved, if that is not expected to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TicketState {
    Pending,
    /// Pending, because no eligible node has enough capacity.
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
    /// The cause, in a few words, where the state alone does not explain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PodState {
    /// Held by a scheduling gate, or because all nodes that fit are still blocked.
    Held,
    /// No node fits, or none has enough free capacity.
    Unschedulable,
    /// Being scheduled or started, and not ready yet.
    Starting,
    Ready,
    /// Runs, but is no longer ready.
    NotReady,
    Succeeded,
    Failed,
    Terminating,
}

/// A reason as `rollcall explain` gives it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub code: String,
    pub sentence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A pod on the critical chain, from its release to its arrival.
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
    /// The pods, by their places in [`Report::pods`].
    pub pods: Vec<usize>,
    pub why: Why,
}
