//! The index of sequences: counts of their members, kept up to date on each change.
//!
//! ```text
//! pods ──memberships──▶ sequences ──▶ groups ──▶ cells      (members by standing)
//! ```
//!
//! A [`Membership`] says that a group of a sequence selects a pod. One rule keeps the counts correct: code that changes a fact that a
//! count depends on first removes the pod from its cells ([`Sequences::pod_leaves`]) and then adds it again
//! ([`Sequences::pod_enters`]).

mod cell;
mod entry;
mod marked;
mod memberships;
mod node_results;
mod notes;
mod place;

pub use cell::{Cell, Standing, Sum};
pub use entry::SequenceEntry;
pub use marked::UnseenNodes;
pub use memberships::{MEMBERSHIP_KEY, membership_value};
pub use node_results::{Counts, NodeCount, NodeResults};
pub use notes::Note;

use super::{
    Sequence, keys,
    spec::{DeletionPolicy, Members, Recorded, Scope, Spec, WorkloadRef},
    views::Judgements,
};
use crate::{
    Uid,
    cluster::{
        Cluster, Membership,
        table::{fact, tables},
    },
    facts::Namespace,
    key::Touched,
    planted::{Bug, planted},
    selector::{Operator, Requirement, Selector},
};
use marked::Marked;
use memberships::MembershipIndex;
use notes::Notes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Sequences {
    mode: Mode,
    entries: BTreeMap<Uid, SequenceEntry>,
    /// The sequences in Node scope.
    node_scoped: BTreeSet<Uid>,
    /// Sequences whose pods are in another namespace, by that namespace.
    cross_namespace: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    memberships: MembershipIndex,
    /// Namespaces that are being read again.
    incomplete: BTreeSet<Arc<str>>,
    /// For each workload, the groups that select its template: the first one of each sequence.
    templates: BTreeMap<Uid, Box<[Membership]>>,
    notes: Notes,
    marked: Marked,
}

/// Settings for all sequences.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Whether nodes are watched (Full mode), which Node scope requires.
    pub full: bool,
    /// The prefix of taint keys for `nodeGuard: Taints`: one of [`keys::TAINT_PREFIXES`].
    pub taint_prefix: &'static str,
    /// Whether Orders and Tickets are watched.
    pub reservations: bool,
}

fact!(SequenceEntry, sequence.version, |entry, _| !entry.ghost);
fact!(Note, version);

tables! { Sequences:
    Sequence => entries;
    Note => notes.by_sequence;
}

impl Default for Mode {
    fn default() -> Mode {
        Mode { full: false, taint_prefix: keys::PREFIX, reservations: false }
    }
}

impl Sequences {
    pub fn new(mode: Mode) -> Sequences {
        Sequences { mode, ..Sequences::default() }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn get(&self, uid: Uid) -> Option<&SequenceEntry> {
        self.entries.get(&uid)
    }

    pub fn iter(&self) -> impl Iterator<Item = &SequenceEntry> {
        self.entries.values()
    }

    /// The number of sequences, including ghosts.
    pub fn number(&self) -> usize {
        self.entries.len()
    }

    /// The sequences in Node scope.
    pub fn node_scoped(&self) -> impl Iterator<Item = Uid> {
        self.node_scoped.iter().copied()
    }

    /// The label keys that selectors use in a namespace.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.memberships.label_keys(namespace)
    }

    /// Namespaces that became due for a re-list of pods and workloads since the last call.
    pub fn take_namespaces_to_read(&mut self) -> BTreeSet<Arc<str>> {
        self.memberships.take_namespaces_to_read()
    }

    /// Records whether the facts about a namespace are incomplete, because it is being read again.
    pub fn set_incomplete(&mut self, namespace: &Arc<str>, incomplete: bool) {
        match incomplete {
            true => self.incomplete.insert(namespace.clone()),
            false => self.incomplete.remove(namespace),
        };
    }

    /// Whether the facts about a namespace are incomplete. Nothing may be decided about sequences whose pods are there.
    pub fn is_incomplete(&self, namespace: &str) -> bool {
        self.incomplete.contains(namespace)
    }

