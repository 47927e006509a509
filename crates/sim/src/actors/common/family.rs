//! Ownership of pods: processes changes of owners and children, adopts matching orphans, and releases pods that no longer
//! match.

use super::template::controller_reference;
use super::{controller_of, pods, text};
use crate::actors::Agenda;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::selectors::selects;
use crate::store::{Change, Key, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Back-off after a rejected request: the first and the longest delay, doubling in between, as in the real work queues.
const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(5);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_secs(1000);

/// The owners of one kind, with the agenda of their reconciliation.
pub struct Family {
    kind: Kind,
    /// The kind of the owned objects: pods or ReplicaSets.
    child: Kind,
    pub agenda: Agenda,
    /// How long changes of children and of the owner's own status are batched before a reconciliation.
    batch: Option<SignedDuration>,
    /// Orphans by the owner that they match. They are recorded when a pod or an owner changes, so that no reconciliation
    /// has to scan a whole namespace.
    adoptable: BTreeMap<Key, BTreeSet<Key>>,
    refusals: BTreeMap<Key, u32>,
}

impl Family {
    pub fn new(kind: Kind, child: Kind) -> Family {
        let agenda = Agenda::default();
        Family { kind, child, agenda, batch: None, adoptable: BTreeMap::new(), refusals: BTreeMap::new() }
    }

    /// Batches changes for a while.
    pub fn batched(self, batch: SignedDuration) -> Family {
        Family { batch: Some(batch), ..self }
    }

    pub fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        if change.key.kind == self.kind {
            self.heard_of_owner(change, cluster);
        } else if change.key.kind == self.child {
            self.heard_of_child(change, cluster);
        }
    }

    fn heard_of_owner(&mut self, change: &Change, cluster: &Cluster) {
        if change.deleted {
            self.agenda.forget(&change.key);
            self.adoptable.remove(&change.key);
            self.refusals.remove(&change.key);
            return;
        }
        let generation = |object: &Value| object["metadata"]["generation"].clone();
        let same =
            change.before.as_deref().is_some_and(|before| generation(before) == generation(&change.object));
        match same {
            true => self.add_gathered(cluster, change.key.clone()),
            false => self.agenda.add(change.key.clone()),
        }
        let selector = &change.object["spec"]["selector"];
        if change.before.as_ref().is_some_and(|before| before["spec"]["selector"] == *selector) {
            return;
        }
        let pods = cluster.store.list(self.child, Some(&change.key.namespace));
        let found: BTreeSet<Key> =
            pods.filter(|(_, pod)| is_adoptable(selector, pod)).map(|(key, _)| key.clone()).collect();
        if !found.is_empty() {
            self.adoptable.insert(change.key.clone(), found);
        }
    }

    fn heard_of_child(&mut self, change: &Change, cluster: &Cluster) {
        // Without any owner of this kind, there is no owned or adoptable object.
        if cluster.store.list(self.kind, None).next().is_none() {
            return;
        }
        let before = change.before.as_deref();
        if let Some(before) = before
            && !change.deleted
            && self.child == Kind::Pod
            && pods::look_alike(before, &change.object)
        {
            return;
        }
        let owners =
            [before.and_then(|before| self.owner(cluster, before)), self.owner(cluster, &change.object)];
        for owner in owners.into_iter().flatten() {
            self.add_gathered(cluster, owner);
        }
        if change.deleted || controller_of(&change.object).is_some() {
            return;
        }
        for (key, owner) in cluster.store.list(self.kind, Some(&change.key.namespace)) {
            if is_adoptable(&owner["spec"]["selector"], &change.object) {
                self.adoptable.entry(key.clone()).or_default().insert(change.key.clone());
                self.add_gathered(cluster, key.clone());
            }
        }
    }

    fn add_gathered(&mut self, cluster: &Cluster, owner: Key) {
        match self.batch.and_then(|batch| cluster.now().checked_add(batch).ok()) {
            Some(at) => self.agenda.add_at(at, owner),
            None => self.agenda.add(owner),
        }
    }

    /// The existing owner of this kind that controls an object.
    pub fn owner(&self, cluster: &Cluster, object: &Value) -> Option<Key> {
        let reference = controller_of(object)?;
        let info = self.kind.info();
        if reference["kind"] != info.name || text(&reference["apiVersion"]) != info.api_version() {
            return None;
        }
        let key = Key::new(self.kind, text(&object["metadata"]["namespace"]), text(&reference["name"]));
        let owner = cluster.store.get(&key)?;
        (reference["uid"] == owner.uid()).then_some(key)
    }

    /// Returns the pods that an owner controls, after adopting and releasing pods. A member must match the selector and
    /// `is_member`.
    pub fn claim(
        &mut self,
        cluster: &mut Cluster,
        key: &Key,
        owner: &Stored,
        is_member: impl Fn(&Value) -> bool,
    ) -> Vec<(Key, Arc<Stored>)> {
        let selector = &owner["spec"]["selector"];
        for pod_key in self.adoptable.remove(key).unwrap_or_default() {
            let Some(pod) = cluster.store.get(&pod_key) else { continue };
            if !owner.is_terminating() && is_adoptable(selector, pod) && is_member(pod) {
                adopt(cluster, &pod_key, controller_reference(key, owner));
            }
        }
        let uid = owner.uid();
        let mine = |pod: &Value| super::is_controlled_by(pod, uid);
        let pods: Vec<(Key, Arc<Stored>)> = cluster
            .store
            .owned(uid, self.child)
            .filter(|(_, pod)| mine(pod))
            .map(|(key, pod)| (key.clone(), pod.clone()))
            .collect();
        let (stay, go): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|(_, pod)| selects(selector, &pod["metadata"]["labels"]) && is_member(pod));
        if !owner.is_terminating() {
            for (pod_key, _) in go {
                release(cluster, &pod_key, uid);
            }
        }
        stay
    }

    /// Schedules a retry after a rejected request, with exponential back-off.
    pub fn retry(&mut self, now: Timestamp, key: Key) {
        let refusals = self.refusals.entry(key.clone()).or_default();
        let wait = FIRST_RETRY.saturating_mul(1i32.checked_shl((*refusals).min(30)).unwrap_or(i32::MAX));
        *refusals += 1;
        self.agenda.add_at(now.checked_add(wait.min(LONGEST_RETRY)).unwrap_or(now), key);
    }

    pub fn succeeded(&mut self, key: &Key) {
        self.refusals.remove(key);
    }
}

