//! Every "not yet": a stable code, a sentence with the numbers in it, a hint what to do.

use super::spec::NodeReady;
use crate::{Timestamp, line::human, reason::reasons};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

reasons! {
    Timeout { group: Arc<str>, after: Duration, progress: Progress }
        "A group with `onTimeout: Fail` did not arrive within its `timeout`. The sequence goes on when it arrives after all.",
        "look at the pods in `blockedBy`; raise `timeout`, or set `onTimeout: Continue`";
    InvalidSpec { problem: String }
        "The spec asks for something that cannot be done; the message names the field.",
        "correct the field that the message names";
    NotPermitted { namespace: Arc<str>, from: Arc<str> }
        "`spec.namespace` names a namespace that does not allow sequences from here. Nothing there is touched.",
        "kubectl annotate namespace <there> podsequence.example.com/allow-from=<here>";
    NodeScopeNeedsFullMode
        "`scope: Node` needs a controller in Full mode; this one runs in Lite mode.",
        "install Full mode, or use `scope: Cluster`";
    Suspended
        "`spec.suspend` is true: nothing is released.",
        "set `spec.suspend` to false";
    WaitsForGroup { group: Arc<str>, progress: Progress }
        "An earlier group has not arrived.",
        "look at what that group waits for";
    Settling { group: Arc<str>, until: Timestamp }
        "The group before is complete and its `waitDuration` runs.",
        "wait, or shorten `waitDuration`";
    NotCreated { pod: Arc<str> }
        "A pod listed in `pods` does not exist.",
        "create the pod, or correct its name in `pods`";
    WorkloadMissing { workload: String, similar: Vec<String> }
        "The workload that a group names in `workloadRef` does not exist.",
        "create the workload, or correct the name; `optional: true` if the group may be absent";
    WorkloadStopped { workload: String }
        "The workload was stopped with `rollcall stop`; what it was before stands in its annotation `rollcall.dev/before-stop`.",
        "rollcall start NAME";
    NoRunYet { cron_job: Arc<str> }
        "A group names a CronJob, which has not made a Job yet.",
        "wait for its time, or run it now: kubectl create job --from=cronjob/NAME NAME-now";
    NothingMatches { selector: String }
        "No pod and no workload's template matches the selector. A group of nothing is never complete.",
        "compare the selector with the labels of the pods: kubectl get pods --show-labels";
    NumberUnknown { owner: String }
        "The workload's controller has not seen its newest version yet, so how many pods it wants is not known.",
        "wait a moment; if it stays, see whether kube-controller-manager runs";
    TooFewPods { owner: String, present: u32, expected: u32 }
        "A workload wants more pods than exist, for example because a quota holds them back.",
        "kubectl describe the workload: its events say why pods are not created";
    TooFewMembers { present: u32, required: u32 }
        "Fewer pods exist than `expected` or `minReady` asks for.",
        "create the missing pods, or lower the number";
    NotReady { pod: Arc<str>, trouble: Option<String> }
        "The pod runs and is not ready.",
        "kubectl describe pod; kubectl logs";
    NotStarted { pod: Arc<str>, trouble: Option<String> }
        "Not all containers of the pod have started.",
        "kubectl describe pod";
    NotSucceeded { pod: Arc<str>, trouble: Option<String> }
        "The pod runs to completion and has not finished.",
        "kubectl logs";
    JobNotComplete { job: Arc<str>, succeeded: u32, completions: u32 }
        "The Job has not reached its completions.",
        "kubectl describe job <name>";
    JobSuspended { job: Arc<str> }
        "The Job is suspended (its own `spec.suspend`): it has no pods and starts none.",
        "kubectl patch job <name> -p '{\"spec\":{\"suspend\":false}}'";
    JobFailed { job: Arc<str> }
        "The Job has failed and will not start more pods.",
        "delete and re-create the Job; the replacement un-blocks the group";
    PodFailed { pod: Arc<str>, trouble: Option<String> }
        "The pod has failed and is not restarted.",
        "delete and re-create the pod; the replacement un-blocks the group";
    ForeignGate { pod: Arc<str>, gate: Arc<str> }
        "Another scheduling gate, which is not ours, holds the pod.",
        "ask the owner of that gate";
    OwnGate { pod: Arc<str>, gate: Arc<str>, feature: &'static str }
        "A scheduling gate of another feature of Rollcall holds the pod.",
        "see whether that feature is installed and its controller runs: rollcall doctor";
    NoGate { pod: Arc<str>, gate: Arc<str> }
        "The pod's group is closed and the pod does not carry the gate of the sequence, so nothing holds it.",
        "put the gate into `spec.schedulingGates` of the pod or its template";
    StartLimit { limit: u32 }
        "`maxConcurrentStarts` members are starting; the next follows when one has arrived.",
        "wait, or raise `maxConcurrentStarts`";
    OtherSequence { pod: Arc<str>, sequence: String, group: Arc<str> }
        "Another sequence claims the pod through the same gate and holds it.",
        "rollcall explain the other sequence";
    OutOfOrder { pod: Arc<str>, group: Arc<str> }
        "A pod of a group that is not open runs without ever having been released.",
        "put the gate into its template, so that it is held";
    NodeMissing { pod: Arc<str>, node: Arc<str> }
        "The pod can run on one node only, and that node does not exist.",
        "kubectl get nodes; correct the node that the pod names, or add the node";
    NodeLacks { node: Arc<str>, what: NodeReady }
        "A node does not show what `nodeReady` asks for, though its pods may be ready: a CSI driver in its CSINode, a resource, a condition.",
        "kubectl get csinode, kubectl describe node; then the logs of the agent";
    TaintsNotPermitted { namespace: Arc<str> }
        "`nodeGuard: Taints` keeps everybody away from nodes, so an administrator has to allow it in the sequence's namespace.",
        "kubectl annotate namespace <name> podsequence.example.com/allow-node-taints=true, or use nodeGuard: Labels";
    TemplateLacksToleration { daemon_set: Arc<str>, key: Arc<str> }
        "With `nodeGuard: Taints` a DaemonSet of an earlier group has a template that does not tolerate the taint of a later one. It would get no pod on a closed node, which would then never open; so no node is tainted.",
        "add the toleration to the template (rollcall keys NAME prints the keys), or use nodeGuard: Labels";
    ReleaseForbidden { pod: Arc<str>, message: Arc<str> }
        "The API server forbids the controller to take the gate from the pod: a right is missing, or a policy does not allow it. The message is the API server's own.",
        "rollcall doctor finds missing rights; podsequence.example.com/allow-gates of the namespace says which gates of others sequences may take away";
    ReleaseRefused { pod: Arc<str>, message: Arc<str> }
        "The API server finds the pod without its gate invalid, or a policy does. The message is the API server's own.",
        "change what the message names: the pod or its template, or the policy";
    NodeWriteRefused { node: Arc<str>, message: Arc<str> }
        "The API server refuses what the controller writes on a node: a right is missing, or the node has no room for more labels or annotations. The message is the API server's own.",
        "change what the message names; rollcall doctor finds missing rights";
    OldReplicaSet { pod: Arc<str> }
        "The pod is ready, but of a ReplicaSet that its Deployment has replaced.",
        "wait for the rollout: kubectl rollout status";
}

impl Reason {
    /// The pod, or the workload, that has to come: the `pod` of `blockedBy`.
    pub fn blamed(&self) -> Option<&str> {
        match self {
            Reason::WorkloadMissing { workload, .. } | Reason::WorkloadStopped { workload } => Some(workload),
            other => other.pod().map(|pod| &**pod),
        }
    }

    /// The pod it is about, if it is about one.
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

    /// What the API server said, if it is the one that refuses.
    pub fn refusal(&self) -> Option<&Arc<str>> {
        match self {
            Reason::ReleaseForbidden { message, .. }
            | Reason::ReleaseRefused { message, .. }
            | Reason::NodeWriteRefused { message, .. } => Some(message),
            _ => None,
        }
    }

    /// The same with the time that it has lasted: `app-2 has not been ready for 38s: container server: …`.
    pub fn dated(&self, elapsed: &str) -> String {
        let because = |trouble: &Option<String>| trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
        match self {
            Reason::NotReady { pod, trouble } => {
                format!("{pod} has not been ready for {elapsed}{}", because(trouble))
            }
            Reason::NotStarted { pod, trouble } => {
                format!("{pod} has not started for {elapsed}{}", because(trouble))
            }
            Reason::NotSucceeded { pod, trouble } => {
                format!("{pod} has not finished for {elapsed}{}", because(trouble))
            }
            Reason::PodFailed { pod, trouble } => format!("{pod} failed {elapsed} ago{}", because(trouble)),
            Reason::JobFailed { job } => format!("Job {job} failed {elapsed} ago"),
            Reason::ReleaseForbidden { pod, message } | Reason::ReleaseRefused { pod, message } => {
                format!("{pod} cannot be released for {elapsed}: {message}")
            }
            Reason::NodeWriteRefused { node, message } => {
                format!("{node} cannot be written to for {elapsed}: {message}")
            }
            other => format!("{}, for {elapsed}", other.sentence()),
        }
    }

    /// One sentence, without a full stop; no elapsed times, so that it changes only when the facts do.
    pub fn sentence(&self) -> String {
        let because = |trouble: &Option<String>| trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
        match self {
            Reason::Timeout { group, after, progress } => {
                format!("\"{group}\" has {progress} after its timeout of {}", human(*after))
            }
            Reason::InvalidSpec { problem } => problem.clone(),
            Reason::NotPermitted { namespace, from } => format!(
                "spec.namespace: namespace \"{namespace}\" does not allow sequences from \"{from}\" (annotation podsequence.example.com/allow-from)"
            ),
            Reason::NodeScopeNeedsFullMode => {
                "spec.scope: Node needs a controller in Full mode; this one runs in Lite mode".into()
            }
            Reason::Suspended => "the sequence is suspended (spec.suspend)".into(),
            Reason::WaitsForGroup { group, progress } => format!("waits for \"{group}\": {progress}"),
            Reason::Settling { group, until } => {
                format!("\"{group}\" is complete and settles until {}", clock(*until))
            }
            Reason::NotCreated { pod } => format!("{pod} does not exist"),
            Reason::WorkloadMissing { workload, similar } => match similar.is_empty() {
                true => format!("{workload} does not exist"),
                false => format!("{workload} does not exist; there is {}", similar.join(", ")),
            },
            Reason::WorkloadStopped { workload } => format!("{workload} is stopped"),
            Reason::NoRunYet { cron_job } => format!("CronJob {cron_job} has not run yet"),
            Reason::OwnGate { pod, gate, feature } => {
                format!("{pod} is held by {gate}, the gate of {feature}")
            }
            Reason::NodeMissing { pod, node } => {
                format!("{pod} can only run on node {node}, which does not exist")
            }
            Reason::NothingMatches { selector } => format!("no pod and no workload matches {selector}"),
            Reason::NumberUnknown { owner } => format!("how many pods {owner} wants is not known yet"),
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
            Reason::ForeignGate { pod, gate } => format!("{pod} is held by another scheduling gate, {gate}"),
            Reason::NoGate { pod, gate } => {
                format!("{pod} does not carry the gate {gate}, so nothing holds it while its group is closed")
            }
            Reason::StartLimit { limit } => match limit {
                1 => "1 member is starting (maxConcurrentStarts)".into(),
                limit => format!("{limit} members are starting (maxConcurrentStarts)"),
            },
            Reason::OtherSequence { pod, sequence, group } => {
                format!("PodSequence {sequence} holds {pod} too, in \"{group}\"")
            }
            Reason::OutOfOrder { pod, group } => {
                format!("{pod} of \"{group}\" runs although its group is not open")
            }
            Reason::ReleaseForbidden { pod, message } | Reason::ReleaseRefused { pod, message } => {
                format!("{pod} cannot be released: {message}")
            }
            Reason::NodeWriteRefused { node, message } => format!("{node} cannot be written to: {message}"),
            Reason::OldReplicaSet { pod } => format!("{pod} is of a ReplicaSet that has been replaced"),
            Reason::NodeLacks { node, what } => match what {
                NodeReady::CsiDriver(driver) => format!("CSI driver {driver} is not registered on {node}"),
                NodeReady::Allocatable(resource) => format!("{node} offers no {resource}"),
                NodeReady::Condition(condition) => format!("condition {condition} of {node} is not True"),
            },
            Reason::TemplateLacksToleration { daemon_set, key } => format!(
                "the template of DaemonSet {daemon_set} does not tolerate {key}, so it would get no pods on tainted nodes"
            ),
            Reason::TaintsNotPermitted { namespace } => format!(
                "spec.nodeGuard: Taints is not allowed to sequences in namespace \"{namespace}\" (annotation {})",
                "podsequence.example.com/allow-node-taints"
            ),
        }
    }
}

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Members that have arrived, of those that must; `None` while that number is unknown.
    Members { arrived: u32, required: Option<u32> },
    /// Of a group without members: the nodes on which it is complete, of all nodes.
    Nodes { complete: u32, total: u32 },
}

/// `1 of 2 arrived`, `1 of 2 nodes complete`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Members { arrived, required: Some(required) } => {
                write!(f, "{arrived} of {required} arrived")
            }
            Progress::Members { arrived, required: None } => write!(f, "{arrived} arrived"),
            Progress::Nodes { complete, total } => write!(f, "{complete} of {total} nodes complete"),
        }
    }
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%SZ").to_string()
}
