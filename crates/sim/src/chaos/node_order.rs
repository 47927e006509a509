//! Checks that pods of sequences in Node scope only run on nodes that are open for their group.

use super::history::Violation;
use super::node_mischief::is_closing_key;
use super::seen::Seen;
use super::world::{self, Guard, SequenceRule, World};
use crate::store::{Author, Change, Key};
use jiff::{SignedDuration, Timestamp};
use rollcall_api::names;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How long the label of new nodes blocks a node for members while sequences have not written to it.
const UNSEEN_FOR: SignedDuration = SignedDuration::from_secs(60);

/// A group: the index of its sequence's rule, and its position there.
type GroupPlace = (usize, usize);

/// The nodes, pods and sequences committed so far.
pub struct NodeOrder {
    world: &'static World,
    seen: Seen,
    pub clocks_are_wrong: bool,
    /// Whether news of pods may be late. The controller may then attribute pods of a deleted node to its successor of the
    /// same name.
    pub views_are_old: bool,
    /// The names of all nodes that ever existed.
    names: BTreeSet<String>,
    nodes: BTreeMap<String, NodeState>,
    pods: BTreeMap<Key, NodeOrderPod>,
    /// The uid of each existing sequence, by index of its rule.
    sequences: BTreeMap<usize, String>,
    /// Groups that have been complete on any node, including deleted nodes.
    complete_on_any_node: BTreeSet<GroupPlace>,
}

#[derive(Default)]
struct NodeState {
    uid: String,
    /// Whether an earlier node had the same name.
    came_back: bool,
    labelled: bool,
    driver: bool,
    /// Rollcall's labels and taints that foreign actors removed and that would block the node.
    marks_taken_by_others: BTreeSet<String>,
    /// When the node was created.
    since: Option<Timestamp>,
    /// Sequences, by index of their rule, that had written nothing here when the label of new nodes was removed.
    not_waited_for: BTreeSet<usize>,
    /// Since when each group has been complete on this node.
    complete: BTreeMap<GroupPlace, Timestamp>,
}

struct NodeOrderPod {
    uid: String,
    tier: String,
    node: Option<String>,
    arrived: bool,
    /// A terminating pod no longer counts.
    terminating: bool,
    /// Uids of the sequences for which controllers released the pod, by index of the rule.
    let_go: BTreeMap<usize, String>,
}

impl NodeOrder {
    pub fn new(world: &'static World, seen: Seen) -> NodeOrder {
        NodeOrder {
            world,
            seen,
            clocks_are_wrong: false,
            views_are_old: false,
            names: BTreeSet::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            sequences: BTreeMap::new(),
            complete_on_any_node: BTreeSet::new(),
        }
    }

    fn rules(&self) -> impl Iterator<Item = (usize, &'static SequenceRule, Guard)> + use<> {
        let all = self.world.rules.iter().enumerate();
        all.filter_map(|(place, rule)| Some((place, rule, rule.guard?)))
    }

    pub fn sequence(&mut self, change: &Change) {
        let found = self.rules().find(|(_, rule, _)| rule.key() == change.key);
        let Some((place, ..)) = found else { return };
        match change.after() {
            Some(sequence) => _ = self.sequences.insert(place, sequence.uid().to_owned()),
            None => _ = self.sequences.remove(&place),
        }
    }

    pub fn node(&mut self, change: &Change) {
        let name = &*change.key.name;
        let known = self.nodes.remove(name).filter(|known| known.uid == change.object.uid());
        let Some(object) = change.after() else { return };
        let mut node = known.unwrap_or_else(|| {
            let came_back = !self.names.insert(name.to_owned());
            let since = Some(change.at);
            NodeState { uid: object.uid().to_owned(), came_back, since, ..NodeState::default() }
        });
        node.labelled = object["metadata"]["labels"][world::AGENTS_LABEL] == "yes";
        let before = change.before.as_ref().map(|before| closing_keys(before)).unwrap_or_default();
        let after = closing_keys(object);
        if change.author == Author::User {
            node.marks_taken_by_others.extend(before.difference(&after).cloned());
        }
        node.marks_taken_by_others.retain(|key| !after.contains(key));
        let seen = before.contains(names::UNSEEN_LABEL) && !after.contains(names::UNSEEN_LABEL);
        let overdue = node.since.is_some_and(|since| change.at.duration_since(since) >= UNSEEN_FOR);
        if seen && overdue && matches!(change.author, Author::Controller(_)) {
            let journals = &object["metadata"]["annotations"];
            let late = self
                .sequences
                .iter()
                .filter(|(_, uid)| journals[format!("{}{uid}", names::JOURNAL_PREFIX).as_str()].is_null());
            node.not_waited_for.extend(late.map(|(place, _)| *place));
        }
        self.nodes.insert(name.to_owned(), node);
        self.record_complete_groups(name, change.at);
    }

