//! The spec of a `PodSequence`. The comments on the fields are what `kubectl explain podseq.spec…` prints.

use super::limits;
use super::rules;
use super::words::{
    DeletionPolicy, Enforcement, NodeGuard, OnTimeout, Scope, Start, Until, WorkloadApiVersion, WorkloadKind,
};
use super::{MinReady, PodSequenceStatus};
use crate::duration::GoDuration;
use crate::selector::{self, LabelSelector};
use crate::{forms, names, shared_rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Groups of pods, and their start order.
#[allow(clippy::duplicated_attributes)] // Each printcolumn has its own `type_`.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "scheduling.example.com",
    version = "v1alpha1",
    kind = "PodSequence",
    plural = "podsequences",
    singular = "podsequence",
    shortname = "podseq",
    namespaced,
    status = "PodSequenceStatus",
    derive = "PartialEq",
    doc = "PodSequence starts groups of pods one after the other: the pods of a group are held by a scheduling gate until the groups before it are complete.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Pending, InProgress, Completed or Failed"
    ),
    printcolumn(
        name = "Group",
        type_ = "string",
        json_path = ".status.summary.group",
        description = "The first group that is not complete"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.summary.ready",
        description = "Members of that group that have arrived, and the number that is required"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Scope", type_ = "string", json_path = ".spec.scope", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct PodSequenceSpec {
    /// The groups, in start order. A group opens when the previous one is complete, unless its dependsOn or start says
    /// otherwise. 1 to 1000 groups; at most 32 with scope Node.
    #[schemars(
        length(min = 1, max = limits::GROUPS),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules::groups())
    )]
    pub pod_groups: Vec<PodGroup>,

    /// The scope of the start order. Cluster: a group is complete when all of its members have arrived, on any node.
    /// Node: each node goes through the groups independently, and a group is complete on a node when its members on
    /// that node have arrived. Node requires the controller in full mode.
    #[serde(default)]
    pub scope: Scope,

    /// The namespace of the pods, if it differs from the namespace of the sequence. That namespace must permit it with
    /// the annotation podsequence.example.com/allow-from, whose value lists the namespace of the sequence (several
    /// names separated by commas, or *). Otherwise the sequence releases no pods, and the condition Stalled has the
    /// reason NotPermitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::LABEL), regex(pattern = forms::DNS_LABEL_PATTERN))]
    pub namespace: Option<String>,

    /// The name of the scheduling gate in spec.schedulingGates that holds the pods. The sequence removes only this
    /// gate.
    #[serde(default = "default_gate")]
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        extend("x-kubernetes-validations" = rules::gate())
    )]
    pub scheduling_gate_name: String,

    /// The treatment of pods that are created later, such as replacements. Bootstrap: they are released at once if the
    /// groups before theirs have been complete before. Continuous: they are held whenever a group before theirs is not
    /// complete.
    #[serde(default)]
    pub enforcement: Enforcement,

    /// If true, no pod is released. Timeouts start anew when it is set back to false.
    #[serde(default)]
    pub suspend: bool,

    /// With scope Node: how a node is blocked for a group that it has not reached. Labels: a label on the node, which
    /// the members of the group avoid by node affinity; other pods are not affected. Taints: a NoSchedule taint, which
    /// also keeps other pods off the node. Taints requires the annotation podsequence.example.com/allow-node-taints:
    /// "true" on the namespace of the sequence, set by an administrator.
    #[serde(default)]
    pub node_guard: NodeGuard,

    /// What happens to held pods when the sequence is deleted. Release: their gate is removed. Hold: they keep it.
    /// Labels and taints on nodes are removed in either case.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn default_gate() -> String {
    names::SEQUENCE_GATE.to_owned()
}

impl PodSequenceSpec {
    /// A sequence of `pod_groups`, with defaults for all other fields.
    pub fn new(pod_groups: Vec<PodGroup>) -> Self {
        Self {
            pod_groups,
            scope: Scope::default(),
            namespace: None,
            scheduling_gate_name: default_gate(),
            enforcement: Enforcement::default(),
            suspend: false,
            node_guard: NodeGuard::default(),
            deletion_policy: DeletionPolicy::default(),
        }
    }
}

/// Pods that start together. Exactly one of pods, podSelector and workloadRef selects them. With scope Node, a group
/// can also have nodeReady alone: it has no members and is complete on each node that meets nodeReady.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::group()))]
pub struct PodGroup {
    /// The name of the group, for messages and for the dependsOn of later groups. Unique within the sequence; at most
    /// 100 characters, without control characters and bidirectional formatting characters. A group without a name is
    /// shown as "Group N", counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::GROUP_NAME), regex(pattern = forms::TITLE_PATTERN))]
    pub name: Option<String>,

