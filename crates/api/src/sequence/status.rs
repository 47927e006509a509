//! The status of a `PodSequence`. Written by the controller; for people, but for the journaled times, which it
//! reads back. Lists of names are cut at 100; the counts beside them are exact.

use super::words::{GroupState, Phase};
use crate::time::MilliTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far the sequence has come, and what it waits for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSequenceStatus {
    /// Pending: nothing has been released. InProgress: on the way. Completed: every group is complete. Failed: it
    /// cannot go on; the condition Stalled says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")] // The description of an optional enum would be that of its type.
    pub phase: Option<Phase>,

    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The index, counted from 0, of the first group that is not complete; with scope Node, the least over all
    /// nodes. The number of groups when all are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_index: Option<u32>,

    /// The names of the pods in that group; the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub current_group_pods: Vec<String>,

    /// How many pods of that group have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods_in_current_group: Option<u32>,

    /// The names of the pods that have arrived in complete groups; the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub processed_pods: Vec<String>,

    /// What is going on, and what to do next, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// What the columns of kubectl get show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,

    /// The groups, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<GroupStatus>,

    /// What the sequence waits for; the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub blocked_by: Vec<BlockedBy>,

    /// With scope Node: how many nodes take part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// With scope Node: the nodes, those that are not complete first; the first 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName"]))]
    pub node_status: Vec<NodeSequenceStatus>,

    /// When suspend was last set back to false; timeouts count from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<MilliTime>,

    /// The start that the times of the groups are of: what the annotation podsequence.example.com/begin-again said when they
    /// were last forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_again: Option<String>,

    /// Ready, Reconciling and Stalled as kstatus understands them; OutOfOrder: a pod runs before its group opened;
    /// Suspended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One line about the first group that is not complete.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its place and name, such as "2/3 Application Layer".
    pub group: String,

    /// How many of its members have arrived, of those expected, such as "1/2".
    pub ready: String,
}

/// How far a group has come.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Its name, or "Group N".
    pub name: String,

    /// What a group without a name is recognised by when the list around it is edited: a hash of what it selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Waiting: its members are held. Open: they are released. Complete: enough have arrived. TimedOut: it took
    /// longer than its timeout.
    pub state: GroupState,

    /// How many members there must be; absent while that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u32>,

    /// How many members there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<u32>,

    /// How many of them are out of their gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<u32>,

    /// How many of them have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u32>,

    /// True if it was opened by hand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opened_by_hand: bool,

    /// True if it was complete by Jobs that are over. That holds when they are deleted, and at the next start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,

    /// When it opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<MilliTime>,

    /// When it was first complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<MilliTime>,
}

/// Something that keeps a group from being complete.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// The name of the group, or "Group N".
    pub group: String,

    /// The pod, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// Why, as one word that the documentation explains.
    pub reason: String,

    /// What the API server said, if it is the one that refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<MilliTime>,
}

/// How many nodes take part, and how far they are.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// All of them.
    pub total: u32,

    /// Those on which every group is complete.
    pub complete: u32,

    /// The others.
    pub waiting: u32,
}

/// How far one node has come.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSequenceStatus {
    /// The name of the node.
    pub node_name: String,

    /// The index, counted from 0, of the first group that is not complete there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_index: Option<u32>,

    /// How many pods of that group have arrived there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods_in_current_group: Option<u32>,

    /// How far the node has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")] // The description of an optional enum would be that of its type.
    pub phase: Option<Phase>,

    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Ready: every group is complete there. Its reason is the phase, or what keeps the node from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
