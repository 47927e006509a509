//! Reasons why a sequence, a group or a pod waits: a stable code, a sentence with numbers, and a hint for the user.

use super::spec::NodeReady;
use crate::{Timestamp, line::human, reason::reasons};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

reasons! {
    Timeout { group: Arc<str>, after: Duration, progress: Progress }
        "A group with `onTimeout: Fail` was not complete within its `timeout`. If it completes later, the sequence continues.",
        "check the pods in `blockedBy`; raise `timeout`, or set `onTimeout: Continue`";
    InvalidSpec { problem: String }
        "The spec is invalid; the message names the field.",
        "correct the field that the message names";
    NotPermitted { namespace: Arc<str>, from: Arc<str> }
        "`spec.namespace` names a namespace that does not allow sequences from the sequence's own namespace. Rollcall changes nothing there.",
        "kubectl annotate namespace <spec.namespace> podsequence.example.com/allow-from=<namespace of the sequence>";
    NodeScopeNeedsFullMode
        "`scope: Node` needs a controller in Full mode; this one runs in Lite mode.",
        "install Full mode, or use `scope: Cluster`";
    Suspended
        "`spec.suspend` is true: the sequence releases no pods.",
        "set `spec.suspend` to false";
    WaitsForGroup { group: Arc<str>, progress: Progress }
        "An earlier group is not complete.",
        "check why the earlier group is not complete";
    Settling { group: Arc<str>, until: Timestamp }
        "An earlier group is complete, but its `waitDuration` has not elapsed.",
        "wait, or shorten `waitDuration`";
    NotCreated { pod: Arc<str> }
        "A pod listed in `pods` does not exist.",
        "create the pod, or correct its name in `pods`";
    WorkloadMissing { workload: String, similar: Vec<String> }
        "The workload that a group names in `workloadRef` does not exist.",
        "create the workload, or correct its name; set `optional: true` if the group may have no members";
    WorkloadStopped { workload: String }
        "The workload was stopped with `rollcall stop`; its annotation `rollcall.dev/before-stop` records its previous state.",
        "rollcall start NAME";
    NoRunYet { cron_job: Arc<str> }
        "The group names a CronJob that has not created a Job yet.",
        "wait for its next run, or start one now: kubectl create job --from=cronjob/NAME NAME-now";
    NothingMatches { selector: String }
        "No pod and no workload template matches the selector. A group without members is never complete, unless it is `optional`.",
        "compare the selector with the labels of the pods: kubectl get pods --show-labels";
    NumberUnknown { owner: String }
        "The workload's controller has not observed the latest spec yet, so the desired number of pods is unknown.",
        "wait a moment; if the reason persists, check that kube-controller-manager is running";
    TooFewPods { owner: String, present: u32, expected: u32 }
        "A workload has fewer pods than it wants, for example because of a resource quota.",
        "run kubectl describe for the workload: its events say why pods are not created";
    TooFewMembers { present: u32, required: u32 }
        "Fewer pods exist than `expected` or `minReady` requires.",
        "create the missing pods, or lower the number";
    NotReady { pod: Arc<str>, trouble: Option<String> }
        "The pod is running but not ready.",
        "kubectl describe pod; kubectl logs";
    NotStarted { pod: Arc<str>, trouble: Option<String> }
        "Not all containers of the pod have started.",
        "kubectl describe pod";
    NotSucceeded { pod: Arc<str>, trouble: Option<String> }
        "The pod runs to completion and has not finished.",
        "kubectl logs";
    JobNotComplete { job: Arc<str>, succeeded: u32, completions: u32 }
        "The Job has not reached its `completions`.",
        "kubectl describe job <name>";
    JobSuspended { job: Arc<str> }
        "The Job is suspended (its own `spec.suspend`) and creates no pods.",
        "kubectl patch job <name> -p '{\"spec\":{\"suspend\":false}}'";
    JobFailed { job: Arc<str> }
        "The Job has failed and creates no more pods.",
        "delete and re-create the Job; the group continues with the new Job";
    PodFailed { pod: Arc<str>, trouble: Option<String> }
        "The pod has failed and is not restarted.",
        "delete and re-create the pod; the group continues with the new pod";
    ForeignGate { pod: Arc<str>, gate: Arc<str> }
        "A scheduling gate that Rollcall does not manage holds the pod.",
        "check the controller that manages this gate";
    OwnGate { pod: Arc<str>, gate: Arc<str>, feature: &'static str }
        "A scheduling gate of another Rollcall feature holds the pod.",
        "run rollcall doctor to check that the feature is installed and its controller is running";
    NoGate { pod: Arc<str>, gate: Arc<str> }
        "The pod's group is not open, but the pod lacks the gate of the sequence, so it is not held.",
        "add the gate to `spec.schedulingGates` of the pod or its template";
    StartLimit { limit: u32 }
        "`maxConcurrentStarts` members are starting; the next one is released when one of them has arrived.",
        "wait, or raise `maxConcurrentStarts`";
    OtherSequence { pod: Arc<str>, sequence: String, group: Arc<str> }
        "The pod also belongs to another sequence with the same gate, which still holds it.",
        "run rollcall explain for the other sequence";
    OutOfOrder { pod: Arc<str>, group: Arc<str> }
        "A pod is running although it was never released and its group has never been open.",
        "add the gate to the pod template, so that its pods are held";
    NodeMissing { pod: Arc<str>, node: Arc<str> }
        "The pod can run on one node only, and that node does not exist.",
        "kubectl get nodes; correct the node name in the pod, or add the node";
    NodeLacks { node: Arc<str>, what: NodeReady }
        "A node lacks the CSI driver, allocatable resource or condition that `nodeReady` requires. The pods on the node may be ready.",
        "check kubectl get csinode and kubectl describe node, then the logs of the agent on the node";
    TaintsNotPermitted { namespace: Arc<str> }
        "`nodeGuard: Taints` keeps all pods without a toleration off nodes, so an administrator must allow it for the sequence's namespace.",
        "kubectl annotate namespace <name> podsequence.example.com/allow-node-taints=true, or use nodeGuard: Labels";
    TemplateLacksToleration { daemon_set: Arc<str>, key: Arc<str> }
        "With `nodeGuard: Taints`, DaemonSets of earlier groups must tolerate the taints of later groups. This DaemonSet does not, so a tainted node would get none of its pods and never open. The controller therefore taints no node.",
        "add the toleration to the DaemonSet's template (rollcall keys NAME prints the taint keys), or use nodeGuard: Labels";
    ReleaseForbidden { pod: Arc<str>, message: Arc<str> }
        "The API server forbids the controller to remove the gate from the pod: a permission is missing, or a policy denies it. The message is that of the API server.",
        "run rollcall doctor to find missing permissions; the namespace annotation podsequence.example.com/allow-gates lists the foreign gates that sequences may remove";
    ReleaseRefused { pod: Arc<str>, message: Arc<str> }
        "The API server or a policy rejects the pod without its gate as invalid. The message is that of the API server.",
        "correct the pod, its template or the policy, as the message says";
    NodeWriteRefused { node: Arc<str>, message: Arc<str> }
        "The API server rejects a write of the controller to a node: a permission is missing, or the node has too many labels or annotations. The message is that of the API server.",
        "correct the cause that the message names; run rollcall doctor to find missing permissions";
    OldReplicaSet { pod: Arc<str> }
        "The pod is ready, but it belongs to an old ReplicaSet of its Deployment.",
        "wait for the rollout: kubectl rollout status";
}

impl Reason {
    /// The pod or workload that blocks the group: the field `pod` of `blockedBy`.
    pub fn blamed(&self) -> Option<&str> {
        match self {
            Reason::WorkloadMissing { workload, .. } | Reason::WorkloadStopped { workload } => Some(workload),
            other => other.pod().map(|pod| &**pod),
        }
    }

    /// The pod that the reason is about, if any.
    pub fn pod(&self) -> Option<&Arc<str>> {
        match self {
            Reason::NotCreated { pod }
            | Reason::NotReady { pod, .. }
            | Reason::NotStarted { pod, .. }
            | Reason::NotSucceeded { pod, .. }
            | Reason::PodFailed { pod, .. }
            | Reason::ForeignGate { pod, .. }
            | Reason::NoGate { pod, .. }
            | Reason::OtherSequence { pod, .. }
            | Reason::OutOfOrder { pod, .. }
            | Reason::OwnGate { pod, .. }
            | Reason::NodeMissing { pod, .. }
            | Reason::ReleaseForbidden { pod, .. }
            | Reason::ReleaseRefused { pod, .. }
            | Reason::OldReplicaSet { pod } => Some(pod),
            Reason::Timeout { .. }
            | Reason::InvalidSpec { .. }
            | Reason::NotPermitted { .. }
            | Reason::NodeScopeNeedsFullMode
            | Reason::NodeLacks { .. }
            | Reason::NodeWriteRefused { .. }
            | Reason::TaintsNotPermitted { .. }
            | Reason::TemplateLacksToleration { .. }
            | Reason::Suspended
            | Reason::WaitsForGroup { .. }
            | Reason::Settling { .. }
            | Reason::NothingMatches { .. }
            | Reason::WorkloadMissing { .. }
            | Reason::WorkloadStopped { .. }
            | Reason::NoRunYet { .. }
            | Reason::NumberUnknown { .. }
            | Reason::TooFewPods { .. }
            | Reason::TooFewMembers { .. }
            | Reason::JobNotComplete { .. }
            | Reason::JobSuspended { .. }
            | Reason::JobFailed { .. }
            | Reason::StartLimit { .. } => None,
        }
    }

    /// The API server's message, if it rejected a write.
    pub fn refusal(&self) -> Option<&Arc<str>> {
        match self {
            Reason::ReleaseForbidden { message, .. }
            | Reason::ReleaseRefused { message, .. }
            | Reason::NodeWriteRefused { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Like [`Self::sentence`], with the time that the reason has lasted: `app-2 has not been ready for 38s: container server:
    /// …`.
    pub fn dated(&self, elapsed: &str) -> String {
        let because = |trouble: &Option<String>| trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
        match self {
            Reason::NotReady { pod, trouble } => {
                format!("{pod} has not been ready for {elapsed}{}", because(trouble))
            }
            Reason::NotStarted { pod, trouble } => {
                format!("{pod} has not started after {elapsed}{}", because(trouble))
            }
            Reason::NotSucceeded { pod, trouble } => {
                format!("{pod} has not finished after {elapsed}{}", because(trouble))
            }
            Reason::PodFailed { pod, trouble } => format!("{pod} failed {elapsed} ago{}", because(trouble)),
            Reason::JobFailed { job } => format!("Job {job} failed {elapsed} ago"),
            Reason::ReleaseForbidden { pod, message } | Reason::ReleaseRefused { pod, message } => {
                format!("releasing {pod} has failed for {elapsed}: {message}")
            }
            Reason::NodeWriteRefused { node, message } => {
                format!("writing to node {node} has failed for {elapsed}: {message}")
            }
            other => format!("{}, for {elapsed}", other.sentence()),
        }
    }

    /// One sentence without a full stop. It contains no elapsed times, so that it changes only when the facts change.
    pub fn sentence(&self) -> String {
        let because = |trouble: &Option<String>| trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
        match self {
            Reason::Timeout { group, after, progress } => {
                format!("\"{group}\" timed out after {}: {progress}", human(*after))
            }
            Reason::InvalidSpec { problem } => problem.clone(),
            Reason::NotPermitted { namespace, from } => format!(
                "spec.namespace: namespace \"{namespace}\" does not allow sequences from \"{from}\" (annotation podsequence.example.com/allow-from)"
            ),
            Reason::NodeScopeNeedsFullMode => {
                "spec.scope: Node needs a controller in Full mode; this one runs in Lite mode".into()
            }
            Reason::Suspended => "the sequence is suspended (spec.suspend is true)".into(),
            Reason::WaitsForGroup { group, progress } => format!("waits for group \"{group}\": {progress}"),
            Reason::Settling { group, until } => {
                format!("\"{group}\" is complete; its waitDuration ends at {}", clock(*until))
            }
            Reason::NotCreated { pod } => format!("{pod} does not exist"),
            Reason::WorkloadMissing { workload, similar } => match similar.is_empty() {
                true => format!("{workload} does not exist"),
                false => format!("{workload} does not exist; similar workloads: {}", similar.join(", ")),
            },
            Reason::WorkloadStopped { workload } => format!("{workload} is stopped"),
            Reason::NoRunYet { cron_job } => format!("CronJob {cron_job} has not run yet"),
            Reason::OwnGate { pod, gate, feature } => {
                format!("{pod} is held by {gate}, the scheduling gate of {feature}")
            }
            Reason::NodeMissing { pod, node } => {
                format!("{pod} can only run on node {node}, which does not exist")
            }
            Reason::NothingMatches { selector } => format!("no pod and no workload matches {selector}"),
            Reason::NumberUnknown { owner } => format!("the number of pods of {owner} is not known yet"),
            Reason::TooFewPods { owner, present, expected } => {
                format!("{owner} has {present} of {expected} pods")
            }
            Reason::TooFewMembers { present, required } => format!("{present} of {required} pods exist"),
            Reason::NotReady { pod, trouble } => format!("{pod} is not ready{}", because(trouble)),
            Reason::NotStarted { pod, trouble } => format!("{pod} has not started{}", because(trouble)),
            Reason::NotSucceeded { pod, trouble } => format!("{pod} has not finished{}", because(trouble)),
            Reason::JobNotComplete { job, succeeded, completions } => {
                format!("Job {job} has {succeeded} of {completions} completions")
            }
            Reason::JobSuspended { job } => format!("Job {job} is suspended"),
            Reason::JobFailed { job } => format!("Job {job} has failed"),
            Reason::PodFailed { pod, trouble } => format!("{pod} has failed{}", because(trouble)),
            Reason::ForeignGate { pod, gate } => format!("{pod} is held by the foreign gate {gate}"),
            Reason::NoGate { pod, gate } => {
                format!(
                    "{pod} lacks the scheduling gate {gate}, so it is not held although its group is not open"
                )
            }
            Reason::StartLimit { limit } => match limit {
                1 => "1 member is starting, and maxConcurrentStarts is 1".into(),
                limit => format!("{limit} members are starting, and maxConcurrentStarts is {limit}"),
            },
            Reason::OtherSequence { pod, sequence, group } => {
                format!("PodSequence {sequence} also holds {pod}, in group \"{group}\"")
            }
            Reason::OutOfOrder { pod, group } => {
                format!("{pod} is running although its group \"{group}\" is not open")
            }
            Reason::ReleaseForbidden { pod, message } | Reason::ReleaseRefused { pod, message } => {
                format!("{pod} cannot be released: {message}")
            }
            Reason::NodeWriteRefused { node, message } => format!("node {node} cannot be updated: {message}"),
            Reason::OldReplicaSet { pod } => format!("{pod} belongs to an old ReplicaSet"),
            Reason::NodeLacks { node, what } => match what {
                NodeReady::CsiDriver(driver) => format!("CSI driver {driver} is not registered on {node}"),
                NodeReady::Allocatable(resource) => format!("{node} has no allocatable {resource}"),
                NodeReady::Condition(condition) => format!("condition {condition} of {node} is not True"),
            },
            Reason::TemplateLacksToleration { daemon_set, key } => format!(
                "DaemonSet {daemon_set} does not tolerate the taint {key}, so tainted nodes would get none of its pods"
            ),
            Reason::TaintsNotPermitted { namespace } => format!(
                "spec.nodeGuard: namespace \"{namespace}\" does not allow Taints (annotation {})",
                "podsequence.example.com/allow-node-taints"
            ),
        }
    }
}

/// Progress of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Members that have arrived, and the number required; `None` while that number is unknown.
    Members { arrived: u32, required: Option<u32> },
    /// For a group without members: the number of nodes where it is complete, and of all nodes.
    Nodes { complete: u32, total: u32 },
}

/// `1 of 2 pods arrived`, `1 of 2 nodes complete`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Members { arrived, required: Some(required) } => {
                write!(f, "{arrived} of {required} pods arrived")
            }
            Progress::Members { arrived, required: None } => write!(f, "{arrived} of ? pods arrived"),
            Progress::Nodes { complete, total } => write!(f, "{complete} of {total} nodes complete"),
        }
    }
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%SZ").to_string()
}
