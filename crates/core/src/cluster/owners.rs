//! Workloads: objects that create pods, or that create other workloads.

use super::{Cluster, OwnerEntry};
use crate::{
    Uid,
    facts::{Owner, OwnerKind},
};
use std::sync::Arc;

impl Cluster {
    pub fn owner(&self, uid: Uid) -> Option<&Owner> {
        self.owners.get(&uid).map(|entry| &entry.owner)
    }

    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.values().map(|entry| &entry.owner)
    }

    pub fn owner_named(&self, namespace: &Arc<str>, kind: OwnerKind, name: &Arc<str>) -> Option<&Owner> {
        let uid = self.owner_names.get(&(namespace.clone(), kind, name.clone()))?;
        self.owner(*uid)
    }

    /// The workloads of one kind in a namespace, by name.
    pub fn owners_in(&self, namespace: &Arc<str>, kind: OwnerKind) -> impl Iterator<Item = &Owner> {
        let all = self.owner_names.range((namespace.clone(), kind, Arc::from(""))..);
        let namespace = namespace.clone();
        let here = all.take_while(move |((there, other, _), _)| *there == namespace && *other == kind);
        here.filter_map(|(_, uid)| self.owner(*uid))
    }

    /// The workloads that a workload has created: ReplicaSets, Jobs.
    pub fn children_of(&self, owner: Uid) -> impl Iterator<Item = Uid> {
        self.children_of.get(&owner).into_iter().flatten().copied()
    }

    /// The newest Job of a CronJob, by creation time, then by name.
    pub fn latest_run(&self, cron_job: Uid) -> Option<&Owner> {
        self.owner(cron_job).filter(|owner| owner.kind == OwnerKind::CronJob)?;
        let runs = self.children_of(cron_job).filter_map(|uid| self.owner(uid));
        runs.max_by_key(|run| (run.created, run.name.clone()))
    }

    /// The parent of a workload: the Deployment of a ReplicaSet, or the CronJob of its latest run.
    pub fn parent_of(&self, owner: &Owner) -> Option<&Owner> {
        let parent = self.owner(owner.parent?.uid)?;
        match parent.kind {
            OwnerKind::CronJob => {
                self.latest_run(parent.uid).filter(|run| run.uid == owner.uid).map(|_| parent)
            }
            OwnerKind::Deployment
            | OwnerKind::ReplicaSet
            | OwnerKind::StatefulSet
            | OwnerKind::DaemonSet
            | OwnerKind::Job
            | OwnerKind::Other => Some(parent),
        }
    }

    /// A number that grows when a workload appears, disappears, or changes in more than its desired number of pods.
    pub fn owner_changes(&self) -> u64 {
        self.owner_changes
    }

    /// A number that changes when the placement of a workload changes. `None` if the workload has no placement.
    pub fn placement_since(&self, uid: Uid) -> Option<u64> {
        let entry = self.owners.get(&uid).filter(|entry| entry.owner.placement.is_some())?;
        Some(entry.placement_since)
    }

    /// Updates the version and the desired number of pods of a workload that has not changed otherwise.
    pub fn set_desired(&mut self, uid: Uid, version: u64, desired: Option<u32>) {
        if let Some(entry) = self.owners.get_mut(&uid) {
            (entry.owner.version, entry.owner.desired) = (version, desired);
        }
    }

    /// Replaces the facts of a workload; `None` means that the workload is deleted.
    pub fn set_owner(&mut self, uid: Uid, owner: Option<Owner>) {
        self.unlink(uid);
        self.owner_changes += 1;
        match owner {
            Some(owner) => self.link(owner),
            None => drop(self.owners.remove(&uid)),
        }
    }

    fn link(&mut self, mut owner: Owner) {
        owner.template_labels = self.interner.labels(&owner.template_labels);
        owner.namespace = self.interner.shared(&owner.namespace);
        if let Some(parent) = owner.parent {
            self.children_of.entry(parent.uid).or_default().insert(owner.uid);
        }
        self.template_labels.insert(&owner.namespace, &owner.template_labels, owner.uid);
        let name = (owner.namespace.clone(), owner.kind, owner.name.clone());
        self.owner_names.insert(name, owner.uid);
        let placement_since = self.owner_changes;
        self.owners.insert(owner.uid, OwnerEntry { owner, placement_since });
    }

    fn unlink(&mut self, uid: Uid) {
        let Some(OwnerEntry { owner, .. }) = self.owners.get(&uid) else { return };
        self.template_labels.remove(&owner.namespace, &owner.template_labels, uid);
        let name = (owner.namespace.clone(), owner.kind, owner.name.clone());
        if self.owner_names.get(&name) == Some(&uid) {
            self.owner_names.remove(&name);
        }
        if let Some(parent) = owner.parent
            && let Some(children) = self.children_of.get_mut(&parent.uid)
        {
            children.remove(&uid);
            if children.is_empty() {
                self.children_of.remove(&parent.uid);
            }
        }
    }
}