    pub fn csi_node(&mut self, change: &Change) {
        let drivers = change.after().and_then(|csi| csi["spec"]["drivers"].as_array());
        let registered = drivers.into_iter().flatten().any(|driver| driver["name"] == world::DRIVER);
        if let Some(node) = self.nodes.get_mut(&*change.key.name) {
            node.driver = registered;
            self.record_complete_groups(&change.key.name, change.at);
        }
    }

    /// Records and checks a change of a pod by any author.
    pub fn pod(&mut self, change: &Change) -> Vec<Violation> {
        let key = &change.key;
        if &*key.namespace != world::NAMESPACE {
            return Vec::new();
        }
        let known = self.pods.remove(key).filter(|known| known.uid == change.object.uid());
        let (was_on, let_go) = known.map(|known| (known.node, known.let_go)).unwrap_or_default();
        let on =
            change.object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned);
        if let Some(pod) = change.after() {
            let (uid, tier) = (pod.uid().to_owned(), world::tier(pod).to_owned());
            let (node, arrived, terminating) = (on.clone(), world::has_arrived(pod), pod.is_terminating());
            self.pods.insert(key.clone(), NodeOrderPod { uid, tier, node, arrived, terminating, let_go });
        }
        let Some(node) = on else { return Vec::new() };
        let landed = was_on.is_none() && !change.deleted;
        let found = if landed { self.landed(key, &node, change.at) } else { Vec::new() };
        self.record_complete_groups(&node, change.at);
        found
    }

    /// Records the groups that are complete on a node now. A complete group stays complete.
    fn record_complete_groups(&mut self, name: &str, at: Timestamp) {
        let Some(node) = self.nodes.get(name) else { return };
        let mut new = Vec::new();
        for (place, rule, _) in self.rules() {
            for (position, group) in rule.groups.iter().enumerate() {
                if node.complete.contains_key(&(place, position)) {
                    continue;
                }
                let here =
                    self.pods.iter().filter(|(_, pod)| pod.node.as_deref() == Some(name) && !pod.terminating);
                let mut here = here
                    .filter(|(key, pod)| rule.group_of(&key.name, &pod.tier) == Some(position))
                    .peekable();
                let there = here.peek().is_some();
                let wanted = group.agents.is_some_and(|agents| !agents.labelled || node.labelled);
                let shown = !group.agents.is_some_and(|agents| agents.driver) || node.driver;
                if !here.all(|(_, pod)| pod.arrived) || wanted && !there || !shown {
                    break;
                }
                new.push((place, position));
            }
        }
        let node = self.nodes.get_mut(name).expect("the node exists");
        node.complete.extend(new.iter().map(|group| (*group, at)));
        self.complete_on_any_node.extend(new);
    }

    /// Why a node is not open for a group yet. Each group waits for the preceding one.
    fn too_early(&self, node: &NodeState, (place, position): GroupPlace, at: Timestamp) -> Option<String> {
        let earlier = position.checked_sub(1).filter(|_| !(node.came_back && self.views_are_old))?;
        let group = &self.world.rules[place].groups[earlier];
        let Some(since) = node.complete.get(&(place, earlier)) else {
            return Some(format!("before {} was complete there", group.name));
        };
        let settled = at.duration_since(*since).as_millis();
        let early = !self.clocks_are_wrong && settled < i128::from(group.settle_seconds * 1000);
        early.then(|| format!("{settled} ms after {} was complete there", group.name))
    }

    /// Checks the binding of a pod to a node.
    fn landed(&self, key: &Key, name: &str, at: Timestamp) -> Vec<Violation> {
        let (Some(pod), Some(node)) = (self.pods.get(key), self.nodes.get(name)) else { return Vec::new() };
        let mut found = Vec::new();
        for (place, rule, _) in self.rules() {
            let Some(position) = rule.group_of(&key.name, &pod.tier) else { continue };
            // Only pods that a controller released, for a sequence that still exists, are subject to its order.
            let ours = pod.let_go.get(&place).is_some_and(|uid| self.sequences.get(&place) == Some(uid));
            let own_marks = [rule.node_key(position), names::UNSEEN_LABEL.to_owned()];
            let waited_for = !node.not_waited_for.contains(&place);
            if !ours || !waited_for || own_marks.iter().any(|key| node.marks_taken_by_others.contains(key)) {
                continue;
            }
            let why = self.too_early(node, (place, position), at);
            found.extend(why.map(|why| broken("S1", format!("pod {} was bound to {name} {why}", key.name))));
        }
        found
    }

    /// Checks the release of a pod by a controller.
    pub fn released(&mut self, change: &Change, process: usize) -> Vec<Violation> {
        let (key, object) = (&change.key, &change.object);
        let (mut found, pinned) = (Vec::new(), pinned_to(object));
        for (place, rule, guard) in self.rules() {
            let Some(position) = rule.group_of(&key.name, world::tier(object)) else { continue };
            let Some(uid) = self.sequences.get(&place).filter(|uid| self.seen.knew(process, uid)).cloned()
            else {
                continue;
            };
            let why = match pinned {
                Some(name) => {
                    self.nodes.get(name).and_then(|node| self.too_early(node, (place, position), change.at))
                }
                None => position
                    .checked_sub(1)
                    .filter(|earlier| !self.complete_on_any_node.contains(&(place, *earlier)))
                    .map(|_| "before any node was open for it".to_owned()),
            };
            found.extend(why.map(|why| broken("S1", format!("pod {} was released {why}", key.name))));
            let missing =
                if pinned.is_none() { missing_constraint(rule, guard, position, object) } else { None };
            found.extend(
                missing.map(|what| broken("S2", format!("pod {} was released without {what}", key.name))),
            );
            if let Some(pod) = self.pods.get_mut(key) {
                pod.let_go.insert(place, uid);
            }
        }
        found
    }
}