    /// The sequences that select pods in a namespace.
    pub fn selecting_in(&self, namespace: &str) -> BTreeSet<Uid> {
        self.memberships.sequences_in(namespace)
    }

    pub fn apply(&mut self, cluster: &mut Cluster, mut sequence: Sequence, touched: &mut Touched) {
        let uid = sequence.uid;
        touched.sequence(uid);
        if planted(Bug::JournalForgotten) && !self.entries.contains_key(&uid) {
            sequence.recorded = Recorded::default();
        }
        if planted(Bug::GenerationBack) && !self.entries.contains_key(&uid) {
            sequence.generation = 1;
        }
        match self.entries.get_mut(&uid) {
            Some(known) if known.sequence.version >= sequence.version && !known.ghost => {
                return;
            }
            Some(known) if known.sequence.spec == sequence.spec && !known.ghost => {
                known.agree_with(&sequence);
                known.sequence = sequence;
                return self.begin_again(uid);
            }
            Some(_) | None => {}
        }
        let remembered = self.entries.get_mut(&uid).and_then(|known| {
            known.agree_with(&sequence);
            known.remembered.take()
        });
        let mut entry = SequenceEntry::new(sequence, false, self.mode);
        entry.remembered = remembered;
        self.change(cluster, uid, Some(entry), touched);
        self.begin_again(uid);
    }

    /// Handles a request for a new start. The known workloads may be from before they were stopped; a group could then wrongly
    /// count as complete, and stay so. Therefore they are read again.
    fn begin_again(&mut self, uid: Uid) {
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        if entry.begin_again()
            && let Some(spec) = entry.spec()
        {
            self.memberships.read_again(&spec.pod_namespace);
        }
    }

    /// Replaces a deleted sequence by its ghost, which releases the pods that it still holds.
    pub fn delete(&mut self, cluster: &mut Cluster, uid: Uid, touched: &mut Touched) {
        let Some(entry) = self.entries.get(&uid).filter(|entry| !entry.ghost) else { return };
        let ghost = self.ghost_of(entry);
        touched.sequence(uid);
        self.notes.set_deleted(uid);
        self.change(cluster, uid, ghost, touched);
    }

    /// Returns the ghost of a deleted sequence, if work remains. If its last spec is invalid, an earlier spec may still hold
    /// pods; the note contains that spec.
    fn ghost_of(&self, entry: &SequenceEntry) -> Option<SequenceEntry> {
        match (&entry.sequence.spec, entry.spec()) {
            // With `Hold` it releases no pods. In Node scope, a ghost is still needed to remove its marks from nodes.
            (Ok(spec), _)
                if spec.deletion_policy == DeletionPolicy::Hold
                    && spec.scope == Scope::Cluster
                    && !planted(Bug::HoldIgnored) =>
            {
                None
            }
            (_, Some(_)) => Some(SequenceEntry::new(entry.sequence.clone(), true, self.mode)),
            (_, None) => self.notes.get(entry.sequence.uid).cloned().map(|note| note.ghost(self.mode)),
        }
    }

    /// Removes a sequence that is missing after the cluster was restored from a backup. It was not deleted, so it gets no ghost.
    pub fn forget(&mut self, cluster: &mut Cluster, uid: Uid, touched: &mut Touched) {
        touched.sequence(uid);
        self.change(cluster, uid, None, touched);
    }

    /// Removes a ghost that has finished its work.
    pub fn remove_finished_ghost(&mut self, cluster: &mut Cluster, uid: Uid, touched: &mut Touched) {
        if self.get(uid).is_some_and(|entry| entry.ghost) {
            // Otherwise the note, until it is removed, would create the ghost again.
            self.notes.set_deleted(uid);
            self.change(cluster, uid, None, touched);
        }
    }

