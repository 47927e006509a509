//! The queue: pods by priority, then by arrival; and unschedulable pods that wait for a change.

use super::filter;
use super::neighbours::Demands;
use super::node::{Needs, Node};
use crate::store::Key;
use rollcall_core::hash::fnv1a64;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Rank = (Reverse<i64>, u64);

/// Obstacles of a pod other than resources and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    pub by_volume: bool,
    pub by_neighbours: bool,
    pub without_nodes: bool,
}

#[derive(Debug, Default)]
pub struct Queue {
    ranks: BTreeMap<Key, Rank>,
    active: BTreeMap<Rank, Arc<Needs>>,
    /// Unschedulable pods, grouped by class.
    waiting: BTreeMap<u64, Class>,
    waits_in: BTreeMap<Key, u64>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct Class {
    members: BTreeMap<Rank, Arc<Needs>>,
    blocked: Blocked,
}

impl Queue {
    pub fn knows(&self, key: &Key) -> bool {
        self.ranks.contains_key(key)
    }

    pub fn add(&mut self, needs: Arc<Needs>) {
        let before = self.ranks.get(&needs.key).copied();
        self.remove(&needs.key);
        let rank = match before {
            Some((_, arrival)) => (Reverse(needs.priority), arrival),
            None => {
                self.arrivals += 1;
                (Reverse(needs.priority), self.arrivals)
            }
        };
        self.ranks.insert(needs.key.clone(), rank);
        self.active.insert(rank, needs);
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(rank) = self.ranks.remove(key) else { return };
        self.active.remove(&rank);
        if let Some(id) = self.waits_in.remove(key)
            && let Some(class) = self.waiting.get_mut(&id)
        {
            class.members.remove(&rank);
            if class.members.is_empty() {
                self.waiting.remove(&id);
            }
        }
    }

    pub fn pop(&mut self) -> Option<Arc<Needs>> {
        self.active.pop_first().map(|(_, needs)| needs)
    }

    /// Records that a pod is unschedulable for now.
    pub fn wait(&mut self, needs: Arc<Needs>, id: u64, blocked: Blocked) {
        let Some(rank) = self.ranks.get(&needs.key) else { return };
        self.waits_in.insert(needs.key.clone(), id);
        let class = self.waiting.entry(id).or_default();
        class.blocked = blocked;
        class.members.insert(*rank, needs);
    }

    /// Requeues pods that may benefit from a change.
    pub fn wake(&mut self, which: impl Fn(Blocked) -> bool) {
        let ids: Vec<u64> =
            self.waiting.iter().filter(|(_, class)| which(class.blocked)).map(|(id, _)| *id).collect();
        for class in ids.into_iter().filter_map(|id| self.waiting.remove(&id)) {
            for (rank, needs) in class.members {
                self.waits_in.remove(&needs.key);
                self.active.insert(rank, needs);
            }
        }
    }

    /// Requeues pods after a node has improved: of each class, as many as the node can take now.
    pub fn wake_for(&mut self, node: &Node) {
        let mut awake = Vec::new();
        for (id, class) in &self.waiting {
            let mut filled: Option<Node> = None;
            for (rank, needs) in &class.members {
                let room = filled.as_ref().unwrap_or(node);
                if filter::check(needs, &Demands::default(), room).is_err() {
                    break;
                }
                awake.push((*id, *rank));
                filled.get_or_insert_with(|| node.clone()).put(needs.clone());
            }
        }
        for (id, rank) in awake {
            let Some(class) = self.waiting.get_mut(&id) else { continue };
            if let Some(needs) = class.members.remove(&rank) {
                self.waits_in.remove(&needs.key);
                self.active.insert(rank, needs);
            }
            if class.members.is_empty() {
                self.waiting.remove(&id);
            }
        }
    }
}

/// The class of a pod. The scheduler treats pods of the same class alike.
pub fn class(needs: &Needs) -> u64 {
    let spec = needs.spec();
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let claims: BTreeSet<&str> =
        volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str()).collect();
    // A nominated pod has a class of its own.
    let nominated = needs.pod["status"]["nominatedNodeName"].as_str().map(|_| &*needs.key.name);
    let amounts = &needs.requests;
    let whole = json!([
        &*needs.key.namespace,
        needs.labels(),
        needs.priority,
        spec["preemptionPolicy"],
        nominated,
        spec["nodeSelector"],
        spec["affinity"],
        spec["tolerations"],
        spec["topologySpreadConstraints"],
        amounts.cpu,
        amounts.memory,
        amounts.ephemeral,
        amounts.others,
        format!("{:?}", needs.ports),
        claims,
    ]);
    fnv1a64(whole.to_string().as_bytes())
}
