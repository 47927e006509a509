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

/// What to start, and in which order.
#[allow(clippy::duplicated_attributes)] // Each printcolumn has a type_ of its own.
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
    doc = "PodSequence starts groups of pods one after the other: the pods of a group are held by a scheduling gate until the groups before it have arrived.",
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
        description = "Members of that group that have arrived, of those that must"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Scope", type_ = "string", json_path = ".spec.scope", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct PodSequenceSpec {
    /// The groups, in the order in which they start: a group opens when the one before it is complete, unless its
    /// dependsOn or start say otherwise. 1 to 1000 groups; at most 32 with scope Node.
    #[schemars(
        length(min = 1, max = limits::GROUPS),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules::groups())
    )]
    pub pod_groups: Vec<PodGroup>,

    /// What "before" refers to. Cluster: a group is complete when all of its members have arrived, wherever they
    /// run. Node: each node goes through the groups on its own, and a group is complete there when the members
    /// that belong to that node have arrived. Node needs the controller in full mode.
    #[serde(default)]
    pub scope: Scope,

    /// The namespace of the pods, if it is not the sequence's own. That namespace must allow it, by the annotation
    /// podsequence.example.com/allow-from with the sequence's namespace (or several, separated by commas, or *);
    /// otherwise nothing is touched and the condition Stalled has the reason NotPermitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::LABEL), regex(pattern = forms::DNS_LABEL_PATTERN))]
    pub namespace: Option<String>,

    /// The scheduling gate that holds the pods, as it stands in their spec.schedulingGates. Only this gate is ever
    /// removed; all others stay.
    #[serde(default = "default_gate")]
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        extend("x-kubernetes-validations" = rules::gate())
    )]
    pub scheduling_gate_name: String,

    /// What happens to pods that come later, such as replacements. Bootstrap: the order is for coming up; once the
    /// groups before theirs have been complete, they are released at once. Continuous: they are held whenever a
    /// group before theirs is not complete at that moment.
    #[serde(default)]
    pub enforcement: Enforcement,

    /// While true, no pod is released. Timeouts start anew when it is set back to false.
    #[serde(default)]
    pub suspend: bool,

    /// With scope Node: how a node that has not reached a group is kept closed for it. Labels: by a label on the
    /// node that the members of the group avoid; other pods do not notice. Taints: by a NoSchedule taint, so that
    /// other pods stay away too; an administrator must allow that by the annotation
    /// podsequence.example.com/allow-node-taints: "true" on the namespace of the sequence.
    #[serde(default)]
    pub node_guard: NodeGuard,

    /// What deleting the sequence does to the pods it still holds. Release: their gate is removed. Hold: they keep
    /// it. Labels and taints on nodes are removed in either case.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn default_gate() -> String {
    names::SEQUENCE_GATE.to_owned()
}

impl PodSequenceSpec {
    /// A sequence of `pod_groups` with every other field at its default.
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

/// Pods that start together. Exactly one of pods, podSelector and workloadRef says which. With scope Node, a group can also have
/// nodeReady alone: it has no members, and is complete on each node that shows what nodeReady names.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::group()))]
pub struct PodGroup {
    /// What the group is called, in messages and in the dependsOn of later groups. Unique within the sequence, at
    /// most 100 characters, no control characters and no marks of writing direction. A group without a name is shown as
    /// "Group N", counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::GROUP_NAME), regex(pattern = forms::TITLE_PATTERN))]
    pub name: Option<String>,

