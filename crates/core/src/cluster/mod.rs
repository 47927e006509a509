//! What is known of a cluster: facts about pods, workloads, namespaces and nodes, how new they are, and what we are writing.
//! No feature is known here. The features count and decide on these facts; the index tells them what has changed.
//!
//! ```text
//! pods ──owner──▶ owners ──parent──▶ owners        (who wants how many)
//!   └────node──▶ nodes
//! ```

mod in_flight;
mod labelled;
mod nodes;
mod owners;
mod pods;
pub mod table;

pub use in_flight::{Effect, InFlight, Refusal, Target};
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
    /// Boxed: a third of the places in the nodes of a map are empty, and an entry is large.
    pods: BTreeMap<Uid, Box<PodEntry>>,
    pod_names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Uid>>,
    pod_labels: Labelled,
    pods_of: BTreeMap<Uid, BTreeSet<Uid>>,

    owners: BTreeMap<Uid, OwnerEntry>,
    owner_names: BTreeMap<(Arc<str>, OwnerKind, Arc<str>), Uid>,
    children_of: BTreeMap<Uid, BTreeSet<Uid>>,
    template_labels: Labelled,
    /// How often a workload came, went or changed in more than its number.
    owner_changes: u64,

    namespaces: BTreeMap<Arc<str>, Namespace>,
    nodes: Nodes,

    pub freshness: Freshness,
    pub in_flight: InFlight,
    interner: Interner,
}

/// A group that claims a pod. It is kept with the pod: a map of its own would cost 50 bytes for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The uid of the object that has the group.
    pub sequence: Uid,
    pub group: u32,
}

/// A pod, and what was found out about it.
#[derive(Debug)]
pub struct PodEntry {
    pub pod: Pod,
    /// All claims, sorted; the first one of each claimant wins.
    pub claims: Box<[Claim]>,
    /// The workload that it belongs to at the top, if that is of a kind that is watched.
    pub root: Option<Uid>,
    /// Not of a ReplicaSet that its Deployment has replaced.
    pub current: bool,
}

#[derive(Debug)]
struct OwnerEntry {
    owner: Owner,
    /// Changes when it wants its pods on other nodes.
    placement_since: u64,
}

impl Cluster {
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// Whether sequences of namespace `from` may claim pods in another one, or it is their own.
    pub fn permits(&self, namespace: &str, from: &str) -> bool {
        namespace == from || self.namespace(namespace).is_some_and(|there| there.allows(from))
    }

    /// Returns what was known before.
    pub fn put_namespace(&mut self, namespace: Namespace) -> Option<Namespace> {
        self.namespaces.insert(namespace.name.clone(), namespace)
    }

    pub fn remove_namespace(&mut self, name: &str) -> Option<Namespace> {
        self.namespaces.remove(name)
    }

    /// A superset of the pods that a selector matches.
    pub fn pods_to_match(&self, namespace: &str, selector: &Selector) -> Vec<Uid> {
        self.pod_labels.candidates(namespace, selector)
    }

    /// A superset of the workloads whose template a selector matches.
    pub fn owners_to_match(&self, namespace: &str, selector: &Selector) -> Vec<Uid> {
        self.template_labels.candidates(namespace, selector)
    }

    /// The next view of a pod or a workload counts as newer, whatever its version.
    pub fn forget_version_of(&mut self, uid: Uid) {
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.pod.version = 0;
        }
        if let Some(entry) = self.owners.get_mut(&uid) {
            entry.owner.version = 0;
        }
    }

    /// The namespace of a pod or a workload.
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
