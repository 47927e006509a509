//! The scheduler: binds pods to nodes.
//!
//! - [`node`]: nodes and pods with their totals. [`requests`]: resource amounts. [`neighbours`]: rules about other pods.
//! - [`filter`]: whether a pod fits. [`explain`]: why it does not. [`preempt`]: preemption.
//! - [`queue`]: the order of pods, and pods that wait for a change.
//!
//! A pod is bound to the least loaded node that accepts it. Nodes are sorted by load, so for most pods one check suffices.

mod explain;
mod filter;
mod neighbours;
mod node;
mod preempt;
mod queue;
mod requests;

use super::Actor;
use super::common::placement;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods::{self, set_condition};
use crate::store::{Change, Key, Store, Stored};
use explain::Diagnosis;
use jiff::Timestamp;
use neighbours::{Demands, Neighbours};
use node::{Needs, Node};
use queue::{Blocked, Queue};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of the only scheduler. Pods with another scheduler name stay pending.
const NAME: &str = "default-scheduler";

#[derive(Default)]
pub struct Scheduler {
    nodes: BTreeMap<Arc<str>, Node>,
    /// Nodes by load, least loaded first.
    ranking: BTreeSet<(i128, usize, Arc<str>)>,
    /// The node of each bound pod.
    places: BTreeMap<Key, Arc<str>>,
    /// Nodes whose kubelets have not reported yet.
    unregistered: BTreeSet<Arc<str>>,
    /// Nodes with taints that only discourage pods (PreferNoSchedule).
    discouraging: BTreeSet<Arc<str>>,
    /// Pods that are bound to missing nodes.
    strays: BTreeMap<Arc<str>, BTreeMap<Key, Arc<Needs>>>,
    /// Nominated pods with their nodes.
    nominated: BTreeMap<Key, Arc<str>>,
    neighbours: Neighbours,
    queue: Queue,
    /// Nodes that may accept more pods than before.
    improved: BTreeSet<Arc<str>>,
    /// A counter of changes of nodes and pods. Earlier results may be outdated after a change.
    moves: u64,
    /// Results for pods of each class, valid for this value of `moves`.
    found: (u64, BTreeMap<u64, (String, Blocked)>),
}