fn broken(invariant: &'static str, detail: String) -> Violation {
    Violation { invariant, detail }
}

/// The keys of Rollcall's labels and taints that block a node.
fn closing_keys(node: &Value) -> BTreeSet<String> {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let taints = taints.filter_map(|taint| taint["key"].as_str());
    labels.chain(taints).filter(|key| is_closing_key(key)).map(str::to_owned).collect()
}

fn terms(pod: &Value) -> &[Value] {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    affinity["nodeSelectorTerms"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The only node that a DaemonSet pod can run on.
fn pinned_to(pod: &Value) -> Option<&str> {
    terms(pod).first()?["matchFields"][0]["values"][0].as_str()
}

/// The affinity or toleration that a released pod lacks. It must avoid nodes that are blocked for its group, and tolerate
/// nodes that are only blocked for later groups.
fn missing_constraint(rule: &SequenceRule, guard: Guard, position: usize, pod: &Value) -> Option<String> {
    let avoids = |key: &str| {
        let absent = |item: &Value| item["key"] == key && item["operator"] == "DoesNotExist";
        let term =
            |term: &Value| term["matchExpressions"].as_array().is_some_and(|all| all.iter().any(absent));
        !terms(pod).is_empty() && terms(pod).iter().all(term)
    };
    let own = (guard == Guard::Labels).then(|| rule.node_key(position));
    let mut avoided = own.into_iter().chain([names::UNSEEN_LABEL.to_owned()]);
    if let Some(key) = avoided.find(|key| !avoids(key)) {
        return Some(format!("affinity to nodes without {key}"));
    }
    let tolerates = |key: &String| {
        let tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
        tolerations.into_iter().any(|is| is["key"] == key.as_str() && is["operator"] == "Exists")
    };
    let later = (position + 1..rule.groups.len()).filter(|later| rule.groups[*later].agents.is_none());
    let mut later = later.filter(|_| guard == Guard::Taints).map(|later| rule.node_key(later));
    later.find(|key| !tolerates(key)).map(|key| format!("toleration of {key}"))
}
