//! Pods: the fields that tell whether a pod is held, starting, ready or finished, and its problems.

use super::affinity::{self, AffinityObject, TolerationObject};
use super::{KeptLabels, LabelText, MOST_LABELS, Meta};
use crate::launch::{Barrier, launch};
use crate::names;
use crate::reservation::{Amounts, ContainerResources, PodResources, requested, wanted};
use jiff::Timestamp;
use rollcall_core::facts::{NodeConstraints, Pod, PodPhase, Trouble};
use rollcall_core::launch::facts::Launch;
use rollcall_core::node::Placement;
use rollcall_core::planted::{Bug, planted};
use rollcall_core::reservation::names as reservation;
use rollcall_core::reservation::spec::{Request, Resources};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of gates of one pod that are read. A gate of ours behind so many others is ignored.
const MOST_GATES: usize = 64;

#[derive(Clone, Debug, Deserialize)]
pub struct PodObject {
    pub metadata: Meta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    scheduling_gates: Option<Vec<Gate>>,
    // Repeated in `TemplateSpec` instead of flattened: for `#[serde(flatten)]`, serde would buffer the whole spec.
    restart_policy: Option<String>,
    containers: Vec<PodContainer>,
    init_containers: Vec<PodContainer>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<AffinityObject>,
    tolerations: Option<Vec<TolerationObject>>,
    priority: Option<i32>,
    /// The resources of the pod as a whole.
    resources: ContainerResources,
    overhead: Option<Amounts>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodContainer {
    name: String,
    env: Barrier,
    readiness_probe: Option<IgnoredAny>,
    resources: ContainerResources,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Gate {
    name: String,
}

impl PodResources for PodContainer {
    fn resources(&self) -> &ContainerResources {
        &self.resources
    }

    fn keeps_running(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// The fields that tell whether the pods of a template run to completion, and where they can run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TemplateSpec {
    restart_policy: Option<String>,
    containers: Vec<Container>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<AffinityObject>,
    tolerations: Option<Vec<TolerationObject>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    readiness_probe: Option<IgnoredAny>,
}

impl TemplateSpec {
    pub(super) fn runs_to_completion(&self) -> bool {
        let probes = self.containers.iter().any(|container| container.readiness_probe.is_some());
        is_not_restarted(self.restart_policy.as_deref()) && !probes
    }

    pub(super) fn placement(&self) -> Placement {
        let tolerations = self.tolerations.as_deref().unwrap_or_default();
        affinity::placement(self.node_selector.as_ref(), self.affinity.as_ref(), tolerations)
    }
}

/// The placement that a pod spec in JSON asks for; all other fields are ignored.
pub fn placement_of(spec: &serde_json::Value) -> Placement {
    TemplateSpec::deserialize(spec).map(|spec| spec.placement()).unwrap_or_default()
}

/// Whether containers that have exited with code 0 are not restarted.
fn is_not_restarted(restart_policy: Option<&str>) -> bool {
    matches!(restart_policy, Some("Never" | "OnFailure"))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    reason: Option<String>,
    nominated_node_name: Option<String>,
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    status: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    last_transition_time: Option<Timestamp>,
}

impl Condition {
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.last_transition_time
    }

    pub(super) fn holds(&self) -> bool {
        self.status == "True"
    }
}

pub(super) fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) ready: bool,
    started: Option<bool>,
    state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

/// A start time, parsed only when it is needed, which is rare.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: Option<String>,
}

/// The name of a node, if it is set and not empty.
fn named(node: Option<&str>) -> Option<Arc<str>> {
    node.filter(|node| !node.is_empty()).map(Into::into)
}

impl PodObject {
    /// The facts about the pod, with all its labels.
    pub fn facts(&self) -> Pod {
        self.facts_keeping(&KeptLabels::all())
    }

    pub fn facts_keeping(&self, labels: &KeptLabels) -> Pod {
        let PodObject { metadata, spec, status } = self;
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let ready = condition(conditions, "Ready");
        let gates = spec.scheduling_gates.iter().flatten();
        let is_ready = ready.is_some_and(Condition::holds);
        let not_restarted = is_not_restarted(spec.restart_policy.as_deref());
        let probes = spec.containers.iter().any(|container| container.readiness_probe.is_some());
        Pod {
            uid: metadata.uid(),
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            version: metadata.version(),
            labels: metadata.labels(labels),
            owner: metadata.controller().or_else(|| metadata.node_owner()),
            gates: gates.take(MOST_GATES).map(|gate| gate.name.as_str().into()).collect(),
            node: named(spec.node_name.as_deref()),
            nominated: named(status.nominated_node_name.as_deref()),
            constraints: self.constraints().kept(),
            phase: self.phase(),
            ready: is_ready,
            started: self.started(),
            runs_to_completion: not_restarted && !probes,
            terminating: metadata.deletion_timestamp.is_some(),
            released_by_hand: metadata.annotation(names::RELEASED_BY).is_some(),
            created: metadata.created(),
            since: ready.and_then(|ready| ready.last_transition_time).unwrap_or(metadata.created()),
            trouble: if is_ready { None } else { self.trouble(conditions) },
            launch: self.launch(not_restarted).kept(),
            request: self.request(),
        }
    }

