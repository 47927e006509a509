//! The life of each pod, recorded from the commits.

use super::closed_nodes::ClosedNodes;
use super::ranks;
use super::tickets::{self, TicketLives};
use crate::kinds::Kind;
use crate::report::{ClaimReport, PodState, RankReport, Span, TicketReport};
use crate::store::{Change, Observer};
use jiff::Timestamp;
use rollcall_api::watch::PodObject;
use rollcall_core::facts::Pod;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The life of a pod. Times are in milliseconds since the beginning.
#[derive(Clone, Debug)]
pub struct PodLife {
    pub namespace: String,
    pub name: String,
    pub node: Option<String>,
    /// Kind and name of its controller.
    pub owner: Option<(String, String)>,
    /// The pod at its creation.
    pub facts: Pod,
    /// The fields that determine its DNS name.
    pub identity: Identity,
    pub created: u64,
    pub spans: Vec<Span>,
    pub deleted: Option<u64>,
    pub arrived: Option<u64>,
    /// Empty unless its containers start in order.
    pub ranks: Vec<RankReport>,
}

#[derive(Clone, Debug)]
pub struct Identity {
    pub hostname: String,
    pub subdomain: String,
    pub labels: Value,
}

impl Identity {
    fn from_pod(pod: &Value) -> Identity {
        let text = |field: &str| pod["spec"][field].as_str().unwrap_or_default().to_owned();
        let (hostname, subdomain) = (text("hostname"), text("subdomain"));
        Identity { hostname, subdomain, labels: pod["metadata"]["labels"].clone() }
    }
}

impl PodLife {
    /// The time when the last gate was removed, or the creation time if the pod was never held.
    pub fn released_at(&self) -> u64 {
        let after = self.spans.iter().find(|span| span.state != PodState::Held);
        after.map_or(self.created, |span| span.from)
    }

    /// Such as `Deployment/web`.
    pub fn workload(&self) -> Option<String> {
        self.owner.as_ref().map(|(kind, name)| format!("{kind}/{name}"))
    }

    /// Whether the pod has arrived, was deleted, or has failed and its owner must replace it.
    fn is_settled(&self) -> bool {
        let failed = self.spans.last().is_some_and(|last| last.state == PodState::Failed);
        self.arrived.is_some() || self.deleted.is_some() || failed && self.owner.is_some()
    }

    pub fn was_held(&self) -> bool {
        self.spans.first().is_some_and(|span| span.state == PodState::Held)
    }
}

#[derive(Default)]
struct TimelineState {
    lives: Vec<PodLife>,
    by_uid: BTreeMap<String, usize>,
    claims: Vec<ClaimReport>,
    tickets: TicketLives,
    last_progress: u64,
    /// Owners of ReplicaSets and Jobs, by uid.
    parents: BTreeMap<String, (String, String)>,
    closed: ClosedNodes,
}

#[derive(Clone)]
pub struct Timeline {
    beginning: Timestamp,
    state: Arc<Mutex<TimelineState>>,
}

