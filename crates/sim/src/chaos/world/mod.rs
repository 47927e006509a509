//! The objects of a run, as users would create them, and the expected end state.
//!
//! There are several worlds; the seed of a run selects one. [`SequenceRule`]s repeat the expectations by hand, so that the
//! checks do not interpret specs with the controller's code.

mod deletion;
mod end_state;
mod launch;
mod neighbours;
mod nodes;
pub mod reservation;
mod shop;
mod workloads;

pub use end_state::{end_state, unfinished};

use super::fault::{Fault, Place};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use rollcall_api::names;
use serde_json::{Value, json};

/// The namespace of the pods.
pub const NAMESPACE: &str = "default";
/// A namespace that permits no sequences of other namespaces.
pub const CLOSED: &str = "closed";
pub const NODES: [&str; 2] = ["node-1", "node-2"];
/// A node label that does not belong to Rollcall.
pub const AGENTS_LABEL: &str = "example.com/agents";
/// A CSI driver.
pub const DRIVER: &str = "csi.example.com";
/// The prefix of Rollcall's keys on nodes.
pub const OURS: &str = "podsequence.example.com/";

/// Annotation with the time until a program is ready; see `testbed/README.md`.
const READY_AFTER: &str = "testbed.rollcall.dev/ready-after";

pub struct World {
    pub name: &'static str,
    /// Whether the controller runs in Full mode, with admission and writes to nodes.
    pub full: bool,
    /// Whether containers start in order. Garbage is then collected late, so that a new pod can find the ConfigMap of an
    /// earlier pod with its name.
    pub launch: bool,
    /// Whether the world has Orders and pods that claim their tickets.
    pub reservation: bool,
    /// Faults target the first sequence.
    pub rules: &'static [SequenceRule],
    pub manifests: fn() -> Vec<(Kind, Value)>,
    /// Actions of the users, in order.
    pub script: &'static [UserAction],
    /// Pods that must never be released.
    pub held: &'static [&'static str],
    /// Faults that this world is not required to survive.
    pub spared: &'static [Fault],
}

/// A sequence and its expectations.
pub struct SequenceRule {
    pub namespace: &'static str,
    pub sequence: &'static str,
    pub groups: &'static [Group],
    pub end: SequenceEnd,
    /// Whether the sequence is permitted to act in the namespace of its pods.
    pub permitted: bool,
    /// Whether its deletion releases the pods that it holds.
    pub lets_go: bool,
    /// For a sequence in Node scope: how it blocks nodes.
    pub guard: Option<Guard>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Labels,
    Taints,
}

/// The end state of a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SequenceEnd {
    Completed,
    Failed,
    Deleted,
}

/// A group of a sequence. Each group waits for the preceding one.
pub struct Group {
    pub name: &'static str,
    pub members: Members,
    /// Number of pods that must arrive.
    pub required: usize,
    /// Number of pods at the end of the run.
    pub finally: usize,
    /// Time that the next group waits after this group is complete.
    pub settle_seconds: i64,
    /// Limit of pods that start at the same time.
    pub at_once: usize,
    /// Set if the pods are agents, one on each node.
    pub agents: Option<AgentTraits>,
}

/// Traits of a group's DaemonSet, which tolerates every taint.
#[derive(Clone, Copy)]
pub struct AgentTraits {
    /// Whether it only runs on nodes with the label [`AGENTS_LABEL`].
    pub labelled: bool,
    /// Whether it registers [`DRIVER`], which the group also waits for.
    pub driver: bool,
}

