//! The objects of a run, as people would create them, and what has to become of them.
//!
//! There are several worlds, and the seed says which one a run is in. What is to be checked is written down here a second
//! time, by hand, as [`SequenceRule`]s: nothing here reads a spec the way the
//! controller does.

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

/// Where the pods are.
pub const NAMESPACE: &str = "default";
/// A namespace that permits nothing to anybody.
pub const CLOSED: &str = "closed";
pub const NODES: [&str; 2] = ["node-1", "node-2"];
/// A label of nodes that is not ours.
pub const AGENTS_LABEL: &str = "example.com/agents";
/// A CSI driver.
pub const DRIVER: &str = "csi.example.com";
/// What everything of ours on a node begins with.
pub const OURS: &str = "podsequence.example.com/";

/// How long a program takes until it can answer; see `testbed/README.md`.
const READY_AFTER: &str = "testbed.rollcall.dev/ready-after";

pub struct World {
    pub name: &'static str,
    /// Whether we run in Full mode, with our admission, and may write to nodes.
    pub full: bool,
    /// Whether containers start in order. Then garbage is collected late, so that a pod can find the ConfigMap of a namesake.
    pub launch: bool,
    /// Whether we keep room, for pods that ask for it.
    pub reservation: bool,
    /// The first one is the one that faults strike.
    pub rules: &'static [SequenceRule],
    pub manifests: fn() -> Vec<(Kind, Value)>,
    /// What people do meanwhile, one after the other.
    pub script: &'static [UserAction],
    /// Pods that nobody may ever let go.
    pub held: &'static [&'static str],
    /// Faults that this world cannot be asked to survive.
    pub spared: &'static [Fault],
}

/// One sequence, and what must hold for it.
pub struct SequenceRule {
    pub namespace: &'static str,
    pub sequence: &'static str,
    pub groups: &'static [Group],
    pub end: SequenceEnd,
    /// Whether it may do anything where its pods are.
    pub permitted: bool,
    /// Whether its deletion releases the pods that it holds.
    pub lets_go: bool,
    /// Of one that goes by nodes: how it keeps them closed.
    pub guard: Option<Guard>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Labels,
    Taints,
}

/// What becomes of a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SequenceEnd {
    Completed,
    Failed,
    Deleted,
}

/// One of its groups; each waits for the one before it.
pub struct Group {
    pub name: &'static str,
    pub members: Members,
    /// How many have to arrive.
    pub required: usize,
    /// How many there are in the end.
    pub finally: usize,
    /// How long the next one waits after that.
    pub settle_seconds: i64,
    /// How many may start at the same time.
    pub at_once: usize,
    /// One on each node, and not wherever there is room.
    pub agents: Option<AgentTraits>,
}

/// The DaemonSet of a group. It tolerates every taint.
#[derive(Clone, Copy)]
pub struct AgentTraits {
    /// Only on nodes with the label [`AGENTS_LABEL`].
    pub labelled: bool,
    /// It brings [`DRIVER`], and the group waits for that, too.
    pub driver: bool,
}

pub enum Members {
    Named(&'static [&'static str]),
    /// By their label.
    Tier(&'static str),
    /// The pods of a Job with that label, which has the same name; it says itself when it is done.
    Job(&'static str),
}

/// Something that people do.
pub struct UserAction {
    pub when: When,
    pub act: fn(&mut Cluster),
}

#[derive(Clone, Copy)]
pub enum When {
    /// So many milliseconds after the beginning.
    At(u64),
    /// The same, but not before something is so.
    Once(u64, fn(&Cluster) -> bool),
    /// As soon as everything is as it should be, and no fault comes any more.
    Finished,
}

/// The first one is for every fault at every write, the others for what is random; they are smaller, and many more runs.
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

/// The index of the world of a run: of seed 0 the first one, of the others these in turn. The small shop is the one in which
/// most goes on per second.
pub fn index_of(seed: u64) -> usize {
    let turn = (seed.wrapping_sub(1) % IN_TURN.len() as u64) as usize;
    if seed == 0 { 0 } else { IN_TURN[turn] }
}

const IN_TURN: [usize; 20] = [1, 2, 1, 3, 8, 4, 1, 5, 6, 7, 1, 2, 9, 3, 8, 4, 9, 5, 6, 7];

/// A seed for each world, in their order.
pub fn seeds() -> impl Iterator<Item = u64> {
    (0..ALL.len()).filter_map(|wanted| (0..=IN_TURN.len() as u64).find(|seed| index_of(*seed) == wanted))
}

impl SequenceRule {
    pub fn key(&self) -> Key {
        Key::new(Kind::PodSequence, self.namespace, self.sequence)
    }

    /// By which a node is known that has not reached a group.
    pub fn node_key(&self, position: usize) -> String {
        let (namespace, sequence, group) = (self.namespace, self.sequence, self.groups[position].name);
        format!("{OURS}{namespace}.{sequence}.{group}-blocked")
    }

    /// The first group that claims a pod.
    pub fn group_of(&self, name: &str, tier: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.claims(name, tier))
    }
}

impl Group {
    const fn named(name: &'static str, pods: &'static [&'static str]) -> Group {
        let (required, members) = (pods.len(), Members::Named(pods));
        Group::of(name, members, required)
    }

    const fn tier(name: &'static str, required: usize) -> Group {
        Group::of(name, Members::Tier(name), required)
    }

    const fn of(name: &'static str, members: Members, required: usize) -> Group {
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
            // What becomes of nodes, launch order and room in a second start is for the tests on a real cluster.
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

    /// A node of this world.
    pub fn create_node(&self, cluster: &mut Cluster, name: &str) {
        let capacity = if self.reservation { reservation::CAPACITY } else { &[] };
        create_node_with(cluster, name, capacity);
    }

    /// The sequence that faults strike, as it was written at first.
    pub fn main_sequence(&self) -> Value {
        let key = self.rules[0].key();
        let mut all = (self.manifests)().into_iter();
        all.find(|(kind, object)| Key::of(*kind, object) == key).map(|(_, object)| object).unwrap_or_default()
    }

    /// Creates a pod again that no workload makes. It gets no gate if its sequence was deleted: the gate would hold it for ever.
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

/// A node as others leave it: with a label and a taint that are not ours, and keep nobody away.
pub fn create_node(cluster: &mut Cluster, name: &str) {
    create_node_with(cluster, name, &[]);
}

/// The same, with so much of some resources, and as usual of the others.
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

/// A pod that our gate holds. Databases run for a while before they are ready, and all but the first for longer: meanwhile
/// their group is half there.
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

/// What a workload makes its pods of.
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

/// Whether there is a note of a sequence.
fn has_note(cluster: &Cluster, rule: &SequenceRule) -> bool {
    let uid = cluster.store.get(&rule.key()).map(|sequence| sequence.uid().to_owned()).unwrap_or_default();
    let mut notes = cluster.store.list(Kind::ConfigMap, Some(names::OWN_NAMESPACE));
    notes.any(|(key, _)| key.name.ends_with(&uid))
}

/// Whether a pod has arrived, as a person would judge by `kubectl get pods`.
pub fn has_arrived(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|is| is["type"] == "Ready" && is["status"] == "True");
    pod["metadata"]["deletionTimestamp"].is_null() && (ready || pod["status"]["phase"] == "Succeeded")
}

/// Whether the gate of sequences holds a pod.
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

/// Whether a Job says that it is done.
pub fn is_done(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|is| is["type"] == "Complete" && is["status"] == "True")
}
