//! Workloads coming, changing and going. Whatever changes, their pods are counted anew.

use super::{Index, Kind, OwnerEntry};
use crate::{
    Uid,
    facts::{Owner, OwnerKind},
};
use std::collections::BTreeSet;

impl Index {
    pub(super) fn apply_owner(&mut self, mut owner: Owner) {
        let uid = owner.uid;
        if let Some(kind) = Kind::of_owner(owner.kind) {
            self.saw(kind, owner.version);
        }
        if self.tombstones.contains(&uid) {
            return;
        }
        if let Some(known) = self.owners.get_mut(&uid) {
            if known.owner.version >= owner.version {
                return;
            }
            let version = owner.version;
            // Status updates change nothing that counts, and are most of what a workload's watch says.
            if known.owner == (Owner { version: known.owner.version, ..owner.clone() }) {
                known.owner.version = version;
                return;
            }
            // A DaemonSet wants one more with every node that joins; its pods are who and where they were.
            let (version, desired) = (known.owner.version, known.owner.desired);
            if owner.kind == OwnerKind::DaemonSet
                && known.owner == (Owner { version, desired, ..owner.clone() })
            {
                (known.owner.version, known.owner.desired) = (owner.version, owner.desired);
                return self.recount_owner(uid);
            }
        }
        owner.template_labels = self.interner.labels(&owner.template_labels);
        owner.namespace = self.interner.shared(&owner.namespace);
        self.change_owner(uid, Some(owner));
    }

    pub(super) fn delete_owner(&mut self, uid: Uid) {
        self.bury(uid);
        self.forget_owner(uid);
    }

    pub(super) fn forget_owner(&mut self, uid: Uid) {
        if self.owners.contains_key(&uid) {
            self.change_owner(uid, None);
        }
    }

    fn change_owner(&mut self, uid: Uid, owner: Option<Owner>) {
        let affected = self.pods_below(uid);
        affected.iter().for_each(|pod| self.unplace(*pod));
        self.unplace_template(uid);
        self.unlink(uid);
        match owner {
            Some(owner) => self.link(owner),
            None => drop(self.owners.remove(&uid)),
        }
        self.place_template(uid);
        // A ReplicaSet seen for the first time moves its pods to its Deployment's count.
        let affected: BTreeSet<Uid> = affected.union(&self.pods_below(uid)).copied().collect();
        for pod in affected {
            self.resolve_root(pod);
            self.place(pod);
        }
    }

    /// It wants another number of pods, and nothing else has changed.
    fn recount_owner(&mut self, uid: Uid) {
        let Some(OwnerEntry { owner, .. }) = self.owners.get(&uid) else { return };
        for sequence in self.claims.sequences_in(&owner.namespace) {
            if self.sequences.get_mut(&sequence).is_some_and(|entry| entry.recount(owner)) {
                self.touched.insert(sequence);
            }
        }
    }

    fn link(&mut self, owner: Owner) {
        if let Some(parent) = owner.parent {
            self.children_of.entry(parent.uid).or_default().insert(owner.uid);
        }
        self.template_labels.insert(&owner.namespace, &owner.template_labels, owner.uid);
        self.placements += 1;
        let placement_since = self.placements;
        self.owners.insert(owner.uid, OwnerEntry { owner, placement_since, claims: Box::default() });
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
