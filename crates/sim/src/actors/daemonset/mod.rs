//! DaemonSets: one pod on each eligible node.
//!
//! - [`nodes`]: eligible nodes, and the pod for a node. [`steps`]: pods to create and delete. [`status`]: the status.

mod nodes;
mod status;
mod steps;

use super::Actor;
use super::common::family::Family;
use super::common::revisions::{self, Naming};
use super::common::{number, pods, template};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Change, Key, Stored};
use jiff::Timestamp;
use nodes::{HASH, node_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAMING: Naming = Naming { label: HASH, hash: template::hash };

type StoredPod = (Key, Arc<Stored>);

pub struct DaemonSets {
    family: Family,
    /// How often a failed pod was replaced on a node, and when it may be replaced again.
    failures: BTreeMap<(Key, String), steps::Failures>,
}

impl Default for DaemonSets {
    fn default() -> DaemonSets {
        DaemonSets { family: Family::new(Kind::DaemonSet, Kind::Pod), failures: BTreeMap::new() }
    }
}

impl Actor for DaemonSets {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        self.family.on_change(change, cluster);
        if change.key.kind == Kind::DaemonSet && change.deleted {
            self.failures.retain(|(key, _), _| *key != change.key);
        }
        if change.key.kind == Kind::Node && nodes::matters(change) {
            for (key, _) in cluster.store.list(Kind::DaemonSet, None) {
                self.family.agenda.add(key.clone());
            }
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.family.agenda.pop(cluster.now()) {
            let Some(set) = cluster.store.get(&key).cloned() else { continue };
            // The status of a DaemonSet in deletion is not updated.
            if set.is_terminating() {
                continue;
            }
            match self.reconcile(cluster, &key, &set) {
                Ok(()) => self.family.succeeded(&key),
                Err(_) => self.family.retry(cluster.now(), key),
            }
        }
        self.family.agenda.next_moment()
    }
}

/// The inputs of one reconciliation.
struct View<'a> {
    key: &'a Key,
    set: &'a Stored,
    /// The hash of the current template.
    hash: String,
    now: Timestamp,
    nodes: Vec<Arc<Stored>>,
    /// The pods by the node that they are bound or pinned to.
    pods: BTreeMap<String, Vec<StoredPod>>,
}

impl View<'_> {
    fn min_ready(&self) -> i64 {
        number(&self.set["spec"]["minReadySeconds"])
    }

    fn is_available(&self, pod: &Stored) -> bool {
        pods::is_available(pod, self.min_ready(), self.now)
    }

    fn is_updated(&self, pod: &Stored) -> bool {
        pod["metadata"]["labels"][HASH] == *self.hash
    }
}

impl DaemonSets {
    fn reconcile(&mut self, cluster: &mut Cluster, key: &Key, set: &Stored) -> Result<(), Refusal> {
        let members = self.family.claim(cluster, key, set, |_| true);
        let in_use: BTreeSet<String> =
            members.iter().map(|(_, pod)| nodes::hash_label(pod).to_owned()).collect();
        let mut collisions = number(&set["status"]["collisionCount"]);
        let revision = revisions::current(cluster, key, set, &NAMING, &mut collisions)?;
        let view = View {
            key,
            set,
            hash: revision.label(HASH).to_owned(),
            now: cluster.now(),
            nodes: cluster.store.list(Kind::Node, None).map(|(_, node)| node.clone()).collect(),
            pods: by_node(members),
        };
        let plan = steps::plan(&view, &mut self.failures);
        if let Some(at) = plan.again {
            self.family.agenda.add_at(at, key.clone());
        }
        let outcome = plan.carry_out(cluster, &view);
        let mut in_use = in_use;
        in_use.insert(view.hash.clone());
        revisions::forget(cluster, set, &in_use, Some(HASH));
        status::write(cluster, &view, collisions);
        let ready = view.pods.values().flatten().map(|(_, pod)| &pod.value);
        if let Some(at) = pods::next_available(ready, view.min_ready(), view.now) {
            self.family.agenda.add_at(at, key.clone());
        }
        outcome
    }
}

/// The pods by node. Terminating pods that have ended do not count.
fn by_node(members: Vec<StoredPod>) -> BTreeMap<String, Vec<StoredPod>> {
    let mut by_node: BTreeMap<String, Vec<StoredPod>> = BTreeMap::new();
    for (key, pod) in members {
        if pod.is_terminating() && pods::is_over(&pod) {
            continue;
        }
        if let Some(node) = node_of(&pod) {
            by_node.entry(node.to_owned()).or_default().push((key, pod));
        }
    }
    by_node
}
