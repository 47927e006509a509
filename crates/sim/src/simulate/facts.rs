//! All that is stored, as the controller sees it.

use crate::cluster::Cluster;
use crate::kinds::Kind;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::{CsiNodeObject, NamespaceObject, NodeObject, OwnerObject, PodObject};
use rollcall_core::facts::{OwnerKind, Pod};
use rollcall_core::index::{Index, Object};
use rollcall_core::sequence::Sequence;
use rollcall_core::sequence::spec::Scope;
use serde::de::DeserializeOwned;

const OWNERS: [(Kind, OwnerKind); 6] = [
    (Kind::Deployment, OwnerKind::Deployment),
    (Kind::ReplicaSet, OwnerKind::ReplicaSet),
    (Kind::StatefulSet, OwnerKind::StatefulSet),
    (Kind::DaemonSet, OwnerKind::DaemonSet),
    (Kind::Job, OwnerKind::Job),
    (Kind::CronJob, OwnerKind::CronJob),
];

pub fn index(cluster: &Cluster) -> Index {
    let sequences: Vec<_> =
        each::<SequenceObject>(cluster, Kind::PodSequence).map(|object| object.facts()).collect();
    let by_node = |sequence: &Sequence| sequence.spec.as_ref().is_ok_and(|spec| spec.scope == Scope::Node);
    let mut index = Index::default();
    if sequences.iter().any(by_node) {
        index = Index::of_full_mode();
        each::<NodeObject>(cluster, Kind::Node).for_each(|node| index.apply(Object::Node(node.facts())));
        let drivers = each::<CsiNodeObject>(cluster, Kind::CsiNode);
        drivers.for_each(|drivers| index.apply(Object::Drivers(drivers.facts())));
    }
    for namespace in each::<NamespaceObject>(cluster, Kind::Namespace) {
        index.apply(Object::Namespace(namespace.facts()));
    }
    for (kind, owner) in OWNERS {
        for object in each::<OwnerObject>(cluster, kind) {
            index.apply(Object::Owner(object.facts(owner)));
        }
    }
    pods(cluster).for_each(|pod| index.apply(Object::Pod(pod)));
    sequences.into_iter().for_each(|sequence| index.apply(Object::Sequence(sequence)));
    index
}

pub fn pods(cluster: &Cluster) -> impl Iterator<Item = Pod> {
    each::<PodObject>(cluster, Kind::Pod).map(|pod| pod.facts())
}

/// The objects of a kind, as far as they can be read.
pub fn each<T: DeserializeOwned>(cluster: &Cluster, kind: Kind) -> impl Iterator<Item = T> {
    let all = cluster.store.list(kind, None);
    all.filter_map(|(_, object)| T::deserialize(&object.value).ok())
}