    /// The names of the pods. All of them must exist and arrive before the group is complete, unless minReady asks
    /// for fewer. At most 1000: for more, and for pods with generated names, use podSelector or workloadRef.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = limits::PODS),
        inner(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub pods: Vec<String>,

    /// The labels of the pods. A selector that matches no pod yet is not complete. An empty selector is refused,
    /// because it would take every pod of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = shared_rules::selector()))]
    pub pod_selector: Option<LabelSelector>,

    /// The workload whose pods they are, at any depth: those of the ReplicaSets of a Deployment, those of the latest run of a
    /// CronJob. A workload that does not exist is waited for; one of size 0 is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadRef>,

    /// Whether the members may be absent. If there is neither a pod nor a workload when the turn of the group comes, it is passed;
    /// if there is, it is waited for like any other. nodeReady is waited for in either case. false if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,

    /// How many pods there must be, if it cannot be known otherwise. Without it, it is the number of names in pods,
    /// or what the owners of the pods ask for: the replicas of a Deployment, ReplicaSet or StatefulSet, the nodes of
    /// a DaemonSet, the parallelism of a Job. 1 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::COUNT))]
    pub expected: Option<u32>,

    /// How many of the expected pods must have arrived for the group to be complete: a number, or a percentage such
    /// as 50%, rounded up. 100% if it is left out; 0 lets the next group start at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::min_ready()))]
    pub min_ready: Option<MinReady>,

    /// When a pod has arrived. Ready: it is Ready, or has Succeeded. Started: it runs and all its containers have
    /// started. Succeeded: it has Succeeded, or its Job is complete. Auto: Succeeded for pods that run to completion
    /// (restartPolicy Never or OnFailure, and no readiness probe), Ready for all others.
    #[serde(default)]
    pub until: Until,

    /// How long to wait after the group is complete before the next one opens, as a duration such as 90s, 5m or
    /// 1h30m. 0s if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = shared_rules::duration()))]
    pub wait_duration: Option<GoDuration>,

    /// How long the group may take, from the moment it opens, as a duration such as 90s, 5m or 1h30m. Without limit
    /// if it is left out. onTimeout says what happens then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::timeout()))]
    pub timeout: Option<GoDuration>,

    /// What happens when timeout has passed. Fail: the sequence stops there, phase Failed, until the group arrives
    /// after all. Continue: the next group opens, and the status says so.
    #[serde(default)]
    pub on_timeout: OnTimeout,

    /// With scope Node: the labels of the nodes that take part for this group. All nodes if it is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// With scope Node: what a node must show, besides the pods of this group, before the group is complete there.
    /// A pod that is Ready is not yet a driver that is registered. Without pods, podSelector and workloadRef, it is all that the
    /// group waits for, whatever namespace the agent is in; then expected, minReady, until, maxConcurrentStarts and optional
    /// are rejected, because the group has no members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ready: Option<NodeReady>,

    /// The names of the groups, earlier in the list, that must be complete before this one opens. The previous group
    /// if it is left out or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::DEPENDS_ON),
        inner(length(max = limits::GROUP_NAME)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Vec<String>,

    /// When this group opens. AfterDependencies: when the groups it depends on are complete. Immediately: at once;
    /// not together with dependsOn. The group after it still waits for it.
    #[serde(default)]
    pub start: Start,

    /// At most so many pods of this group are starting at any time, that is released and not yet arrived. No limit
    /// if it is left out. 1 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::COUNT))]
    pub max_concurrent_starts: Option<u32>,
}

/// Who the members of a group are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupMembers<'a> {
    Pods(&'a [String]),
    Selector(&'a LabelSelector),
    Workload(&'a WorkloadRef),
    /// None: the group waits for its nodeReady alone.
    None,
}

impl PodGroup {
    /// Its members; `None` if the fields say nothing or too much, which [`super::validate`] rejects.
    pub fn members(&self) -> Option<GroupMembers<'_>> {
        match (self.pods.as_slice(), &self.pod_selector, &self.workload_ref) {
            ([], None, None) => self.node_ready.is_some().then_some(GroupMembers::None),
            ([_, ..], None, None) => Some(GroupMembers::Pods(&self.pods)),
            ([], Some(selector), None) => Some(GroupMembers::Selector(selector)),
            ([], None, Some(workload)) => Some(GroupMembers::Workload(workload)),
            _ => None,
        }
    }

    /// Its name, or `Group N` for the one at `index` (counted from 0).
    pub fn title(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("Group {}", index + 1))
    }
}

/// A workload in the namespace of the pods.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::workload_ref()))]
pub struct WorkloadRef {
    /// apps/v1, or batch/v1 for a Job or a CronJob.
    pub api_version: WorkloadApiVersion,

    /// Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob. A CronJob stands for its latest run.
    pub kind: WorkloadKind,

    /// The name of the workload.
    #[schemars(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub name: String,
}

/// What a node must show. Exactly one of the fields.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::node_ready()))]
pub struct NodeReady {
    /// The name of a CSI driver that must be registered on the node (in its CSINode).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::LABEL), regex(pattern = forms::SUBDOMAIN_PATTERN))]
    pub csi_driver: Option<String>,

    /// The name of a resource that the node must offer more than none of, such as nvidia.com/gpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::QUALIFIED_NAME), regex(pattern = forms::QUALIFIED_NAME_PATTERN))]
    pub allocatable: Option<String>,

    /// The type of a node condition that must be True.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::QUALIFIED_NAME), regex(pattern = forms::QUALIFIED_NAME_PATTERN))]
    pub condition: Option<String>,
}
