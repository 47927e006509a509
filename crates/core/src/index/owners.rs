//! Changes to workloads. On each change that matters, the pods of the workload are counted again.

use super::Index;
use crate::{
    Uid,
    facts::{Owner, OwnerKind},
    kind::Kind,
};
use std::collections::BTreeSet;

impl Index {
    pub(super) fn apply_owner(&mut self, owner: Owner) {
        let uid = owner.uid;
        let known = self.cluster.owner(uid);
        let (Some(kind), version) = (Kind::of_owner(owner.kind), known.map(|known| known.version)) else {
            return;
        };
        if !self.cluster.freshness.admits(kind, Some(uid), version, owner.version) {
            return;
        }
        if let Some(known) = self.cluster.owner(uid) {
            let (version, desired) = (known.version, known.desired);
            // Status updates change nothing that counts, and are most of the events of a workload.
            if *known == (Owner { version, ..owner.clone() }) {
                return self.cluster.set_desired(uid, owner.version, desired);
            }
            // A DaemonSet desires one more pod for every node that joins; its existing pods are not affected.
            if owner.kind == OwnerKind::DaemonSet && *known == (Owner { version, desired, ..owner.clone() }) {
                self.cluster.set_desired(uid, owner.version, owner.desired);
                return self.sequences.recount_owner(&owner, &mut self.touched);
            }
        }
        self.change_owner(uid, Some(owner));
    }

    pub(super) fn forget_owner(&mut self, uid: Uid) {
        if self.cluster.owner(uid).is_some() {
            self.change_owner(uid, None);
        }
    }

    fn change_owner(&mut self, uid: Uid, owner: Option<Owner>) {
        let namespace = owner.as_ref().or(self.cluster.owner(uid)).map(|owner| owner.namespace.clone());
        let related = self.related_to(uid, owner.as_ref());
        let affected = self.pods_of_all(&related);
        affected.iter().for_each(|pod| self.pod_leaves(*pod));
        for owner in &related {
            self.sequences.owner_leaves(&self.cluster, *owner, &mut self.touched);
        }
        self.cluster.set_owner(uid, owner);
        for owner in &related {
            self.sequences.owner_enters(&self.cluster, *owner, &mut self.touched);
        }
        let by_owner = namespace.is_some_and(|namespace| self.sequences.depends_on_owners(&namespace));
        // When a ReplicaSet is seen for the first time, its pods move to the counts of its Deployment.
        let affected: BTreeSet<Uid> = affected.union(&self.pods_of_all(&related)).copied().collect();
        for pod in affected {
            self.cluster.resolve_root(pod);
            if by_owner {
                self.sequences.resolve_memberships(&mut self.cluster, pod);
            }
            self.pod_enters(pod);
        }
    }

    /// The workloads whose counts are affected by a change of this one. For a run of a CronJob, these include the CronJob and
    /// all its runs, because a different run may now be the latest.
    fn related_to(&self, uid: Uid, new: Option<&Owner>) -> BTreeSet<Uid> {
        let parents = [self.cluster.owner(uid), new].into_iter().flatten().filter_map(|owner| owner.parent);
        let cron_jobs = parents.filter(|parent| parent.kind == OwnerKind::CronJob);
        let related = cron_jobs.flat_map(|parent| self.cluster.children_of(parent.uid).chain([parent.uid]));
        related.chain([uid]).collect()
    }

    fn pods_of_all(&self, owners: &BTreeSet<Uid>) -> BTreeSet<Uid> {
        owners.iter().flat_map(|owner| self.cluster.pods_below(*owner)).collect()
    }
}
