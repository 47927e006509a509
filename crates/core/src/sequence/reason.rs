//! Every "not yet": a stable code, a sentence with the numbers in it, a hint what to do.

use super::spec::NodeReady;
use crate::Timestamp;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Timeout {
        group: Arc<str>,
        after: Duration,
        arrived: u32,
        required: Option<u32>,
    },
    InvalidSpec {
        problem: String,
    },
    NotPermitted {
        namespace: Arc<str>,
        from: Arc<str>,
    },
    NodeScopeNeedsFullMode,
    Suspended,
    WaitsForGroup {
        group: Arc<str>,
        arrived: u32,
        required: Option<u32>,
    },
    Settling {
        group: Arc<str>,
        until: Timestamp,
    },
    NotCreated {
        pod: Arc<str>,
    },
    NothingMatches {
        selector: String,
    },
    NumberUnknown {
        owner: String,
    },
    TooFewPods {
        owner: String,
        present: u32,
        expected: u32,
    },
    TooFewMembers {
        present: u32,
        required: u32,
    },
    NotReady {
        pod: Arc<str>,
        trouble: Option<String>,
    },
    NotStarted {
        pod: Arc<str>,
        trouble: Option<String>,
    },
    NotSucceeded {
        pod: Arc<str>,
        trouble: Option<String>,
    },
    JobNotComplete {
        job: Arc<str>,
        succeeded: u32,
        completions: u32,
    },
    JobSuspended {
        job: Arc<str>,
    },
    JobFailed {
        job: Arc<str>,
    },
    PodFailed {
        pod: Arc<str>,
        trouble: Option<String>,
    },
    ForeignGate {
        pod: Arc<str>,
        gate: Arc<str>,
    },
    NoGate {
        pod: Arc<str>,
        gate: Arc<str>,
    },
    StartLimit {
        limit: u32,
    },
    OtherSequence {
        pod: Arc<str>,
        sequence: String,
        group: Arc<str>,
    },
    OutOfOrder {
        pod: Arc<str>,
        group: Arc<str>,
    },
    OldReplicaSet {
        pod: Arc<str>,
    },
    /// The agents of a node are there, and the node does not show what they bring.
    NodeLacks {
        node: Arc<str>,
        what: NodeReady,
    },
    /// Taints touch everybody, so an administrator has to allow them.
    TaintsNotPermitted {
        namespace: Arc<str>,
    },
    /// The DaemonSet controller looks at the template, so a taint that it does not tolerate would keep its pods away for ever.
    TemplateLacksToleration {
        daemon_set: Arc<str>,
        key: Arc<str>,
    },
}

/// A reason as the reference page lists it.
pub struct Described {
    pub code: &'static str,
    pub meaning: &'static str,
    pub hint: &'static str,
}

