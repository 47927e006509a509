//! How the programs in the containers behave: what no object in a cluster says.
//!
//! Annotations of a pod override this; see [`crate::actors::kubelet`].

use crate::kinds::Kind;
use crate::plan::Selector;
use jiff::SignedDuration;
use serde_json::Value;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[derive(Clone, Debug)]
pub struct ProgramBehaviour {
    /// From its turn until a container runs.
    pub start: SignedDuration,
    /// How long an init container runs.
    pub init: SignedDuration,
    /// How long after its pod is ready the work of a Job is done.
    pub job: SignedDuration,
    /// Whether pods without restarts and without readiness probes end like those of Jobs. People write such pods for work that
    /// is done once; kwok lets them run for ever.
    pub unprobed_pods_end: bool,
    /// How long a container takes to end when it is asked to.
    pub stop: SignedDuration,
    /// From an agent that is ready until its node shows what it brings: a driver, devices, a condition.
    pub register: SignedDuration,
    /// Whether agents bring what sequences wait for beyond their pods (`nodeReady`), as people who write that expect.
    pub agents_show_what_is_asked: bool,
    /// From the end of an owner until what it owned is deleted.
    pub garbage: SignedDuration,
    /// Whether nodes renew their leases. A write per node in ten seconds, for nothing that most want to see.
    pub heartbeats: bool,
    /// Exceptions for some pods. Of several rules that set the same value, the first one counts.
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

/// How some pods behave.
#[derive(Clone, Debug, Default)]
pub struct BehaviourRule {
    pub pods: PodFilter,
    /// From the binding until the containers run.
    pub start_after: Option<SignedDuration>,
    /// From then until the application can answer.
    pub ready_after: Option<SignedDuration>,
    /// Runs, and is never ready.
    pub never_ready: bool,
    /// The containers exit with 0 this long after their start; what follows is up to the restart policy.
    pub complete_after: Option<SignedDuration>,
    /// The containers exit with 1 this long after their start; what follows is up to the restart policy.
    pub fail_after: Option<SignedDuration>,
    /// How often they exit in this way before they run on; every time, if it is not said.
    pub times: Option<u32>,
}

/// Which pods a rule is about.
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

/// Who owns a pod, and who owns that: a ReplicaSet and a Job are named after the Deployment and the CronJob that made
/// them, with an end of their own.
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