pub enum Members {
    Named(&'static [&'static str]),
    /// Pods with this value of the label `tier`.
    Tier(&'static str),
    /// Pods with this value of the label `tier`, which belong to a Job of the same name. The Job's status tells when the
    /// group is complete.
    Job(&'static str),
}

/// An action of the users.
pub struct UserAction {
    pub when: When,
    pub act: fn(&mut Cluster),
}

#[derive(Clone, Copy)]
pub enum When {
    /// At this many milliseconds after the beginning.
    At(u64),
    /// Like `At`, but delayed until the condition holds.
    Once(u64, fn(&Cluster) -> bool),
    /// As soon as the end state is reached and all faults have struck.
    Finished,
}

/// All worlds. The first one serves runs with every fault at every write; the others are smaller and serve many random
/// runs.
pub static ALL: [&World; 10] = [
    &shop::WORLD,
    &shop::SMALLER,
    &workloads::WORLD,
    &neighbours::WORLD,
    &deletion::WORLD,
    &nodes::LABELS,
    &nodes::TAINTS,
    &nodes::DELETION,
    &launch::WORLD,
    &reservation::WORLD,
];

/// The index of the world of a run: the first world for seed 0, the others in turn. The small shop recurs most often,
/// because it has the most events per second.
pub fn index_of(seed: u64) -> usize {
    let turn = (seed.wrapping_sub(1) % IN_TURN.len() as u64) as usize;
    if seed == 0 { 0 } else { IN_TURN[turn] }
}

const IN_TURN: [usize; 20] = [1, 2, 1, 3, 8, 4, 1, 5, 6, 7, 1, 2, 9, 3, 8, 4, 9, 5, 6, 7];

/// A seed for each world, in the order of the worlds.
pub fn seeds() -> impl Iterator<Item = u64> {
    (0..ALL.len()).filter_map(|wanted| (0..=IN_TURN.len() as u64).find(|seed| index_of(*seed) == wanted))
}

impl SequenceRule {
    pub fn key(&self) -> Key {
        Key::new(Kind::PodSequence, self.namespace, self.sequence)
    }

    /// The key that blocks a node for a group.
    pub fn node_key(&self, position: usize) -> String {
        let (namespace, sequence, group) = (self.namespace, self.sequence, self.groups[position].name);
        format!("{OURS}{namespace}.{sequence}.{group}-blocked")
    }

    /// The first group that a pod belongs to.
    pub fn group_of(&self, name: &str, tier: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.claims(name, tier))
    }
}

impl Group {
    const fn named(name: &'static str, pods: &'static [&'static str]) -> Group {
        let (required, members) = (pods.len(), Members::Named(pods));
        Group::new(name, members, required)
    }

    const fn tier(name: &'static str, required: usize) -> Group {
        Group::new(name, Members::Tier(name), required)
    }

    const fn new(name: &'static str, members: Members, required: usize) -> Group {
        let (finally, at_once) = (required, usize::MAX);
        Group { name, members, required, finally, settle_seconds: 0, at_once, agents: None }
    }

    pub fn claims(&self, name: &str, tier: &str) -> bool {
        match self.members {
            Members::Named(names) => names.contains(&name),
            Members::Tier(label) | Members::Job(label) => tier == label,
        }
    }
}

impl World {
    pub fn allows(&self, fault: Fault) -> bool {
        let possible = match fault.place() {
            Place::Nodes => self.full,
            Place::Launch => self.launch,
            Place::Reservation | Place::HandOver => self.reservation,
            // Tests on a real cluster cover restarts of sequences with nodes, launch order and reservations.
            Place::Cluster if fault == Fault::BegunAgain => !self.full,
            Place::Write | Place::List | Place::Watch | Place::Process | Place::Cluster => true,
        };
        possible && !self.spared.contains(&fault)
    }

    pub fn create(&self, cluster: &mut Cluster) {
        if self.full {
            nodes::install(cluster);
        }
        if self.launch {
            cluster.programs.garbage = launch::GARBAGE_COLLECTED_AFTER;
        }
        NODES.iter().for_each(|node| self.create_node(cluster, node));
        create_own_namespace(cluster);
        for (kind, object) in (self.manifests)() {
            let made = cluster.create(kind, object);
            debug_assert!(made.is_ok(), "{}: {:?}", self.name, made.err().map(|refusal| refusal.message));
        }
    }

    /// Creates a node of this world.
    pub fn create_node(&self, cluster: &mut Cluster, name: &str) {
        let capacity = if self.reservation { reservation::CAPACITY } else { &[] };
        create_node_with(cluster, name, capacity);
    }

    /// The initial manifest of the sequence that faults target.
    pub fn main_sequence(&self) -> Value {
        let key = self.rules[0].key();
        let mut all = (self.manifests)().into_iter();
        all.find(|(kind, object)| Key::from_object(*kind, object) == key)
            .map(|(_, object)| object)
            .unwrap_or_default()
    }

