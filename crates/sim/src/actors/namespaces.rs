//! Deletes the contents of a terminating namespace, then the namespace. Pods are deleted first; other objects follow when
//! no pods are left.

use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Change, Key};
use jiff::Timestamp;

#[derive(Default)]
pub struct Namespaces {
    agenda: Agenda,
}

impl Actor for Namespaces {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        let namespace = match change.key.kind {
            Kind::Namespace => change.key.clone(),
            _ if change.deleted => Key::new(Kind::Namespace, "", &change.key.namespace),
            _ => return,
        };
        if cluster.store.get(&namespace).is_some_and(|namespace| namespace.is_terminating()) {
            self.agenda.add(namespace);
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            empty(cluster, &key);
        }
        None
    }
}

fn empty(cluster: &mut Cluster, namespace: &Key) {
    let kinds = Kind::all().filter(|kind| kind.info().namespaced);
    let content: Vec<Key> = kinds
        .flat_map(|kind| cluster.store.list(kind, Some(&namespace.name)).map(|(key, _)| key.clone()))
        .collect();
    let has_pods = content.iter().any(|key| key.kind == Kind::Pod);
    for key in content.iter().filter(|key| !has_pods || key.kind == Kind::Pod) {
        if cluster.store.get(key).is_some_and(|object| !object.is_terminating()) {
            let _ = cluster.delete(key);
        }
    }
    if content.iter().all(|key| cluster.store.get(key).is_none()) {
        let at = cluster.now();
        cluster.store.remove(namespace, at);
    }
}