    /// Replaces a sequence by a new version, or removes it, and recounts all affected pods.
    fn change(
        &mut self,
        cluster: &mut Cluster,
        uid: Uid,
        entry: Option<SequenceEntry>,
        touched: &mut Touched,
    ) {
        let mut concerned = Concerned::default();
        // Find the pods by their memberships: terminating pods have them too, but are not in any cell.
        let known = self.entries.get(&uid).filter(|known| known.selects_pods());
        let new = entry.as_ref().filter(|new| may_select_pods(cluster, new));
        known.into_iter().chain(new).for_each(|entry| concerned.add(cluster, entry));
        self.recount(cluster, concerned, touched, |all, cluster, touched| {
            all.unregister(uid, touched);
            if let Some(entry) = entry {
                all.register(cluster, uid, entry);
            }
        });
        self.compare_note(uid);
        if !self.entries.contains_key(&uid) {
            self.forget_refusals(uid);
        }
        self.look_at_what_is_left(cluster, uid, touched);
    }

    /// Removes pods and workloads from all counts, applies a change, and counts them again.
    fn recount(
        &mut self,
        cluster: &mut Cluster,
        concerned: Concerned,
        touched: &mut Touched,
        change: impl FnOnce(&mut Sequences, &Cluster, &mut Touched),
    ) {
        let Concerned { pods, templates } = concerned;
        pods.iter().for_each(|pod| self.pod_leaves(cluster, *pod, touched));
        templates.iter().for_each(|owner| self.owner_leaves(cluster, *owner, touched));
        change(self, cluster, touched);
        templates.iter().for_each(|owner| self.owner_enters(cluster, *owner, touched));
        for pod in pods {
            self.resolve_memberships(cluster, pod);
            self.pod_enters(cluster, pod, touched);
        }
    }

    fn register(&mut self, cluster: &Cluster, uid: Uid, mut entry: SequenceEntry) {
        if may_select_pods(cluster, &entry) {
            self.begin_selecting(uid, &mut entry);
        }
        if let Ok(spec) = &entry.sequence.spec
            && spec.pod_namespace != entry.sequence.namespace
        {
            self.cross_namespace.entry(spec.pod_namespace.clone()).or_default().insert(uid);
        }
        if entry.spec().is_some_and(|spec| spec.scope == Scope::Node) {
            self.node_scoped.insert(uid);
        }
        self.entries.insert(uid, entry);
    }

    fn unregister(&mut self, uid: Uid, touched: &mut Touched) {
        let Some(mut entry) = self.entries.remove(&uid) else { return };
        if self.node_scoped.remove(&uid) {
            self.voters_changed(touched);
        }
        if entry.selects_pods() {
            self.end_selecting(uid, &mut entry);
        }
        if let Ok(spec) = &entry.sequence.spec
            && let Some(sequences) = self.cross_namespace.get_mut(&spec.pod_namespace)
        {
            sequences.remove(&uid);
            if sequences.is_empty() {
                self.cross_namespace.remove(&spec.pod_namespace);
            }
        }
    }

    fn begin_selecting(&mut self, uid: Uid, entry: &mut SequenceEntry) {
        entry.set_selects_pods(true);
        if let Some(spec) = entry.spec() {
            self.memberships.insert(uid, spec, entry.name_if_own_namespace());
        }
    }

    fn end_selecting(&mut self, uid: Uid, entry: &mut SequenceEntry) {
        if let Some(spec) = entry.spec() {
            self.memberships.remove(uid, spec);
        }
        entry.set_selects_pods(false);
    }

    /// Handles a change of a namespace. `before` is its previous state.
    pub fn namespace_changed(
        &mut self,
        cluster: &mut Cluster,
        name: &Arc<str>,
        before: Option<&Namespace>,
        touched: &mut Touched,
    ) {
        let after = cluster.namespace(name);
        let may_taint = |namespace: Option<&Namespace>| namespace.map(|there| there.allow_node_taints);
        if after.is_some() && may_taint(before) != may_taint(after) {
            let here = |uid: &Uid| self.get(*uid).is_some_and(|entry| entry.sequence.namespace == *name);
            touched.sequences(self.node_scoped().filter(here));
        }
        if before.map(|before| &before.allow_from) != after.map(|after| &after.allow_from) {
            self.ask_guests_again(cluster, name, touched);
        }
    }

