//! Pods, by uid, name, labels and owner.

use super::{Cluster, Membership, PodEntry};
use crate::{
    Uid,
    facts::{Owner, OwnerKind, Pin, Pod},
    kind::Kind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What has changed about a pod, so that the data derived from it can be updated.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub labels: bool,
    pub owner: bool,
}

impl Cluster {
    pub fn pod(&self, uid: Uid) -> Option<&Pod> {
        self.pods.get(&uid).map(|entry| &entry.pod)
    }

    pub fn pod_named(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let uid = self.pod_names.get(namespace)?.get(name)?;
        self.pod(*uid)
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|entry| &entry.pod)
    }

    pub fn pod_entry(&self, uid: Uid) -> Option<&PodEntry> {
        self.pods.get(&uid).map(|entry| &**entry)
    }

    pub fn set_memberships(&mut self, uid: Uid, memberships: Box<[Membership]>) {
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.memberships = memberships;
        }
    }

    /// Whether a write to the pod is in flight.
    pub fn is_writing_pod(&self, uid: Uid) -> bool {
        self.in_flight.on(Kind::Pod, uid).is_some()
    }

    /// The gate that a write in flight removes from the pod.
    pub fn gate_being_dropped(&self, uid: Uid) -> Option<&Arc<str>> {
        self.in_flight.on(Kind::Pod, uid)?.drops_gate.as_ref()
    }

    /// Stores a new or changed pod.
    pub fn put_pod(&mut self, mut pod: Pod) -> Change {
        self.share(&mut pod);
        match self.pods.remove(&pod.uid) {
            Some(known) => self.update_pod(known, pod),
            None => self.insert_pod(pod),
        }
    }

    fn insert_pod(&mut self, pod: Pod) -> Change {
        let uid = pod.uid;
        self.pod_names.entry(pod.namespace.clone()).or_default().insert(pod.name.clone(), uid);
        self.pod_labels.insert(&pod.namespace, &pod.labels, uid);
        if let Some(owner) = pod.owner {
            self.pods_of.entry(owner.uid).or_default().insert(uid);
        }
        self.index_pin(&pod, true);
        self.index_nomination(&pod, true);
        let entry = PodEntry { pod, memberships: Box::default(), root: None, current: true };
        self.pods.insert(uid, Box::new(entry));
        self.resolve_root(uid);
        Change { labels: true, owner: true }
    }

    fn update_pod(&mut self, mut entry: Box<PodEntry>, pod: Pod) -> Change {
        let uid = pod.uid;
        let relabelled = entry.pod.labels != pod.labels;
        let adopted = entry.pod.owner != pod.owner;
        if relabelled {
            self.pod_labels.remove(&pod.namespace, &entry.pod.labels, uid);
            self.pod_labels.insert(&pod.namespace, &pod.labels, uid);
        }
        if adopted {
            self.leave_owner(&entry.pod);
            if let Some(owner) = pod.owner {
                self.pods_of.entry(owner.uid).or_default().insert(uid);
            }
        }
        // The watch can show that a write is done before its answer arrives, or instead of it.
        if self.gate_being_dropped(uid).is_some_and(|gate| !pod.gates.contains(gate)) {
            self.in_flight.end_of(Kind::Pod, uid);
        }
        if entry.pod.gates != pod.gates {
            self.in_flight.forgive(uid);
        }
        if entry.pod.pin() != pod.pin() {
            self.index_pin(&entry.pod, false);
            self.index_pin(&pod, true);
        }
        if (&entry.pod.nominated, &entry.pod.node) != (&pod.nominated, &pod.node) {
            self.index_nomination(&entry.pod, false);
            self.index_nomination(&pod, true);
        }
        entry.pod = pod;
        self.pods.insert(uid, entry);
        if adopted {
            self.resolve_root(uid);
        }
        Change { labels: relabelled, owner: adopted }
    }

    /// Returns the removed pod.
    pub fn remove_pod(&mut self, uid: Uid) -> Option<Pod> {
        let PodEntry { pod, .. } = *self.pods.remove(&uid)?;
        self.in_flight.end_of(Kind::Pod, uid);
        self.in_flight.forgive(uid);
        self.pod_labels.remove(&pod.namespace, &pod.labels, uid);
        self.leave_owner(&pod);
        self.index_pin(&pod, false);
        self.index_nomination(&pod, false);
        if let Some(names) = self.pod_names.get_mut(&pod.namespace) {
            if names.get(&pod.name) == Some(&uid) {
                names.remove(&pod.name);
            }
            if names.is_empty() {
                self.pod_names.remove(&pod.namespace);
            }
        }
        Some(pod)
    }

    /// Determines the topmost workload of the pod, and whether the pod belongs to its newest revision.
    pub fn resolve_root(&mut self, uid: Uid) {
        let Some(entry) = self.pods.get(&uid) else { return };
        let (root, current) = match entry.pod.owner {
            None => (None, true),
            Some(owner) => match owner.kind {
                OwnerKind::Other | OwnerKind::CronJob => (None, true),
                OwnerKind::Deployment | OwnerKind::StatefulSet | OwnerKind::DaemonSet | OwnerKind::Job => {
                    (Some(owner.uid), true)
                }
                OwnerKind::ReplicaSet => self.root_of_replica_set(owner.uid),
            },
        };
        let entry = self.pods.get_mut(&uid).expect("looked up above");
        (entry.root, entry.current) = (root, current);
    }

    fn root_of_replica_set(&self, uid: Uid) -> (Option<Uid>, bool) {
        // Until the ReplicaSet is seen, its pods count under its own uid.
        let Some(replica_set) = self.owner(uid) else { return (Some(uid), true) };
        match replica_set.parent {
            Some(parent) if parent.kind == OwnerKind::Deployment => {
                let newest = self.owner(parent.uid).and_then(|deployment| deployment.revision.as_ref());
                (Some(parent.uid), newest.is_some() && newest == replica_set.revision.as_ref())
            }
            Some(_) | None => (Some(uid), true),
        }
    }

    /// All pods of a workload, including those of its ReplicaSets or Jobs.
    pub fn pods_below(&self, owner: Uid) -> BTreeSet<Uid> {
        let makers = std::iter::once(owner).chain(self.children_of(owner));
        makers.filter_map(|maker| self.pods_of.get(&maker)).flatten().copied().collect()
    }

    /// The workloads of a pod, from its owner upwards. Of the runs of a CronJob, only the latest leads to the CronJob.
    pub fn workloads_of(&self, pod: &Pod) -> impl Iterator<Item = &Owner> {
        let mut next = pod.owner.and_then(|owner| self.owner(owner.uid));
        std::iter::from_fn(move || {
            let owner = next.take()?;
            next = self.parent_of(owner);
            Some(owner)
        })
    }

    fn index_pin(&mut self, pod: &Pod, there: bool) {
        let Some(Pin::Hostname(host)) = pod.pin() else { return };
        index_by_node(&mut self.nodes.pinned, host, pod.uid, there);
    }

    fn index_nomination(&mut self, pod: &Pod, there: bool) {
        let Some(node) = pod.nominated.as_ref().filter(|_| !pod.is_bound()) else { return };
        index_by_node(&mut self.nodes.nominated, node, pod.uid, there);
    }

    /// Unbound pods that are nominated for the node: the scheduler counts them as if they ran there.
    pub fn nominated_for(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.nodes.nominated.get(node).into_iter().flatten();
        pods.filter_map(|uid| self.pod(*uid))
    }

    fn leave_owner(&mut self, pod: &Pod) {
        let Some(owner) = pod.owner else { return };
        if let Some(pods) = self.pods_of.get_mut(&owner.uid) {
            pods.remove(&pod.uid);
            if pods.is_empty() {
                self.pods_of.remove(&owner.uid);
            }
        }
    }

    fn share(&mut self, pod: &mut Pod) {
        pod.namespace = self.interner.shared(&pod.namespace);
        pod.node = pod.node.as_ref().map(|node| self.interner.shared(node));
        pod.nominated = pod.nominated.as_ref().map(|node| self.interner.shared(node));
        pod.labels = self.interner.labels(&pod.labels);
        for gate in &mut pod.gates {
            *gate = self.interner.shared(gate);
        }
        pod.gates.shrink_to_fit();
        if let Some(trouble) = &mut pod.trouble {
            trouble.what = self.interner.shared(&trouble.what);
            trouble.container = trouble.container.as_ref().map(|name| self.interner.shared(name));
        }
    }
}

fn index_by_node(index: &mut BTreeMap<Arc<str>, BTreeSet<Uid>>, node: &Arc<str>, pod: Uid, there: bool) {
    let pods = index.entry(node.clone()).or_default();
    match there {
        true => pods.insert(pod),
        false => pods.remove(&pod),
    };
    if pods.is_empty() {
        index.remove(node);
    }
}
