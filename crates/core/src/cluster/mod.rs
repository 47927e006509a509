//! The known state of a cluster: facts about pods, workloads, namespaces and nodes, how fresh they are, and the writes in
//! flight. This module does not depend on any feature. Features count and decide on these facts; the index tells them what
//! changed.
//!
//! ```text
//! pods ──owner──▶ owners ──parent──▶ owners        (desired number of pods)
//!   └────node──▶ nodes
//! ```

mod in_flight;
mod labelled;
mod nodes;
mod owners;
mod pods;
pub mod table;

pub use in_flight::{InFlight, Refusal, Target, WriteEffect};
pub use pods::Change;

use crate::{
    Uid,
    facts::{Namespace, Owner, OwnerKind, Pod},
    freshness::Freshness,
    intern::Interner,
    kind::Kind,
    node::{Drivers, Node},
    selector::Selector,
};
use labelled::Labelled;
use nodes::Nodes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::{fact, tables};

#[derive(Debug, Default)]
pub struct Cluster {
    /// Boxed: a third of the slots in the nodes of a `BTreeMap` are empty, and an entry is large.
    pods: BTreeMap<Uid, Box<PodEntry>>,
    pod_names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Uid>>,
    pod_labels: Labelled,
    pods_of: BTreeMap<Uid, BTreeSet<Uid>>,

    owners: BTreeMap<Uid, OwnerEntry>,
    owner_names: BTreeMap<(Arc<str>, OwnerKind, Arc<str>), Uid>,
    children_of: BTreeMap<Uid, BTreeSet<Uid>>,
    template_labels: Labelled,
    /// Counts workloads that appear, disappear, or change in more than their desired number of pods.
    owner_changes: u64,

    namespaces: BTreeMap<Arc<str>, Namespace>,
    nodes: Nodes,

    pub freshness: Freshness,
    pub in_flight: InFlight,
    interner: Interner,
}

/// A group that a pod belongs to. Stored with the pod: a separate map would cost 50 bytes per pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Membership {
    /// The uid of the sequence.
    pub sequence: Uid,
    pub group: u32,
}

/// A pod with derived data.
#[derive(Debug)]
pub struct PodEntry {
    pub pod: Pod,
    /// All groups that select the pod, sorted. Of each sequence, the first group wins.
    pub memberships: Box<[Membership]>,
    /// The topmost workload of the pod, if its kind is watched.
    pub root: Option<Uid>,
    /// False for a pod of a ReplicaSet that its Deployment has replaced.
    pub current: bool,
}

#[derive(Debug)]
struct OwnerEntry {
    owner: Owner,
    /// Value of `Cluster::owner_changes` when the placement last changed.
    placement_since: u64,
}

impl Cluster {
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// Whether sequences of namespace `from` may select pods of `namespace`: it is their own, or it permits them.
    pub fn permits(&self, namespace: &str, from: &str) -> bool {
        namespace == from || self.namespace(namespace).is_some_and(|there| there.allows(from))
    }

    /// Returns the previous facts.
    pub fn put_namespace(&mut self, namespace: Namespace) -> Option<Namespace> {
        self.namespaces.insert(namespace.name.clone(), namespace)
    }

    pub fn remove_namespace(&mut self, name: &str) -> Option<Namespace> {
        self.namespaces.remove(name)
    }

    /// Returns a superset of the pods that the selector matches.
    pub fn pods_to_match(&self, namespace: &str, selector: &Selector) -> Vec<Uid> {
        self.pod_labels.candidates(namespace, selector)
    }

    /// Returns a superset of the workloads whose pod template the selector matches.
    pub fn owners_to_match(&self, namespace: &str, selector: &Selector) -> Vec<Uid> {
        self.template_labels.candidates(namespace, selector)
    }

    /// Resets the version of a pod or workload, so that its next view counts as newer.
    pub fn forget_version_of(&mut self, uid: Uid) {
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.pod.version = 0;
        }
        if let Some(entry) = self.owners.get_mut(&uid) {
            entry.owner.version = 0;
        }
    }

    /// The namespace of a pod or workload.
    pub fn namespace_of(&self, uid: Uid) -> Option<&Arc<str>> {
        let owner = || self.owner(uid).map(|owner| &owner.namespace);
        self.pod(uid).map(|pod| &pod.namespace).or_else(owner)
    }
}

fact!(Box<PodEntry>, pod.version);
fact!(OwnerEntry, owner.version, |entry, kind| Kind::of_owner(entry.owner.kind) == Some(kind));
fact!(Namespace, version);
fact!(Node, version);
fact!(Drivers, version);

tables! { Cluster:
    Pod => pods;
    Deployment | ReplicaSet | StatefulSet | DaemonSet | Job | CronJob => owners;
    Namespace => namespaces;
    Node => nodes.by_name;
    CsiNode => nodes.drivers;
}