    /// Handles a change of `allow-from`: sequences in other namespaces gain or lose their members in this one at once.
    fn ask_guests_again(&mut self, cluster: &mut Cluster, namespace: &Arc<str>, touched: &mut Touched) {
        let guests = self.cross_namespace.get(namespace).into_iter().flatten().copied();
        for uid in guests.collect::<Vec<_>>() {
            touched.sequence(uid);
            let Some(entry) = self.entries.get(&uid) else { continue };
            let (selects, may) = (entry.selects_pods(), may_select_pods(cluster, entry));
            if selects == may {
                continue;
            }
            let mut concerned = Concerned::default();
            concerned.add(cluster, entry);
            self.recount(cluster, concerned, touched, |all, _, _| {
                let Some(mut entry) = all.entries.remove(&uid) else { return };
                match may {
                    true => all.begin_selecting(uid, &mut entry),
                    false => all.end_selecting(uid, &mut entry),
                }
                all.entries.insert(uid, entry);
            });
        }
    }

    /// Remembers the last decision until the status contains it.
    pub fn remember(&mut self, uid: Uid, recorded: Recorded, touched: &mut Touched) {
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        let stalled = entry.recorded().stalled != recorded.stalled;
        entry.remembered = Some(recorded);
        if stalled && self.node_scoped.contains(&uid) {
            self.voters_changed(touched);
        }
    }

    /// Stores evaluations of nodes.
    pub fn remember_nodes(&mut self, cluster: &Cluster, uid: Uid, judgements: Judgements) {
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.node_results.remember(judgements, |name| cluster.takes_part(name));
        }
    }

    /// Discards stored evaluations of nodes, so that the next decision evaluates all of them. The result must be the same.
    pub fn invalidate_node_results(&mut self, uid: Uid) {
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.node_results.invalidate();
        }
    }
}

/// Whether a sequence may select pods in its `spec.namespace`.
fn may_select_pods(cluster: &Cluster, entry: &SequenceEntry) -> bool {
    entry.spec().is_some_and(|spec| cluster.permits(&spec.pod_namespace, &entry.sequence.namespace))
}

/// The pods and workloads that may belong to a sequence.
#[derive(Default)]
struct Concerned {
    pods: BTreeSet<Uid>,
    templates: BTreeSet<Uid>,
}

impl Concerned {
    fn add(&mut self, cluster: &Cluster, entry: &SequenceEntry) {
        if let Some(spec) = entry.spec() {
            find_members(cluster, spec, entry.name_if_own_namespace(), self);
        }
    }
}

fn find_members(cluster: &Cluster, spec: &Spec, name_if_own_namespace: Option<&str>, found: &mut Concerned) {
    let Concerned { pods, templates } = found;
    let namespace = &spec.pod_namespace;
    for (position, group) in spec.groups.iter().enumerate() {
        match &group.members {
            Members::Names(names) => {
                let named = names.iter().filter_map(|name| cluster.pod_named(namespace, name));
                pods.extend(named.map(|pod| pod.uid));
            }
            Members::Selector(selector) => {
                let by_annotation = name_if_own_namespace.map(|name| saying(name, position));
                for selector in by_annotation.iter().chain([selector]) {
                    pods.extend(cluster.pods_to_match(namespace, selector));
                    templates.extend(cluster.owners_to_match(namespace, selector));
                }
            }
            Members::Workload(WorkloadRef { kind, name }) => {
                let Some(owner) = cluster.owner_named(namespace, *kind, name) else { continue };
                pods.extend(cluster.pods_below(owner.uid));
                templates.insert(owner.uid);
                templates.extend(cluster.children_of(owner.uid));
            }
            Members::None => {}
        }
    }
}

/// A selector for objects whose annotation names this group.
fn saying(sequence: &str, group: usize) -> Selector {
    let operator = Operator::In(vec![membership_value(sequence, group)]);
    Selector { requirements: vec![Requirement { key: MEMBERSHIP_KEY.into(), operator }] }
}

fn no_cells(groups: usize) -> Vec<Cell> {
    std::iter::repeat_with(Cell::default).take(groups).collect()
}

/// Returns the first membership of each sequence. `memberships` is sorted by sequence and group.
pub(super) fn winners(memberships: &[Membership]) -> impl Iterator<Item = Membership> {
    let mut last = None;
    memberships
        .iter()
        .copied()
        .filter(move |membership| last.replace(membership.sequence) != Some(membership.sequence))
}