/// All reasons, for the reference page. A test keeps it complete.
pub const ALL: &[Described] = &[
    Described {
        code: "Timeout",
        meaning: "A group with `onTimeout: Fail` did not arrive within its `timeout`. The sequence goes on when it arrives after all.",
        hint: "look at the pods in `blockedBy`; raise `timeout`, or set `onTimeout: Continue`",
    },
    Described {
        code: "InvalidSpec",
        meaning: "The spec asks for something that cannot be done; the message names the field.",
        hint: "correct the field that the message names",
    },
    Described {
        code: "NotPermitted",
        meaning: "`spec.namespace` names a namespace that does not allow sequences from here. Nothing there is touched.",
        hint: "kubectl annotate namespace <there> podsequence.example.com/allow-from=<here>",
    },
    Described {
        code: "NodeScopeNeedsFullMode",
        meaning: "`scope: Node` needs a controller in Full mode; this one runs in Lite mode.",
        hint: "install Full mode, or use `scope: Cluster`",
    },
    Described {
        code: "Suspended",
        meaning: "`spec.suspend` is true: nothing is released.",
        hint: "set `spec.suspend` to false",
    },
    Described {
        code: "WaitsForGroup",
        meaning: "An earlier group has not arrived.",
        hint: "look at what that group waits for",
    },
    Described {
        code: "Settling",
        meaning: "The group before is complete and its `waitDuration` runs.",
        hint: "wait, or shorten `waitDuration`",
    },
    Described {
        code: "NotCreated",
        meaning: "A pod listed in `pods` does not exist.",
        hint: "create the pod, or correct its name in `pods`",
    },
    Described {
        code: "NothingMatches",
        meaning: "No pod and no workload's template matches the selector. A group of nothing is never complete.",
        hint: "compare the selector with the labels of the pods: kubectl get pods --show-labels",
    },
    Described {
        code: "NumberUnknown",
        meaning: "The workload's controller has not seen its newest version yet, so how many pods it wants is not known.",
        hint: "wait a moment; if it stays, see whether kube-controller-manager runs",
    },
    Described {
        code: "TooFewPods",
        meaning: "A workload wants more pods than exist, for example because a quota holds them back.",
        hint: "kubectl describe the workload: its events say why pods are not created",
    },
    Described {
        code: "TooFewMembers",
        meaning: "Fewer pods exist than `expected` or `minReady` asks for.",
        hint: "create the missing pods, or lower the number",
    },
    Described {
        code: "NotReady",
        meaning: "The pod runs and is not ready.",
        hint: "kubectl describe pod; kubectl logs",
    },
    Described {
        code: "NotStarted",
        meaning: "Not all containers of the pod have started.",
        hint: "kubectl describe pod",
    },
    Described {
        code: "NotSucceeded",
        meaning: "The pod runs to completion and has not finished.",
        hint: "kubectl logs",
    },
    Described {
        code: "JobNotComplete",
        meaning: "The Job has not reached its completions.",
        hint: "kubectl describe job <name>",
    },
    Described {
        code: "JobSuspended",
        meaning: "The Job is suspended (its own `spec.suspend`): it has no pods and starts none.",
        hint: "kubectl patch job <name> -p '{\"spec\":{\"suspend\":false}}'",
    },
    Described {
        code: "JobFailed",
        meaning: "The Job has failed and will not start more pods.",
        hint: "delete and re-create the Job; the replacement un-blocks the group",
    },
    Described {
        code: "PodFailed",
        meaning: "The pod has failed and is not restarted.",
        hint: "delete and re-create the pod; the replacement un-blocks the group",
    },
    Described {
        code: "ForeignGate",
        meaning: "Another scheduling gate, which is not ours, holds the pod.",
        hint: "ask the owner of that gate",
    },
    Described {
        code: "NoGate",
        meaning: "The pod's group is closed and the pod does not carry the gate of the sequence, so nothing holds it.",
        hint: "put the gate into `spec.schedulingGates` of the pod or its template",
    },
    Described {
        code: "StartLimit",
        meaning: "`maxConcurrentStarts` members are starting; the next follows when one has arrived.",
        hint: "wait, or raise `maxConcurrentStarts`",
    },
    Described {
        code: "OtherSequence",
        meaning: "Another sequence claims the pod through the same gate and holds it.",
        hint: "rollcall explain the other sequence",
    },
    Described {
        code: "OutOfOrder",
        meaning: "A pod of a group that is not open runs without ever having been released.",
        hint: "put the gate into its template, so that it is held",
    },
    Described {
        code: "NodeLacks",
        meaning: "A node does not show what `nodeReady` asks for, though its pods may be ready: a CSI driver in its CSINode, a resource, a condition.",
        hint: "kubectl get csinode, kubectl describe node; then the logs of the agent",
    },
    Described {
        code: "TaintsNotPermitted",
        meaning: "`nodeGuard: Taints` keeps everybody away from nodes, so an administrator has to allow it in the sequence's namespace.",
        hint: "kubectl annotate namespace <name> podsequence.example.com/allow-node-taints=true, or use nodeGuard: Labels",
    },
    Described {
        code: "TemplateLacksToleration",
        meaning: "With `nodeGuard: Taints` a DaemonSet of an earlier group has a template that does not tolerate the taint of a later one. It would get no pod on a closed node, which would then never open; so no node is tainted.",
        hint: "add the toleration to the template (rollcall keys NAME prints the keys), or use nodeGuard: Labels",
    },
    Described {
        code: "OldReplicaSet",
        meaning: "The pod is ready, but of a ReplicaSet that its Deployment has replaced.",
        hint: "wait for the rollout: kubectl rollout status",
    },
];

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Timeout { .. } => "Timeout",
            Reason::InvalidSpec { .. } => "InvalidSpec",
            Reason::NotPermitted { .. } => "NotPermitted",
            Reason::NodeScopeNeedsFullMode => "NodeScopeNeedsFullMode",
            Reason::Suspended => "Suspended",
            Reason::WaitsForGroup { .. } => "WaitsForGroup",
            Reason::Settling { .. } => "Settling",
            Reason::NotCreated { .. } => "NotCreated",
            Reason::NothingMatches { .. } => "NothingMatches",
            Reason::NumberUnknown { .. } => "NumberUnknown",
            Reason::TooFewPods { .. } => "TooFewPods",
            Reason::TooFewMembers { .. } => "TooFewMembers",
            Reason::NotReady { .. } => "NotReady",
            Reason::NotStarted { .. } => "NotStarted",
            Reason::NotSucceeded { .. } => "NotSucceeded",
            Reason::JobNotComplete { .. } => "JobNotComplete",
            Reason::JobSuspended { .. } => "JobSuspended",
            Reason::JobFailed { .. } => "JobFailed",
            Reason::PodFailed { .. } => "PodFailed",
            Reason::ForeignGate { .. } => "ForeignGate",
            Reason::NoGate { .. } => "NoGate",
            Reason::StartLimit { .. } => "StartLimit",
            Reason::OtherSequence { .. } => "OtherSequence",
            Reason::OutOfOrder { .. } => "OutOfOrder",
            Reason::OldReplicaSet { .. } => "OldReplicaSet",
            Reason::NodeLacks { .. } => "NodeLacks",
            Reason::TaintsNotPermitted { .. } => "TaintsNotPermitted",
            Reason::TemplateLacksToleration { .. } => "TemplateLacksToleration",
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
            | Reason::OldReplicaSet { pod } => Some(pod),
            Reason::Timeout { .. }
            | Reason::InvalidSpec { .. }
            | Reason::NotPermitted { .. }
            | Reason::NodeScopeNeedsFullMode
            | Reason::NodeLacks { .. }
            | Reason::TaintsNotPermitted { .. }
            | Reason::TemplateLacksToleration { .. }
            | Reason::Suspended
            | Reason::WaitsForGroup { .. }
            | Reason::Settling { .. }
            | Reason::NothingMatches { .. }
            | Reason::NumberUnknown { .. }
            | Reason::TooFewPods { .. }
            | Reason::TooFewMembers { .. }
            | Reason::JobNotComplete { .. }
            | Reason::JobSuspended { .. }
            | Reason::JobFailed { .. }
            | Reason::StartLimit { .. } => None,
        }
    }

    /// One sentence, without a full stop; no elapsed times, so that it changes only when the facts do.
    pub fn sentence(&self) -> String {
        let because = |trouble: &Option<String>| trouble.as_ref().map_or(String::new(), |t| format!(": {t}"));
        match self {
            Reason::Timeout { group, after, arrived, required } => {
                format!(
                    "\"{group}\" has {} arrived after its timeout of {}",
                    of(*arrived, *required),
                    human(*after)
                )
            }
            Reason::InvalidSpec { problem } => problem.clone(),
            Reason::NotPermitted { namespace, from } => format!(
                "spec.namespace: namespace \"{namespace}\" does not allow sequences from \"{from}\" (annotation podsequence.example.com/allow-from)"
            ),
            Reason::NodeScopeNeedsFullMode => {
                "spec.scope: Node needs a controller in Full mode; this one runs in Lite mode".into()
            }
            Reason::Suspended => "the sequence is suspended (spec.suspend)".into(),
            Reason::WaitsForGroup { group, arrived, required } => {
                format!("waits for \"{group}\": {} arrived", of(*arrived, *required))
            }
            Reason::Settling { group, until } => {
                format!("\"{group}\" is complete and settles until {}", clock(*until))
            }
            Reason::NotCreated { pod } => format!("{pod} does not exist"),
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
            Reason::StartLimit { limit } => format!("{limit} members are starting (maxConcurrentStarts)"),
            Reason::OtherSequence { pod, sequence, group } => {
                format!("PodSequence {sequence} holds {pod} too, in \"{group}\"")
            }
            Reason::OutOfOrder { pod, group } => {
                format!("{pod} of \"{group}\" runs although its group is not open")
            }
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

    pub fn hint(&self) -> &'static str {
        ALL.iter().find(|described| described.code == self.code()).map_or("", |described| described.hint)
    }
}

/// `1 of 2`, or `1` while nobody knows of how many.
pub fn of(arrived: u32, required: Option<u32>) -> String {
    match required {
        Some(required) => format!("{arrived} of {required}"),
        None => format!("{arrived}"),
    }
}

/// A duration as a person writes it: `1h30m`, `90s` as `1m30s`, `1.5s`.
pub fn human(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    if h > 0 {
        text += &format!("{h}h");
    }
    if m > 0 {
        text += &format!("{m}m");
    }
    match (s, millis) {
        (0, 0) if !text.is_empty() => {}
        (_, 0) => text += &format!("{s}s"),
        (_, _) => text += format!("{s}.{millis:03}").trim_end_matches('0').to_string().as_str(),
    }
    if millis > 0 { text + "s" } else { text }
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (millis, text) in [
            (0, "0s"),
            (900, "0.9s"),
            (1500, "1.5s"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (61_250, "1m1.25s"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn codes_are_unique_and_hinted() {
        for (position, described) in ALL.iter().enumerate() {
            assert!(ALL[..position].iter().all(|other| other.code != described.code), "{}", described.code);
            assert!(!described.hint.is_empty() && !described.meaning.is_empty());
        }
    }
}
