//! Adds pods and workloads to the cells of their groups, and removes them.

use super::{Cell, Sequences, Standing, cell::Member, winners};
use crate::cluster::PodEntry;
use crate::planted::{Bug, planted};
use crate::{
    Uid,
    cluster::Cluster,
    facts::{Owner, OwnerKind},
    key::Touched,
    sequence::spec::{Group, Members, Scope, WorkloadRef},
};

/// The workload that a pod counts for, and whether the pod is of its newest revision. A ReplicaSet that a group names counts by
/// itself, even if a Deployment owns it.
fn unit_of(entry: &PodEntry, group: &Group) -> (Option<Uid>, bool) {
    match &group.members {
        Members::Workload(WorkloadRef { kind: OwnerKind::ReplicaSet, .. }) => {
            (entry.pod.owner.map(|owner| owner.uid), true)
        }
        Members::Workload(_) | Members::Names(_) | Members::Selector(_) | Members::None => {
            (entry.root, entry.current)
        }
    }
}

impl Sequences {
    /// Adds a pod, in its current state, to the counts of its groups.
    pub fn pod_enters(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        self.count_pod(cluster, uid, touched, true);
    }

    /// Removes a pod from all counts. Must run before any fact about the pod changes.
    pub fn pod_leaves(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        self.count_pod(cluster, uid, touched, false);
    }

    fn count_pod(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched, add: bool) {
        let Some(entry) = cluster.pod_entry(uid) else { return };
        // Terminating pods do not count.
        if entry.memberships.is_empty() || entry.pod.terminating && !planted(Bug::TerminatingCounts) {
            return;
        }
        let node = if self.node_scoped.is_empty() { None } else { cluster.node_of(&entry.pod) };
        let dropped = cluster.gate_being_dropped(uid);
        let mut winner = None;
        for membership in entry.memberships.iter() {
            touched.sequence(membership.sequence);
            let Some(sequence) = self.entries.get_mut(&membership.sequence) else { continue };
            if winner.replace(membership.sequence) == Some(membership.sequence) {
                sequence.set_in_earlier_group(*membership, uid, add);
                continue;
            }
            let Some(spec) = sequence.spec().cloned() else { continue };
            let until = spec.groups[membership.group as usize].until;
            let releasing = dropped == Some(&spec.gate);
            let group = &spec.groups[membership.group as usize];
            let (root, current) = unit_of(entry, group);
            let root_facts = root.and_then(|root| cluster.owner(root));
            let member = Member {
                name: entry.pod.name.clone(),
                uid,
                standing: Standing::from_pod(&entry.pod, &spec.gate, until, releasing, current),
                since: entry.pod.since,
                root,
            };
            let count = |cell: &mut Cell, owner: Option<&Owner>| match add {
                true => cell.insert(&member, owner, until),
                false => cell.remove(&member, owner, until),
            };
            count(sequence.cell_mut(membership.group), root_facts);
            if spec.scope == Scope::Node {
                // A workload's desired total says nothing about one node.
                let node = node.as_ref().map(|node| (node, cluster.takes_part(node)));
                sequence.change_cell_at(node, membership.group, |cell| count(cell, None));
            }
        }
    }

    /// Looks up the groups that select a pod. Needed when its labels, its owners or the sequences change.
    pub fn resolve_memberships(&self, cluster: &mut Cluster, uid: Uid) {
        let Some(pod) = cluster.pod(uid) else { return };
        let memberships = self.memberships.on_pod(pod, cluster.workloads_of(pod)).into();
        cluster.set_memberships(uid, memberships);
    }

    /// Whether memberships in a namespace depend on the owners of pods.
    pub fn depends_on_owners(&self, namespace: &str) -> bool {
        self.memberships.has_workloads(namespace)
    }

    /// Adds a workload to the counts of the groups that select it by its template or name.
    pub fn owner_enters(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        let Some(owner) = cluster.owner(uid) else { return };
        let parent = cluster.parent_of(owner);
        // Admission must know which ReplicaSets and Jobs belong to a workload that a group names, and which only have a similar
        // name.
        let named = self
            .memberships
            .on_namesake(owner)
            .chain(parent.into_iter().flat_map(|parent| self.memberships.on_workload(parent)));
        touched.sequences(named.map(|membership| membership.sequence));
        if !owner.terminating {
            let counts_itself = owner.parent.is_none_or(|parent| parent.kind != OwnerKind::Deployment);
            let memberships = self.memberships.on_owner(owner, parent, counts_itself);
            let memberships: Box<[_]> = winners(&memberships).collect();
            if !memberships.is_empty() {
                self.templates.insert(uid, memberships);
            }
        }
        self.count_template(cluster, uid, touched, true);
    }

    /// Removes a workload from all counts. Must run before any fact about it changes.
    pub fn owner_leaves(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        self.count_template(cluster, uid, touched, false);
        self.templates.remove(&uid);
    }

    fn count_template(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched, found: bool) {
        let Some(memberships) = self.templates.get(&uid) else { return };
        for membership in memberships.iter() {
            touched.sequence(membership.sequence);
            let Some(sequence) = self.entries.get_mut(&membership.sequence) else { continue };
            let Some(spec) = sequence.spec().cloned() else { continue };
            let until = spec.groups[membership.group as usize].until;
            let has_runs = cluster.latest_run(uid).is_some();
            sequence.cell_mut(membership.group).by_template(uid, found, cluster.owner(uid), until, has_runs);
        }
    }

    /// Updates the counts after only the desired number of pods of a workload has changed.
    pub fn recount_owner(&mut self, owner: &Owner, touched: &mut Touched) {
        for sequence in self.memberships.sequences_in(&owner.namespace) {
            if self.entries.get_mut(&sequence).is_some_and(|entry| entry.recount(owner)) {
                touched.sequence(sequence);
            }
        }
    }
}