    fn launch(&self, not_restarted: bool) -> Launch {
        let containers =
            self.spec.containers.iter().map(|container| (container.name.as_str(), &container.env));
        let statuses = self.status.container_statuses.as_deref().unwrap_or_default();
        let mut gates = self.spec.scheduling_gates.iter().flatten();
        let gated = gates.any(|gate| gate.name == names::LAUNCH_GATE);
        launch(&self.metadata, containers, statuses, not_restarted, gated)
    }

    /// The ticket that the pod asks for, if it carries the ticket gate or has already claimed a ticket.
    fn request(&self) -> Option<Box<Request>> {
        let PodObject { metadata, spec, .. } = self;
        let gated = spec.scheduling_gates.iter().flatten().any(|gate| gate.name == names::TICKET_GATE);
        if !gated && metadata.annotation(reservation::TICKET_CLAIMED).is_none() {
            return None;
        }
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        Some(Box::new(Request {
            wanted: wanted(metadata),
            labels: metadata.labels.iter().flat_map(LabelText::pairs).take(MOST_LABELS).collect(),
            resources: self.requests(),
            priority: self.priority(),
            placement: affinity::placement(spec.node_selector.as_ref(), spec.affinity.as_ref(), tolerations),
        }))
    }

    /// The resources that the pod requests, as the scheduler counts them.
    pub fn requests(&self) -> Resources {
        let spec = &self.spec;
        requested(&spec.containers, &spec.init_containers, &spec.resources, spec.overhead.as_ref())
    }

    pub fn priority(&self) -> i32 {
        self.spec.priority.unwrap_or_default()
    }

    fn constraints(&self) -> NodeConstraints {
        let PodSpec { node_selector, affinity, tolerations, .. } = &self.spec;
        let tolerations = tolerations.as_deref().unwrap_or_default();
        affinity::constraints(node_selector.as_ref(), affinity.as_ref(), tolerations)
    }

    fn phase(&self) -> PodPhase {
        match self.status.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            Some("Unknown") => PodPhase::Unknown,
            Some(_) | None => PodPhase::Pending,
        }
    }

    fn started(&self) -> bool {
        let statuses = self.status.container_statuses.as_deref().unwrap_or_default();
        // A container that has run and exited has started, although Kubernetes then sets `started` back to false.
        let started =
            |status: &ContainerStatus| status.started == Some(true) || status.state.terminated.is_some();
        let all = statuses.len() >= self.spec.containers.len() && !statuses.is_empty();
        self.phase() == PodPhase::Running && all && statuses.iter().all(started)
    }

    /// The first problem, in the order of the steps of a pod start.
    fn trouble(&self, conditions: &[Condition]) -> Option<Trouble> {
        let about_pod = |what: &str| Trouble { container: None, what: what.into() };
        if self.phase() == PodPhase::Succeeded {
            return None;
        }
        if let Some(reason) = self.status.reason.as_deref() {
            return Some(about_pod(reason));
        }
        let unscheduled = condition(conditions, "PodScheduled").filter(|scheduled| !scheduled.holds());
        if let Some(reason) = unscheduled.and_then(|scheduled| scheduled.reason.as_deref()) {
            return (reason != "SchedulingGated").then(|| about_pod(reason));
        }
        let init = self.status.init_container_statuses.iter().flatten();
        let unfinished = init.filter(|status| !status.ready).find_map(ContainerStatus::trouble);
        let main = self.status.container_statuses.iter().flatten();
        unfinished.or_else(|| main.filter(|status| !status.ready).find_map(ContainerStatus::trouble))
    }
}

impl ContainerStatus {
    pub(crate) fn has_succeeded(&self) -> bool {
        let succeeded = |code: i32| code == 0 || planted(Bug::ExitCodeIgnored);
        self.state.terminated.as_ref().is_some_and(|terminated| succeeded(terminated.exit_code))
    }

    pub(crate) fn waits_for(&self, reason: &str) -> bool {
        self.state.waiting.as_ref().is_some_and(|waiting| waiting.reason.as_deref() == Some(reason))
    }

    pub(crate) fn runs_since(&self) -> Option<Timestamp> {
        self.state.running.as_ref()?.started_at.as_deref()?.parse().ok()
    }

    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let what = match &self.state {
            State { waiting: Some(waiting), .. } => {
                // A container that waits for an earlier init container has no problem of its own.
                waiting.reason.clone().filter(|reason| reason != "PodInitializing")?
            }
            State { terminated: Some(terminated), .. } => match (terminated.exit_code, &terminated.reason) {
                (0, _) => return None,
                (code, Some(reason)) => format!("{reason} (exit code {code})"),
                (code, None) => format!("exit code {code}"),
            },
            State { running: Some(_), .. } => "running but not ready".into(),
            State { .. } => return None,
        };
        Some(Trouble { container: Some(self.name.as_str().into()), what: what.into() })
    }
}
