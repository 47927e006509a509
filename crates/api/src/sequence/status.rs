//! The status of a `PodSequence`. The controller writes it for people; it reads back only the recorded times. Lists of
//! names are cut off at 100 entries; the counts beside them are exact.

use super::words::{GroupState, Phase};
use crate::time::MilliTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Progress of the sequence, and its obstacles.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodSequenceStatus {
    /// Pending: nothing has been released. InProgress: some groups are open or complete. Completed: every group is
    /// complete. Failed: the sequence cannot continue; the condition Stalled has the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")] // `Option<Phase>` would take its description from `Phase`.
    pub phase: Option<Phase>,

    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The index, counted from 0, of the first group that is not complete; with scope Node, the lowest index over all
    /// nodes. The number of groups if all are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_index: Option<u32>,

    /// The names of the pods in the current group; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub current_group_pods: Vec<String>,

    /// The number of pods in the current group that have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods_in_current_group: Option<u32>,

    /// The names of the pods that have arrived in complete groups; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub processed_pods: Vec<String>,

    /// The current state and the next step, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The values of the columns of kubectl get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,

    /// The groups, in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<GroupStatus>,

    /// The reasons why groups are not complete; only the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub blocked_by: Vec<BlockedBy>,

    /// With scope Node: the number of nodes that the sequence applies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// With scope Node: the nodes, incomplete ones first; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["nodeName"]))]
    pub node_status: Vec<NodeSequenceStatus>,

    /// The time when suspend was last set back to false; timeouts count from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<MilliTime>,

    /// The value of the annotation podsequence.example.com/begin-again when the times of the groups were last reset.
    /// The times in this status belong to that start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_again: Option<String>,

    /// Ready, Reconciling and Stalled, as kstatus defines them. OutOfOrder: a pod runs although its group is not open.
    /// Suspended: the sequence releases no pods because of spec.suspend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A summary of the first group that is not complete.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The position and name of the group, such as "2/3 Application Layer".
    pub group: String,

    /// The number of members that have arrived, out of those expected, such as "1/2".
    pub ready: String,
}

/// Progress of a group.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The name of the group, or "Group N".
    pub name: String,

    /// A hash of what the group selects. It identifies a group without a name when the list of groups is edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Waiting: the members are held. Open: they are released. Complete: enough of them have arrived. TimedOut: the
    /// group exceeded its timeout.
    pub state: GroupState,

    /// The number of expected members; absent while it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u32>,

    /// The number of existing members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<u32>,

    /// The number of members whose gate has been removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<u32>,

    /// The number of members that have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u32>,

    /// True if a user opened the group by hand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opened_by_hand: bool,

    /// True if Jobs that have finished completed the group. It stays complete when they are deleted, and at the next
    /// start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,

    /// The time when the group opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<MilliTime>,

    /// The time when the group was first complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<MilliTime>,
}

/// A reason why a group is not complete.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// The name of the group, or "Group N".
    pub group: String,

    /// The name of the pod, if the reason concerns a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// The reason, as a code that the documentation explains.
    pub reason: String,

    /// The message of the API server, if it rejected a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The time since when the reason applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<MilliTime>,
}

/// The number of nodes that the sequence applies to, by progress.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// The number of all nodes.
    pub total: u32,

    /// The number of nodes that have completed every group.
    pub complete: u32,

    /// The number of nodes that have not completed every group.
    pub waiting: u32,
}

/// Progress of one node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSequenceStatus {
    /// The name of the node.
    pub node_name: String,

    /// The index, counted from 0, of the first group that is not complete on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_index: Option<u32>,

    /// The number of pods in that group that have arrived on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods_in_current_group: Option<u32>,

    /// The phase of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")] // `Option<Phase>` would take its description from `Phase`.
    pub phase: Option<Phase>,

    /// A sentence about what the node waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Ready: every group is complete on the node. Its reason is the phase, or the obstacle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
