//! Builds the core's index from the stored objects, as the controller does.

use crate::cluster::Cluster;
use crate::kinds::Kind;
use rollcall_api::launch::BarrierObject;
use rollcall_api::load::Loader;
use rollcall_api::watch::PodObject;
use rollcall_core::facts::Pod;
use rollcall_core::index::{Index, Object};
use rollcall_core::kind::Kind as Watched;
use rollcall_core::launch::barrier_target;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub fn index(cluster: &Cluster) -> Index {
    let index = if cluster.admission.installed { Index::of_full_mode() } else { Index::default() };
    let mut loader = Loader::into_index(index);
    // Notes of deleted sequences do not matter in a simulation.
    for kind in Watched::ALL.iter().filter(|kind| **kind != Watched::Note) {
        let Some(stored) = Kind::of_watched(*kind) else { continue };
        cluster.store.list(stored, None).for_each(|(_, object)| loader.add_json(*kind, &object.value));
    }
    let mut index = loader.finish(cluster.now());
    for pod in pods(cluster).filter(|pod| pod.launch.is_some()) {
        let target = barrier_target(&pod);
        let there = cluster.store.find(Kind::ConfigMap, &target.namespace, &target.name);
        match there.and_then(|there| BarrierObject::deserialize(&there.value).ok()) {
            Some(barrier) => index.apply(Object::Barrier(barrier.facts(pod.uid))),
            None => index.barrier_absent(pod.uid),
        }
    }
    index
}

pub fn pods(cluster: &Cluster) -> impl Iterator<Item = Pod> {
    each::<PodObject>(cluster, Kind::Pod).map(|pod| pod.facts())
}

/// The objects of a kind that can be parsed.
pub fn each<T: DeserializeOwned>(cluster: &Cluster, kind: Kind) -> impl Iterator<Item = T> {
    let all = cluster.store.list(kind, None);
    all.filter_map(|(_, object)| T::deserialize(&object.value).ok())
}
