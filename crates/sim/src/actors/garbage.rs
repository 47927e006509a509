//! The garbage collector: deletes objects without owners, and releases owners in foreground deletion after their
//! dependents.

use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::delete::{self, DeleteOptions, FOREGROUND, ORPHAN};
use crate::store::{Change, Key, Stored};
use jiff::Timestamp;
use serde_json::Value;

#[derive(Default)]
pub struct Garbage {
    agenda: Agenda,
}

impl Actor for Garbage {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        let references = change.object["metadata"]["ownerReferences"].as_array();
        if change.deleted {
            self.agenda.forget(&change.key);
            let due = cluster.now().checked_add(cluster.programs.garbage).unwrap_or(Timestamp::MAX);
            cluster
                .store
                .dependents(change.object.uid())
                .into_iter()
                .for_each(|key| self.agenda.add_at(due, key));
            // An owner may have waited for the deletion of this object.
            for reference in references.into_iter().flatten() {
                self.agenda.add_owner(cluster, &change.key, reference);
            }
        } else if references.is_some_and(|list| !list.is_empty()) || has_finalizer(&change.object) {
            self.agenda.add(change.key.clone());
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            if let Some(object) = cluster.store.get(&key).cloned() {
                collect(cluster, &key, &object);
            }
        }
        self.agenda.next_moment()
    }
}

impl Agenda {
    fn add_owner(&mut self, cluster: &Cluster, dependent: &Key, reference: &Value) {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let Some(kind) = Kind::named(text("apiVersion"), text("kind")) else { return };
        let namespace = if kind.info().namespaced { &*dependent.namespace } else { "" };
        let owner = Key::new(kind, namespace, text("name"));
        if cluster.store.get(&owner).is_some_and(|owner| owner.is_terminating()) {
            self.add(owner);
        }
    }
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn has_finalizer(object: &Value) -> bool {
    finalizers(object).any(|finalizer| finalizer == FOREGROUND || finalizer == ORPHAN)
}

fn collect(cluster: &mut Cluster, key: &Key, object: &Stored) {
    if object.is_terminating() {
        if finalizers(object).any(|finalizer| finalizer == ORPHAN) {
            orphan(cluster, key, object);
        } else if finalizers(object).any(|finalizer| finalizer == FOREGROUND) {
            foreground(cluster, key, object);
        }
        return;
    }
    let references = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let states: Vec<Owner> = references.iter().map(|reference| owner(cluster, key, reference)).collect();
    if states.is_empty() {
        return;
    }
    if states.contains(&Owner::There) {
        // One existing owner is enough to keep the object. References to missing owners are removed.
        if states.iter().any(|state| *state != Owner::There) {
            let kept: Vec<Value> = references
                .iter()
                .zip(&states)
                .filter(|(_, state)| **state == Owner::There)
                .map(|(reference, _)| reference.clone())
                .collect();
            let _ = cluster.update(key, |object| object["metadata"]["ownerReferences"] = kept.into());
        }
        return;
    }
    // If an owner in foreground deletion waits for this object, its own dependents are deleted in the foreground, too.
    let propagation =
        match states.contains(&Owner::Waiting) && !cluster.store.dependents(object.uid()).is_empty() {
            true => Some(delete::Propagation::Foreground),
            false => Some(delete::Propagation::Background),
        };
    let uid = Some(object.uid().to_owned());
    let _ = delete::delete(cluster, key, &DeleteOptions { uid, propagation, ..DeleteOptions::default() });
}

#[derive(PartialEq)]
enum Owner {
    There,
    /// In foreground deletion, and waiting for this dependent.
    Waiting,
    Gone,
}

fn owner(cluster: &Cluster, dependent: &Key, reference: &Value) -> Owner {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    // Objects with owners of unknown kinds are left alone.
    let Some(kind) = Kind::named(text("apiVersion"), text("kind")) else { return Owner::There };
    let namespace = if kind.info().namespaced { &*dependent.namespace } else { "" };
    match cluster.store.find(kind, namespace, text("name")) {
        Some(owner) if owner.uid() != text("uid") => Owner::Gone,
        Some(owner)
            if owner.is_terminating() && finalizers(owner).any(|finalizer| finalizer == FOREGROUND) =>
        {
            Owner::Waiting
        }
        Some(_) => Owner::There,
        None => Owner::Gone,
    }
}

fn orphan(cluster: &mut Cluster, key: &Key, object: &Stored) {
    let uid = object.uid();
    for dependent in cluster.store.dependents(uid) {
        let _ = cluster.update(&dependent, |object| {
            if let Some(references) = object["metadata"]["ownerReferences"].as_array_mut() {
                references.retain(|reference| reference["uid"] != uid);
            }
        });
    }
    drop_finalizer(cluster, key, ORPHAN);
}

fn foreground(cluster: &mut Cluster, key: &Key, object: &Stored) {
    let uid = object.uid();
    for dependent in cluster.store.dependents(uid) {
        if let Some(object) = cluster.store.get(&dependent).cloned().filter(|object| !object.is_terminating())
        {
            collect(cluster, &dependent, &object);
        }
    }
    let blocks = |dependent: &Key| {
        let references = cluster.store.get(dependent)?["metadata"]["ownerReferences"].as_array()?;
        let own = references.iter().find(|reference| reference["uid"] == uid)?;
        own["blockOwnerDeletion"].as_bool()
    };
    if !cluster.store.dependents(uid).iter().any(|dependent| blocks(dependent).unwrap_or_default()) {
        drop_finalizer(cluster, key, FOREGROUND);
    }
}

fn drop_finalizer(cluster: &mut Cluster, key: &Key, finalizer: &str) {
    let _ = cluster.update(key, |object| {
        if let Some(list) = object["metadata"]["finalizers"].as_array_mut() {
            list.retain(|one| one != finalizer);
        }
    });
}