fn is_adoptable(selector: &Value, pod: &Value) -> bool {
    let empty = |field: &str| selector[field].as_array().is_none_or(Vec::is_empty);
    let selects_all =
        empty("matchExpressions") && selector["matchLabels"].as_object().is_none_or(|map| map.is_empty());
    !selects_all
        && controller_of(pod).is_none()
        && pods::is_active(pod)
        && selects(selector, &pod["metadata"]["labels"])
}

/// Adds a controller reference to an object without one.
pub fn adopt(cluster: &mut Cluster, key: &Key, reference: Value) {
    // The object may already be deleted.
    let _ = cluster.update(key, |object| {
        let references = &mut object["metadata"]["ownerReferences"];
        if !references.is_array() {
            *references = json!([]);
        }
        if let Some(references) = references.as_array_mut() {
            references.retain(|is| is["uid"] != reference["uid"]);
            references.push(reference);
        }
    });
}

/// Removes an owner reference from an object.
pub fn release(cluster: &mut Cluster, key: &Key, uid: &str) {
    let _ = cluster.update(key, |object| {
        let Some(metadata) = object["metadata"].as_object_mut() else { return };
        let Some(references) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else {
            return;
        };
        references.retain(|reference| reference["uid"] != uid);
        if references.is_empty() {
            metadata.remove("ownerReferences");
        }
    });
}
