//! Putting pods and workloads into the cells of the groups that claim them, and taking them out again.

use super::{Cell, Index, Standing, cell::Member, winners};
use crate::planted::{Bug, is};
use crate::{
    Uid,
    facts::{Owner, OwnerKind},
    sequence::spec::{Members, Scope},
};
use std::collections::BTreeSet;

/// Whether a group that lists its pods lists this one; one that selects them lists none.
fn is_listed(members: &Members, name: &str) -> bool {
    match members {
        Members::Names(names) => names.contains(name),
        Members::Selector(_) => true,
    }
}

impl Index {
    /// Counts a pod in every group that claims it, as its facts are now.
    pub(super) fn place(&mut self, uid: Uid) {
        self.count_pod(uid, true);
    }

    /// Takes a pod out of every count. Must run before any fact about the pod changes.
    pub(super) fn unplace(&mut self, uid: Uid) {
        self.count_pod(uid, false);
    }

    fn count_pod(&mut self, uid: Uid, add: bool) {
        let Some(entry) = self.pods.get(&uid) else { return };
        // Terminating pods do not count, anywhere.
        if entry.pod.terminating && !is(Bug::TerminatingCounts) {
            return;
        }
        let node = if self.node_scoped.is_empty() { None } else { self.nodes.of(&entry.pod) };
        let root_facts = entry.root.and_then(|root| self.owners.get(&root)).map(|owner| &owner.owner);
        let mut winner = None;
        for claim in entry.claims.iter() {
            self.touched.insert(claim.sequence);
            let Some(sequence) = self.sequences.get_mut(&claim.sequence) else { continue };
            if winner.replace(claim.sequence) == Some(claim.sequence) {
                sequence.lost_to_an_earlier_group(*claim, uid, add);
                continue;
            }
            let Some(spec) = sequence.spec().cloned() else { continue };
            let until = spec.groups[claim.group as usize].until;
            let releasing = entry.releasing.as_ref() == Some(&spec.gate);
            let member = Member {
                name: entry.pod.name.clone(),
                uid,
                standing: Standing::of(&entry.pod, &spec.gate, until, releasing, entry.current),
                since: entry.pod.since,
                root: entry.root,
            };
            let count = |cell: &mut Cell, owner: Option<&Owner>| match add {
                true => cell.insert(&member, owner, until),
                false => cell.remove(&member, owner, until),
            };
            if !is_listed(&spec.groups[claim.group as usize].members, &entry.pod.name) {
                sequence.count_unlisted(claim.group, add);
            }
            count(sequence.cell_mut(claim.group), root_facts);
            if spec.scope == Scope::Node {
                // How many a workload wants in all says nothing about one node.
                let node = node.as_ref().map(|node| (node, self.nodes.takes_part(node)));
                sequence.change_cell_at(node, claim.group, |cell| count(cell, None));
            }
        }
    }

    /// Finds out whose pod this is, at the top, and whether it is of the newest revision.
    pub(super) fn resolve_root(&mut self, uid: Uid) {
        let Some(entry) = self.pods.get(&uid) else { return };
        let (root, current) = match entry.pod.owner {
            None => (None, true),
            Some(owner) => match owner.kind {
                OwnerKind::Other => (None, true),
                OwnerKind::Deployment | OwnerKind::StatefulSet | OwnerKind::DaemonSet | OwnerKind::Job => {
                    (Some(owner.uid), true)
                }
                OwnerKind::ReplicaSet => self.root_of_replica_set(owner.uid),
            },
        };
        let entry = self.pods.get_mut(&uid).expect("looked up above");
        (entry.root, entry.current) = (root, current);
    }

    fn root_of_replica_set(&self, uid: Uid) -> (Option<Uid>, bool) {
        // Not seen yet: counted under its own uid, of which nothing is known, until it is.
        let Some(replica_set) = self.owner(uid) else { return (Some(uid), true) };
        match replica_set.parent {
            Some(parent) if parent.kind == OwnerKind::Deployment => {
                let newest = self.owner(parent.uid).and_then(|deployment| deployment.revision.as_ref());
                (Some(parent.uid), newest.is_some() && newest == replica_set.revision.as_ref())
            }
            Some(_) | None => (Some(uid), true),
        }
    }

    /// Looks up who claims a pod. Needed when its labels or the sequences change.
    pub(super) fn resolve_claims(&mut self, uid: Uid) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        let pod = &entry.pod;
        entry.claims = self.claims.on_pod(&pod.namespace, &pod.name, &pod.labels).into();
    }

    /// Counts a workload where the labels of its template are claimed.
    pub(super) fn place_template(&mut self, uid: Uid) {
        let Some(entry) = self.owners.get_mut(&uid) else { return };
        let owner = &entry.owner;
        let counts_itself = owner.parent.is_none_or(|parent| parent.kind != OwnerKind::Deployment);
        entry.claims = match counts_itself && !owner.terminating {
            true => winners(&self.claims.on_labels(&owner.namespace, &owner.template_labels)).collect(),
            false => Box::default(),
        };
        self.count_template(uid, true);
    }

    pub(super) fn unplace_template(&mut self, uid: Uid) {
        self.count_template(uid, false);
    }

    fn count_template(&mut self, uid: Uid, found: bool) {
        let Some(entry) = self.owners.get(&uid) else { return };
        for claim in entry.claims.iter() {
            self.touched.insert(claim.sequence);
            let Some(sequence) = self.sequences.get_mut(&claim.sequence) else { continue };
            let Some(spec) = sequence.spec().cloned() else { continue };
            let until = spec.groups[claim.group as usize].until;
            sequence.cell_mut(claim.group).by_template(uid, found, Some(&entry.owner), until);
        }
    }

    /// All pods of a workload, through its ReplicaSets if it has them.
    pub(super) fn pods_below(&self, owner: Uid) -> BTreeSet<Uid> {
        let children = self.children_of.get(&owner).into_iter().flatten();
        let makers = std::iter::once(&owner).chain(children);
        makers.filter_map(|maker| self.pods_of.get(maker)).flatten().copied().collect()
    }
}
