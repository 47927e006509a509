//! Workloads: what makes pods, or makes what makes pods.

use super::{Cluster, OwnerEntry};
use crate::{Uid, facts::Owner};

impl Cluster {
    pub fn owner(&self, uid: Uid) -> Option<&Owner> {
        self.owners.get(&uid).map(|entry| &entry.owner)
    }

    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.values().map(|entry| &entry.owner)
    }

    /// For a workload that says which nodes it wants its pods on: a number that is another one when it says something else.
    pub fn placement_since(&self, uid: Uid) -> Option<u64> {
        let entry = self.owners.get(&uid).filter(|entry| entry.owner.placement.is_some())?;
        Some(entry.placement_since)
    }

    /// Another version of a workload of which nothing else has changed but how many pods it wants.
    pub fn set_desired(&mut self, uid: Uid, version: u64, desired: Option<u32>) {
        if let Some(entry) = self.owners.get_mut(&uid) {
            (entry.owner.version, entry.owner.desired) = (version, desired);
        }
    }

    /// Replaces what is known of a workload, by nothing if it is gone.
    pub fn set_owner(&mut self, uid: Uid, owner: Option<Owner>) {
        self.unlink(uid);
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
        self.placements += 1;
        let placement_since = self.placements;
        self.owners.insert(owner.uid, OwnerEntry { owner, placement_since });
    }

    fn unlink(&mut self, uid: Uid) {
        let Some(OwnerEntry { owner, .. }) = self.owners.get(&uid) else { return };
        self.template_labels.remove(&owner.namespace, &owner.template_labels, uid);
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
