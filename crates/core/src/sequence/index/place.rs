//! Putting pods and workloads into the cells of the groups that claim them, and taking them out again.

use super::{Cell, Sequences, Standing, cell::Member, winners};
use crate::planted::{Bug, planted};
use crate::{
    Uid,
    cluster::Cluster,
    facts::{Owner, OwnerKind},
    key::Touched,
    sequence::spec::{Members, Scope},
};

/// Whether a group that lists its pods lists this one; one that selects them lists none.
fn is_listed(members: &Members, name: &str) -> bool {
    match members {
        Members::Names(names) => names.contains(name),
        Members::Selector(_) => true,
    }
}

impl Sequences {
    /// Counts a pod in every group that claims it, as its facts are now.
    pub fn pod_enters(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        self.count_pod(cluster, uid, touched, true);
    }

    /// Takes a pod out of every count. Must run before any fact about the pod changes.
    pub fn pod_leaves(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        self.count_pod(cluster, uid, touched, false);
    }

    fn count_pod(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched, add: bool) {
        let Some(entry) = cluster.pod_entry(uid) else { return };
        // Terminating pods do not count, anywhere.
        if entry.claims.is_empty() || entry.pod.terminating && !planted(Bug::TerminatingCounts) {
            return;
        }
        let node = if self.node_scoped.is_empty() { None } else { cluster.node_of(&entry.pod) };
        let root_facts = entry.root.and_then(|root| cluster.owner(root));
        let dropped = cluster.gate_being_dropped(uid);
        let mut winner = None;
        for claim in entry.claims.iter() {
            touched.sequence(claim.sequence);
            let Some(sequence) = self.entries.get_mut(&claim.sequence) else { continue };
            if winner.replace(claim.sequence) == Some(claim.sequence) {
                sequence.set_claimed_by_earlier_group(*claim, uid, add);
                continue;
            }
            let Some(spec) = sequence.spec().cloned() else { continue };
            let until = spec.groups[claim.group as usize].until;
            let releasing = dropped == Some(&spec.gate);
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
                sequence.count_member_by_annotation(claim.group, add);
            }
            count(sequence.cell_mut(claim.group), root_facts);
            if spec.scope == Scope::Node {
                // How many a workload wants in all says nothing about one node.
                let node = node.as_ref().map(|node| (node, cluster.takes_part(node)));
                sequence.change_cell_at(node, claim.group, |cell| count(cell, None));
            }
        }
    }

    /// Looks up who claims a pod. Needed when its labels or the sequences change.
    pub fn resolve_claims(&self, cluster: &mut Cluster, uid: Uid) {
        let Some(pod) = cluster.pod(uid) else { return };
        let claims = self.claims.on_pod(&pod.namespace, &pod.name, &pod.labels).into();
        cluster.set_claims(uid, claims);
    }

    /// Counts a workload where the labels of its template are claimed.
    pub fn owner_enters(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        let Some(owner) = cluster.owner(uid) else { return };
        let counts_itself = owner.parent.is_none_or(|parent| parent.kind != OwnerKind::Deployment);
        if counts_itself && !owner.terminating {
            let claims = self.claims.on_labels(&owner.namespace, &owner.template_labels);
            let claims: Box<[_]> = winners(&claims).collect();
            if !claims.is_empty() {
                self.templates.insert(uid, claims);
            }
        }
        self.count_template(cluster, uid, touched, true);
    }

    /// Takes a workload out of every count. Must run before any fact about it changes.
    pub fn owner_leaves(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        self.count_template(cluster, uid, touched, false);
        self.templates.remove(&uid);
    }

    fn count_template(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched, found: bool) {
        let Some(claims) = self.templates.get(&uid) else { return };
        for claim in claims.iter() {
            touched.sequence(claim.sequence);
            let Some(sequence) = self.entries.get_mut(&claim.sequence) else { continue };
            let Some(spec) = sequence.spec().cloned() else { continue };
            let until = spec.groups[claim.group as usize].until;
            sequence.cell_mut(claim.group).by_template(uid, found, cluster.owner(uid), until);
        }
    }

    /// A workload wants another number of pods, and nothing else about it has changed.
    pub fn recount_owner(&mut self, owner: &Owner, touched: &mut Touched) {
        for sequence in self.claims.sequences_in(&owner.namespace) {
            if self.entries.get_mut(&sequence).is_some_and(|entry| entry.recount(owner)) {
                touched.sequence(sequence);
            }
        }
    }
}