impl Actor for Scheduler {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        match change.key.kind {
            Kind::Pod => self.heard_of_pod(change, &cluster.store),
            Kind::Node => self.heard_of_node(change, &cluster.store),
            Kind::PersistentVolumeClaim => self.queue.wake(|blocked| blocked.by_volume),
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        // Nodes and pods may be created at the same time. Their kubelets report first, so that no pod has to wait.
        for name in std::mem::take(&mut self.unregistered) {
            if let Some(node) = cluster.store.find(Kind::Node, "", &name).cloned() {
                self.describe_node(&name, &node, &cluster.store);
            }
        }
        loop {
            for name in std::mem::take(&mut self.improved) {
                if let Some(node) = self.nodes.get(&name) {
                    self.queue.wake_for(node);
                }
            }
            let needs = self.queue.pop()?;
            self.schedule(cluster, needs);
        }
    }
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn is_gated(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

impl Scheduler {
    fn heard_of_pod(&mut self, change: &Change, store: &Store) {
        let (key, pod) = (&change.key, &change.object);
        if change.deleted || is_over(pod) {
            self.queue.remove(key);
            self.nominate(key, None);
            return self.leave(key, store);
        }
        if !node_of(pod).is_empty() {
            self.queue.remove(key);
            self.nominate(key, None);
            let known = self.places.get(key).is_some_and(|place| **place == *node_of(pod));
            let same = change.before.as_ref().is_some_and(|old| {
                old.is_terminating() == pod.is_terminating()
                    && old["metadata"]["labels"] == pod["metadata"]["labels"]
            });
            if !(known && same) {
                self.leave(key, store);
                self.arrive(Arc::new(Needs::read(key, pod)), node_of(pod), store);
            }
            return;
        }
        let nominated = pod["status"]["nominatedNodeName"].as_str();
        if self.nominated.get(key).map(|name| &**name) != nominated {
            let needs = nominated.map(|node| (Arc::new(Needs::read(key, pod)), node));
            self.nominate(key, needs);
        }
        let ours = pod["spec"]["schedulerName"].as_str().unwrap_or(NAME) == NAME;
        if is_gated(pod) || pod.is_terminating() || !ours {
            return self.queue.remove(key);
        }
        let same = change.before.as_ref().is_some_and(|old| {
            old["metadata"]["generation"] == pod["metadata"]["generation"]
                && old["metadata"]["labels"] == pod["metadata"]["labels"]
                && old.uid() == pod.uid()
        });
        if !(same && self.queue.knows(key)) {
            self.queue.add(Arc::new(Needs::read(key, pod)));
        }
    }

    fn heard_of_node(&mut self, change: &Change, store: &Store) {
        let name = &change.key.name;
        self.moves += 1;
        if change.deleted {
            self.unregistered.remove(name);
            self.discouraging.remove(name);
            if let Some(node) = self.nodes.remove(name) {
                let (load, pods) = node.load();
                self.ranking.remove(&(load, pods, name.clone()));
                self.strays.insert(name.clone(), node.pods);
                self.neighbours.recount(&self.nodes, store);
            }
            return;
        }
        self.describe_node(name, &change.object, store);
    }

    fn describe_node(&mut self, name: &Arc<str>, object: &Arc<Stored>, store: &Store) {
        match node::is_unregistered(object) {
            true => drop(self.unregistered.insert(name.clone())),
            false => drop(self.unregistered.remove(name)),
        }
        match self.nodes.get_mut(name) {
            Some(node) => {
                let relabelled = node.object["metadata"]["labels"] != object["metadata"]["labels"];
                if !relabelled
                    && node.object["spec"] == object["spec"]
                    && node.unregistered == node::is_unregistered(object)
                    && node.object["status"]["allocatable"] == object["status"]["allocatable"]
                {
                    return;
                }
                self.rerank(name, |node| node.describe(object));
                if relabelled {
                    self.neighbours.recount(&self.nodes, store);
                }
            }
            None => {
                let node = Node::new(name.clone(), object);
                let (load, pods) = node.load();
                self.ranking.insert((load, pods, name.clone()));
                self.nodes.insert(name.clone(), node);
                // Pods may have been bound to the node before it existed.
                for needs in self.strays.remove(name).unwrap_or_default().into_values() {
                    self.arrive(needs, name, store);
                }
            }
        }
        match self.nodes.get(name).is_some_and(|node| node.discourages) {
            true => drop(self.discouraging.insert(name.clone())),
            false => drop(self.discouraging.remove(name)),
        }
        self.improved.insert(name.clone());
        // With spread constraints, a new node affects all domains.
        self.queue.wake(|blocked| blocked.by_neighbours || blocked.without_nodes);
    }

    fn rerank(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Node)) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let (load, pods) = node.load();
        self.ranking.remove(&(load, pods, name.clone()));
        change(node);
        let (load, pods) = node.load();
        self.ranking.insert((load, pods, name.clone()));
    }

    fn arrive(&mut self, needs: Arc<Needs>, node: &str, store: &Store) {
        self.moves += 1;
        let name: Arc<str> = node.into();
        self.places.insert(needs.key.clone(), name.clone());
        match self.nodes.get(&name) {
            Some(node) => self.neighbours.moved(&needs, node, true, store),
            None => {
                drop(self.strays.entry(name.clone()).or_default().insert(needs.key.clone(), needs.clone()))
            }
        }
        self.rerank(&name, |node| node.put(needs));
        self.queue.wake(|blocked| blocked.by_neighbours);
    }

    fn leave(&mut self, key: &Key, store: &Store) {
        let Some(name) = self.places.remove(key) else { return };
        self.moves += 1;
        if let Some(strays) = self.strays.get_mut(&name) {
            strays.remove(key);
        }
        let mut gone = None;
        self.rerank(&name, |node| gone = node.take(key));
        if let (Some(needs), Some(node)) = (gone, self.nodes.get(&name)) {
            self.neighbours.moved(&needs, node, false, store);
            self.improved.insert(name);
            self.queue.wake(|blocked| blocked.by_neighbours);
        }
    }

