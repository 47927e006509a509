//! How the programs in the containers behave. No Kubernetes object contains this.
//!
//! Annotations of a pod override this; see [`crate::actors::kubelet`].

use crate::kinds::Kind;
use crate::plan::Selector;
use jiff::SignedDuration;
use serde_json::Value;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[derive(Clone, Debug)]
pub struct ProgramBehaviour {
    /// Time to start a container, counted from the moment when its turn comes.
    pub start: SignedDuration,
    /// Run time of an init container.
    pub init: SignedDuration,
    /// Time from the readiness of a Job's pod to the end of its work.
    pub job: SignedDuration,
    /// Whether pods without restarts and without readiness probes end like pods of Jobs. Users write such pods for one-off
    /// work; kwok lets them run forever.
    pub unprobed_pods_end: bool,
    /// Time that a container takes to terminate.
    pub stop: SignedDuration,
    /// Time from the readiness of an agent until its node shows the effect: a driver, devices, a condition.
    pub register: SignedDuration,
    /// Whether agents provide whatever `nodeReady` of a sequence asks for, as its author expects.
    pub agents_show_what_is_asked: bool,
    /// Time from the deletion of an owner until its dependents are deleted.
    pub garbage: SignedDuration,
    /// Whether nodes renew their leases. This costs a write per node every ten seconds, which few tests need.
    pub heartbeats: bool,
    /// Exceptions for some pods. If several rules set the same value, the first one counts.
    pub rules: Vec<BehaviourRule>,
}

impl Default for ProgramBehaviour {
    fn default() -> ProgramBehaviour {
        ProgramBehaviour {
            start: SECOND,
            init: SECOND,
            job: SECOND,
            unprobed_pods_end: false,
            stop: SECOND,
            register: SECOND,
            agents_show_what_is_asked: false,
            garbage: SignedDuration::ZERO,
            heartbeats: false,
            rules: Vec::new(),
        }
    }
}

/// Behaviour of some pods.
#[derive(Clone, Debug, Default)]
pub struct BehaviourRule {
    pub pods: PodFilter,
    /// Time from the binding until the containers run.
    pub start_after: Option<SignedDuration>,
    /// Time from the start of the containers until the application can answer.
    pub ready_after: Option<SignedDuration>,
    /// The pod runs but never becomes ready.
    pub never_ready: bool,
    /// The containers exit with code 0 this long after their start. The restart policy decides about the rest.
    pub complete_after: Option<SignedDuration>,
    /// The containers exit with code 1 this long after their start. The restart policy decides about the rest.
    pub fail_after: Option<SignedDuration>,
    /// How many times they exit in this way before they keep running; `None` means every time.
    pub times: Option<u32>,
}

/// Selects the pods of a rule.
#[derive(Clone, Debug, Default)]
pub enum PodFilter {
    #[default]
    All,
    Selected(Selector),
}

impl PodFilter {
    pub fn includes(&self, pod: &Value) -> bool {
        let metadata = &pod["metadata"];
        match self {
            PodFilter::All => true,
            PodFilter::Selected(selector) => {
                let text = |value: &'static str| metadata[value].as_str().unwrap_or_default();
                let label = |key: &str| metadata["labels"][key].as_str();
                let owners = owners(metadata);
                let owners: Vec<(Kind, &str)> =
                    owners.iter().map(|(kind, name)| (*kind, name.as_str())).collect();
                selector.matches(text("namespace"), text("name"), label, &owners)
            }
        }
    }
}

/// The direct and indirect owners of a pod. The names of a ReplicaSet and a Job consist of the name of their Deployment or
/// CronJob and a suffix.
fn owners(metadata: &Value) -> Vec<(Kind, String)> {
    let mut all = Vec::new();
    for reference in metadata["ownerReferences"].as_array().into_iter().flatten() {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let Some(kind) = Kind::named(text("apiVersion"), text("kind")) else { continue };
        let made_by = match kind {
            Kind::ReplicaSet => Some(Kind::Deployment),
            Kind::Job => Some(Kind::CronJob),
            _ => None,
        };
        let parent = made_by.zip(text("name").rsplit_once('-'));
        all.extend(parent.map(|(kind, (name, _))| (kind, name.to_owned())));
        all.push((kind, text("name").to_owned()));
    }
    all
}