    /// The names of the pods. All of them must exist and arrive before the group is complete, unless minReady is lower.
    /// At most 1000 names; for more pods, or for pods with generated names, use podSelector or workloadRef.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = limits::PODS),
        inner(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub pods: Vec<String>,

    /// The labels of the pods. A group whose selector matches no pod yet is not complete. An empty selector is
    /// rejected, because it would select every pod in the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = shared_rules::selector()))]
    pub pod_selector: Option<LabelSelector>,

    /// The workload that owns the pods, directly or indirectly: a Deployment owns the pods of its ReplicaSets, a
    /// CronJob those of its latest run. A group whose workload does not exist is not complete; a workload with 0
    /// replicas is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadRef>,

    /// Whether the group may have no members. If neither a pod nor a workload of the group exists when it opens, the
    /// group is skipped. Otherwise it must become complete like any other group. nodeReady applies in either case.
    /// Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,

    /// The number of members that are expected. By default it is the number of names in pods, or the number that the
    /// owners of the pods ask for: the replicas of a Deployment, ReplicaSet or StatefulSet, the nodes of a DaemonSet,
    /// the parallelism of a Job. 1 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::COUNT))]
    pub expected: Option<u32>,

    /// The number of expected members that must have arrived for the group to be complete: a number, or a percentage
    /// such as 50%, rounded up. Defaults to 100%; with 0, the next group starts at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::min_ready()))]
    pub min_ready: Option<MinReady>,

    /// The state that a pod must reach to count as arrived. Ready: it is Ready, or has Succeeded. Started: it is
    /// running and all its containers have started. Succeeded: it has Succeeded, or its Job is complete. Auto:
    /// Succeeded for pods that run to completion (restartPolicy Never or OnFailure, and no readiness probe), Ready for
    /// all others.
    #[serde(default)]
    pub until: Until,

    /// The delay between the completion of the group and the opening of the next one, as a duration such as 90s, 5m or
    /// 1h30m. Defaults to 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = shared_rules::duration()))]
    pub wait_duration: Option<GoDuration>,

    /// The time within which the group must be complete, counted from its opening, as a duration such as 90s, 5m or
    /// 1h30m. Unlimited by default. onTimeout defines what happens afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::timeout()))]
    pub timeout: Option<GoDuration>,

    /// What happens when the timeout has passed. Fail: the sequence stops with phase Failed until the group is complete
    /// after all. Continue: the next group opens, and the status reports the timeout.
    #[serde(default)]
    pub on_timeout: OnTimeout,

    /// With scope Node: the labels of the nodes that the group applies to. Defaults to all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// With scope Node: a property that a node must have, besides the arrival of the group's pods, before the group is
    /// complete there. For example, a driver may not be registered yet although its pod is Ready. Without pods,
    /// podSelector and workloadRef, the group waits for this property alone, whatever namespace the agent runs in. Then
    /// expected, minReady, until, maxConcurrentStarts and optional are rejected, because the group has no members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ready: Option<NodeReady>,

    /// The names of earlier groups that must be complete before this one opens. Defaults to the previous group, also if
    /// the list is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::DEPENDS_ON),
        inner(length(max = limits::GROUP_NAME)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Vec<String>,

    /// When the group opens. AfterDependencies: when the groups that it depends on are complete. Immediately: at once;
    /// cannot be combined with dependsOn. The next group waits for this one in either case.
    #[serde(default)]
    pub start: Start,

    /// The maximum number of pods of this group that may be starting at the same time, that is released but not yet
    /// arrived. Unlimited by default. 1 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::COUNT))]
    pub max_concurrent_starts: Option<u32>,
}

/// The members of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupMembers<'a> {
    Pods(&'a [String]),
    Selector(&'a LabelSelector),
    Workload(&'a WorkloadRef),
    /// No members: the group waits for its nodeReady alone.
    None,
}

impl PodGroup {
    /// The members; `None` if no field or more than one field selects them, which [`super::validate`] rejects.
    pub fn members(&self) -> Option<GroupMembers<'_>> {
        match (self.pods.as_slice(), &self.pod_selector, &self.workload_ref) {
            ([], None, None) => self.node_ready.is_some().then_some(GroupMembers::None),
            ([_, ..], None, None) => Some(GroupMembers::Pods(&self.pods)),
            ([], Some(selector), None) => Some(GroupMembers::Selector(selector)),
            ([], None, Some(workload)) => Some(GroupMembers::Workload(workload)),
            _ => None,
        }
    }

    /// The name, or `Group N` for the group at `index` (counted from 0).
    pub fn title(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("Group {}", index + 1))
    }
}

/// A workload in the namespace of the pods.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::workload_ref()))]
pub struct WorkloadRef {
    /// The API version: apps/v1, or batch/v1 for a Job or a CronJob.
    pub api_version: WorkloadApiVersion,

    /// The kind: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob. A CronJob stands for its latest run.
    pub kind: WorkloadKind,

    /// The name of the workload.
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub name: String,
}

/// A property that a node must have. Exactly one of the fields must be set.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::node_ready()))]
pub struct NodeReady {
    /// The name of a CSI driver that must be registered on the node, in its CSINode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::LABEL), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub csi_driver: Option<String>,

    /// The name of a resource whose allocatable amount on the node must be above 0, such as nvidia.com/gpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::QUALIFIED_NAME), regex(pattern = forms::QUALIFIED_NAME_PATTERN))]
    pub allocatable: Option<String>,

    /// The type of a node condition that must be True.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::QUALIFIED_NAME), regex(pattern = forms::QUALIFIED_NAME_PATTERN))]
    pub condition: Option<String>,
}