    /// Nominates a pod for a node, and revokes its previous nomination.
    fn nominate(&mut self, key: &Key, whereto: Option<(Arc<Needs>, &str)>) {
        if let Some(before) = self.nominated.remove(key)
            && let Some(node) = self.nodes.get_mut(&before)
        {
            self.moves += 1;
            node.nominated.remove(key);
            self.improved.insert(before);
        }
        if let Some((needs, name)) = whereto {
            self.moves += 1;
            self.nominated.insert(key.clone(), name.into());
            if let Some(node) = self.nodes.get_mut(name) {
                node.nominated.insert(key.clone(), needs);
            }
        }
    }

    fn schedule(&mut self, cluster: &mut Cluster, needs: Arc<Needs>) {
        if self.found.0 == self.moves {
            let class = queue::class(&needs);
            if let Some((sentence, blocked)) = self.found.1.get(&class).cloned() {
                report(cluster, &needs.key, &sentence, &Room::AsBefore);
                return self.queue.wait(needs, class, blocked);
            }
        }
        let demands = match neighbours::asks(needs.spec()) || !self.neighbours.nobody_repels() {
            true => self.neighbours.demands(&needs, &self.nodes, &cluster.store),
            false => Demands::default(),
        };
        let missing = missing_volume(&cluster.store, &needs);
        if missing.is_none()
            && let Some(node) = self.choose(&needs, &demands)
        {
            if pods::bind(cluster, &needs.key, &node).is_ok() {
                self.nominate(&needs.key, None);
                self.arrive(needs, &node, &cluster.store);
            }
            return;
        }
        self.give_up(cluster, needs, &demands, missing);
    }

    /// The best node that accepts the pod.
    fn choose(&self, needs: &Needs, demands: &Demands) -> Option<Arc<str>> {
        let takes = |node: &&Node| filter::check(needs, demands, node).is_ok();
        if let Some(name) = self.nominated.get(&needs.key)
            && let Some(node) = self.nodes.get(name).filter(takes)
        {
            return Some(node.name.clone());
        }
        let spec = needs.spec();
        if let Some(names) = placement::named_nodes(spec) {
            return names
                .into_iter()
                .filter_map(|name| self.nodes.get(name))
                .find(takes)
                .map(|node| node.name.clone());
        }
        let mut ranked = self.ranking.iter().filter_map(|(_, _, name)| self.nodes.get(name)).filter(takes);
        let affinity = &spec["affinity"]["nodeAffinity"];
        let prefers = !affinity["preferredDuringSchedulingIgnoredDuringExecution"].is_null();
        if !prefers && self.discouraging.is_empty() {
            return ranked.next().map(|node| node.name.clone());
        }
        // Among equally preferred nodes, the least loaded comes first.
        let dislikes = |node: &Node| {
            let soft = node.taints().iter().filter(|taint| !placement::keeps_away(taint));
            soft.filter(|taint| !placement::tolerates(&spec["tolerations"], taint)).count() as i64
        };
        let best = ranked.min_by_key(|node| (dislikes(node), -placement::preference(spec, &node.object)));
        best.map(|node| node.name.clone())
    }

    fn give_up(
        &mut self,
        cluster: &mut Cluster,
        needs: Arc<Needs>,
        demands: &Demands,
        missing: Option<String>,
    ) {
        let mut diagnosis = Diagnosis { nodes: self.nodes.len(), before: missing, ..Diagnosis::default() };
        if diagnosis.before.is_none() {
            let named = placement::named_nodes(needs.spec());
            let looked_at = self.nodes.values().filter(|node| match &named {
                Some(names) => names.contains(&&*node.name),
                None => true,
            });
            for node in looked_at {
                if let Err(unfit) = filter::check(&needs, demands, node) {
                    diagnosis.unfit.insert(node.name.clone(), unfit);
                }
            }
            diagnosis.others = named.map(|_| "node(s) didn't satisfy plugin(s) [NodeAffinity]");
        }
        let (mut room, mut found) = (Room::None, None);
        if diagnosis.before.is_some() {
            // The real scheduler reports only this text if it stops before checking nodes.
            diagnosis.after = "not found".to_owned();
        } else if diagnosis.nodes > 0 {
            match preempt::plan(&needs, &self.nodes, &diagnosis, &cluster.store) {
                Ok(plan) => {
                    room = Room::On(plan.node.clone());
                    found = Some(plan);
                }
                Err(no) => {
                    diagnosis.after = format!("no new claims to deallocate, preemption: {}", no.words);
                    room = if no.not_tried { Room::AsBefore } else { Room::None };
                }
            }
        }
        let blocked = Blocked {
            by_volume: diagnosis.before.is_some(),
            by_neighbours: neighbours::asks(needs.spec()) || demands.is_any(),
            without_nodes: diagnosis.nodes == 0,
        };
        let sentence = diagnosis.sentence();
        let class = queue::class(&needs);
        if self.found.0 != self.moves {
            self.found = (self.moves, BTreeMap::new());
        }
        if !matches!(room, Room::On(_)) {
            self.found.1.insert(class, (sentence.clone(), blocked));
        }
        report(cluster, &needs.key, &sentence, &room);
        if let Some(plan) = found {
            self.make_room(cluster, &needs, plan);
        }
        self.queue.wait(needs, class, blocked);
    }