    /// Creates a pod again that has no workload. The pod has no gate if the sequence ends deleted, because the gate would
    /// hold it forever.
    pub fn create_pod_again(&self, cluster: &mut Cluster, old: &Value) {
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        if self.reservation && !reservation::prepare_for_pod_again(cluster, name) {
            return;
        }
        let special = match (self.launch, self.reservation) {
            (true, _) => launch::pod_named(name),
            (_, true) => reservation::pod_named(name),
            (false, false) => None,
        };
        let (kind, mut new) = special.unwrap_or_else(|| pod(name, tier(old)));
        let claims = |rule: &&SequenceRule| rule.group_of(name, tier(old)).is_some();
        if self.rules.iter().find(claims).is_some_and(|rule| rule.end == SequenceEnd::Deleted) {
            new["spec"]["schedulingGates"] = json!([]);
        }
        let _ = cluster.create(kind, new);
    }
}

/// Creates a node with a foreign label and a foreign taint that repels no pods.
pub fn create_node(cluster: &mut Cluster, name: &str) {
    create_node_with(cluster, name, &[]);
}

/// Creates a node with the given capacity; other resources have defaults.
fn create_node_with(cluster: &mut Cluster, name: &str, capacity: &[(&str, &str)]) {
    let taint = json!({ "key": "example.com/pool", "value": "a", "effect": "PreferNoSchedule" });
    let metadata = json!({ "name": name, "labels": { AGENTS_LABEL: "yes" } });
    let mut node = json!({ "metadata": metadata, "spec": { "taints": [taint] } });
    for (resource, amount) in capacity {
        node["status"]["capacity"][resource] = (*amount).into();
    }
    let _ = cluster.create(Kind::Node, node);
}

pub fn create_own_namespace(cluster: &mut Cluster) {
    let _ = cluster.create(Kind::Namespace, json!({ "metadata": { "name": names::OWN_NAMESPACE } }));
}

pub fn pod_key(name: &str) -> Key {
    Key::new(Kind::Pod, NAMESPACE, name)
}

/// A pod with the sequence gate. Databases take a while until ready, and all but the first take longer, so that their group
/// is half complete meanwhile.
fn pod(name: &str, tier: &str) -> (Kind, Value) {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "tier": tier } },
        "spec": pod_spec("Always"),
    });
    if tier == "db" {
        let ready_after = if name.ends_with("-0") { "700ms" } else { "2500ms" };
        pod["metadata"]["annotations"] = json!({ READY_AFTER: ready_after });
    }
    (Kind::Pod, pod)
}

fn pods(tier: &str, names: &[&str]) -> impl Iterator<Item = (Kind, Value)> {
    names.iter().map(|name| pod(name, tier))
}

fn pod_spec(restart: &str) -> Value {
    json!({
        "schedulingGates": [{ "name": names::SEQUENCE_GATE }],
        "restartPolicy": restart,
        "containers": [{ "name": "main", "image": "example/main:1" }],
    })
}

/// The pod template of a workload.
fn template(tier: &str, restart: &str) -> Value {
    json!({ "metadata": { "labels": { "tier": tier } }, "spec": pod_spec(restart) })
}

fn sequence(rule: &SequenceRule, spec: Value) -> (Kind, Value) {
    let metadata = json!({ "name": rule.sequence, "namespace": rule.namespace });
    (Kind::PodSequence, json!({ "metadata": metadata, "spec": spec }))
}

fn namespace(name: &str, annotations: Value) -> (Kind, Value) {
    (Kind::Namespace, json!({ "metadata": { "name": name, "annotations": annotations } }))
}

/// Whether the controller has stored the note of a sequence. Controllers use notes to clean up after a deletion.
fn has_note(cluster: &Cluster, rule: &SequenceRule) -> bool {
    let uid = cluster.store.get(&rule.key()).map(|sequence| sequence.uid().to_owned()).unwrap_or_default();
    let mut notes = cluster.store.list(Kind::ConfigMap, Some(names::OWN_NAMESPACE));
    notes.any(|(key, _)| key.name.ends_with(&uid))
}

/// Whether a pod has arrived, judged as in the output of `kubectl get pods`.
pub fn has_arrived(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|is| is["type"] == "Ready" && is["status"] == "True");
    pod["metadata"]["deletionTimestamp"].is_null() && (ready || pod["status"]["phase"] == "Succeeded")
}

/// Whether the sequence gate holds a pod.
pub fn is_held(pod: &Value) -> bool {
    has_gate(pod, names::SEQUENCE_GATE)
}

pub fn has_gate(pod: &Value, name: &str) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array().into_iter().flatten();
    gates.into_iter().any(|gate| gate["name"] == name)
}

pub fn tier(pod: &Value) -> &str {
    pod["metadata"]["labels"]["tier"].as_str().unwrap_or_default()
}

/// Whether a Job is complete.
pub fn is_done(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|is| is["type"] == "Complete" && is["status"] == "True")
}