impl Timeline {
    pub fn new(beginning: Timestamp) -> Timeline {
        Timeline { beginning, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, TimelineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pods in order of creation.
    pub fn lives(&self) -> Vec<PodLife> {
        self.state().lives.clone()
    }

    /// The volume claims in order of creation.
    pub fn claims(&self) -> Vec<ClaimReport> {
        self.state().claims.clone()
    }

    /// The tickets in order of creation.
    pub fn tickets(&self) -> Vec<TicketReport> {
        self.state().tickets.all().to_vec()
    }

    pub fn all_arrived(&self) -> bool {
        self.state().lives.iter().all(PodLife::is_settled)
    }

    /// The time of the last progress, such as an arrival or a change of a sequence's summary.
    pub fn last_progress(&self) -> Duration {
        Duration::from_millis(self.state().last_progress)
    }

    pub fn since_beginning(&self, at: Timestamp) -> u64 {
        at.duration_since(self.beginning).as_millis().try_into().unwrap_or_default()
    }
}

impl Observer for Timeline {
    fn committed(&mut self, change: &Change) {
        let at = self.since_beginning(change.at);
        let mut state = self.state();
        match change.key.kind {
            Kind::Pod if tickets::is_guardian(&change.object) => {}
            Kind::Pod => state.pod(change, at),
            Kind::Ticket => state.ticket(change, at),
            Kind::Node => state.closed.update(change),
            Kind::PersistentVolumeClaim => state.claim(change, at),
            Kind::ReplicaSet | Kind::Job => {
                if let Some((kind, name, _)) = controller(&change.object) {
                    state.parents.insert(change.object.uid().to_owned(), (kind, name));
                }
            }
            Kind::PodSequence => {
                let phase = |object: &Value| object["status"]["summary"].clone();
                if change.before.as_ref().is_none_or(|before| phase(before) != phase(&change.object)) {
                    state.last_progress = at;
                }
            }
            _ => {}
        }
    }
}

impl TimelineState {
    /// Records a volume claim. A claim that is re-created with the same name is a new entry.
    fn claim(&mut self, change: &Change, at: u64) {
        let (namespace, name) = (change.key.namespace.to_string(), change.key.name.to_string());
        let living = |claim: &&mut ClaimReport| {
            (&claim.namespace, &claim.name) == (&namespace, &name) && claim.deleted.is_none()
        };
        match (self.claims.iter_mut().find(living), change.deleted) {
            (Some(claim), true) => claim.deleted = Some(at),
            (None, false) => self.claims.push(ClaimReport { namespace, name, deleted: None }),
            (Some(_), false) | (None, true) => {}
        }
    }

    fn ticket(&mut self, change: &Change, at: u64) {
        if self.tickets.update(change, at) {
            self.last_progress = at;
        }
    }

    fn pod(&mut self, change: &Change, at: u64) {
        let pod = &change.object;
        let place = match self.by_uid.get(pod.uid()) {
            Some(place) => *place,
            None => {
                let Ok(facts) = PodObject::deserialize(&pod.value).map(|pod| pod.facts()) else { return };
                self.last_progress = at;
                let owner = controller(pod).map(|(kind, name, uid)| match self.parents.get(&uid) {
                    Some(parent) => parent.clone(),
                    None => (kind, name),
                });
                self.lives.push(PodLife {
                    namespace: change.key.namespace.to_string(),
                    name: change.key.name.to_string(),
                    node: None,
                    owner,
                    ranks: ranks::of_pod(&facts),
                    facts,
                    identity: Identity::from_pod(pod),
                    created: at,
                    spans: Vec::new(),
                    deleted: None,
                    arrived: None,
                });
                self.by_uid.insert(pod.uid().to_owned(), self.lives.len() - 1);
                self.lives.len() - 1
            }
        };
        let life = &mut self.lives[place];
        if change.deleted {
            life.deleted = Some(at);
            return;
        }
        life.node = pod["spec"]["nodeName"].as_str().map(str::to_owned);
        let was_ready = life.spans.iter().any(|span| span.state == PodState::Ready);
        let (state, why) = state_of(pod, was_ready, &self.closed);
        ranks::update(&mut life.ranks, pod, state, at);
        add_span(&mut life.spans, Span { from: at, state, why });
        let arrived =
            state == PodState::Succeeded || state == PodState::Ready && !life.facts.runs_to_completion;
        if arrived && life.arrived.is_none() {
            life.arrived = Some(at);
            self.last_progress = at;
        }
    }
}

/// Adds a span, unless the last span already has this state and cause.
pub fn add_span(spans: &mut Vec<Span>, new: Span) {
    let lasts =
        |spans: &[Span]| spans.last().is_some_and(|last| last.state == new.state && last.why == new.why);
    if lasts(spans) {
        return;
    }
    // A state that ends at the instant it began is dropped.
    if spans.last().is_some_and(|last| last.from == new.from) {
        spans.pop();
    }
    if !lasts(spans) {
        spans.push(new);
    }
}

fn controller(object: &Value) -> Option<(String, String, String)> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let reference = references.iter().find(|reference| reference["controller"] == true)?;
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    Some((text("kind"), text("name"), text("uid")))
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// The state of a pod, and a cause where the state alone does not explain it.
fn state_of(pod: &Value, was_ready: bool, closed: &ClosedNodes) -> (PodState, Option<String>) {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return (PodState::Terminating, None);
    }
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => return (PodState::Succeeded, None),
        Some("Failed") => {
            return (PodState::Failed, text(&pod["status"]["reason"]).or(container_trouble(pod)));
        }
        _ => {}
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return (PodState::Held, None);
    }
    if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        let unscheduled = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False");
        return match unscheduled.filter(|scheduled| scheduled["reason"] == "Unschedulable") {
            Some(scheduled) => match closed.awaited_by(pod) {
                Some(why) => (PodState::Held, Some(why)),
                None => (PodState::Unschedulable, text(&scheduled["message"])),
            },
            None => (PodState::Starting, None),
        };
    }
    match condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True") {
        true => (PodState::Ready, None),
        false if was_ready => (PodState::NotReady, container_trouble(pod)),
        false => (PodState::Starting, container_trouble(pod)),
    }
}

/// Why a container does not run, unless it is merely starting.
fn container_trouble(pod: &Value) -> Option<String> {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let all = statuses.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    for status in all {
        let name = status["name"].as_str().unwrap_or_default();
        let reason = status["state"]["waiting"]["reason"].as_str();
        if let Some(reason) =
            reason.filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"))
        {
            return Some(format!("container {name}: {reason}"));
        }
        let ended = &status["state"]["terminated"];
        if let Some(code) = ended["exitCode"].as_i64().filter(|code| *code != 0) {
            return Some(format!("container {name}: exit code {code}"));
        }
    }
    None
}