    /// Evicts the victims. The pod is retried after they are deleted.
    fn make_room(&mut self, cluster: &mut Cluster, needs: &Arc<Needs>, plan: preempt::PreemptionPlan) {
        for victim in &plan.victims {
            if victim.terminating {
                continue;
            }
            let stamp = cluster.stamp();
            let _ = cluster.update_status(&victim.key, |pod| {
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                    "message": format!("{NAME}: preempting to accommodate a higher priority pod"),
                    "lastTransitionTime": stamp, "observedGeneration": pod["metadata"]["generation"],
                });
                set_condition(&mut pod["status"], condition);
            });
            let _ = cluster.delete(&victim.key);
        }
        // Nominated pods with lower priority lose their nomination for this node.
        let lesser = self.nodes.get(&plan.node).into_iter().flat_map(|node| node.nominated.values());
        let lesser: Vec<Key> =
            lesser.filter(|other| other.priority < needs.priority).map(|other| other.key.clone()).collect();
        for key in lesser {
            let _ = cluster.update_status(&key, |pod| {
                if let Some(status) = pod["status"].as_object_mut() {
                    status.remove("nominatedNodeName");
                }
            });
        }
        self.nominate(&needs.key, Some((needs.clone(), &plan.node)));
    }
}

/// A PersistentVolumeClaim of the pod that does not exist or is terminating.
fn missing_volume(store: &Store, needs: &Needs) -> Option<String> {
    let volumes = needs.spec()["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    names.find_map(|name| match store.find(Kind::PersistentVolumeClaim, &needs.key.namespace, name) {
        None => Some(format!("persistentvolumeclaim {name:?} not found")),
        Some(claim) if claim.is_terminating() => {
            Some(format!("persistentvolumeclaim {name:?} is being deleted"))
        }
        Some(_) => None,
    })
}

/// The nomination after a failed attempt.
enum Room {
    On(Arc<str>),
    /// The previous nomination stays, because nothing new was tried.
    AsBefore,
    None,
}

/// Writes the unschedulable condition and the nomination into the status.
fn report(cluster: &mut Cluster, key: &Key, sentence: &str, room: &Room) {
    let Some(pod) = cluster.store.get(key).cloned() else { return };
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_said = conditions.any(|is| {
        is["type"] == "PodScheduled"
            && is["reason"] == "Unschedulable"
            && is["message"] == sentence
            && is["observedGeneration"] == pod["metadata"]["generation"]
    });
    let was = pod["status"]["nominatedNodeName"].as_str();
    let nominated = match room {
        Room::On(node) => Some(&**node),
        Room::AsBefore => was,
        Room::None => None,
    };
    if is_said && nominated == was {
        return;
    }
    let stamp = cluster.stamp();
    let _ = cluster.update_status(key, |pod| {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": sentence,
            "lastTransitionTime": stamp, "observedGeneration": pod["metadata"]["generation"],
        });
        set_condition(&mut pod["status"], condition);
        match (nominated, pod["status"].as_object_mut()) {
            (Some(node), _) => pod["status"]["nominatedNodeName"] = node.into(),
            (None, Some(status)) => drop(status.remove("nominatedNodeName")),
            (None, None) => {}
        }
    });
}
