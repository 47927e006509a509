//! The sequences, counted: what this feature keeps beside the facts of the cluster.
//!
//! ```text
//! pods ──claims──▶ sequences ──▶ groups ──▶ cells      (who is where on its way)
//! ```
//!
//! One rule keeps the counts right: whoever changes a fact that a count depends on takes the pod out of its cells first
//! ([`Sequences::pod_leaves`]) and puts it back afterwards ([`Sequences::pod_enters`]).

mod cell;
mod claims;
mod entry;
mod marked;
mod node_results;
mod notes;
mod place;

pub use cell::{Cell, Standing, Sum};
pub use claims::{MEMBERSHIP_KEY, membership_value};
pub use entry::SequenceEntry;
pub use node_results::{Count, Counts, NodeResults};
pub use notes::Note;

use super::{
    Sequence, keys,
    spec::{DeletionPolicy, Members, Recorded, Scope, Spec, WorkloadRef},
    views::Judgements,
};
use crate::{
    Uid,
    cluster::{Claim, Cluster},
    facts::Namespace,
    key::Touched,
    planted::{Bug, planted},
    selector::{Operator, Requirement, Selector},
};
use claims::Claims;
use marked::Marked;
use notes::Notes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Sequences {
    mode: Mode,
    entries: BTreeMap<Uid, SequenceEntry>,
    /// The sequences that go by nodes.
    node_scoped: BTreeSet<Uid>,
    /// Counts their comings and goings.
    node_scoped_since: u64,
    /// Sequences that act in a namespace other than their own, by that namespace.
    cross_namespace: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    claims: Claims,
    /// Groups whose selector matches a workload's template, the first one of each sequence.
    templates: BTreeMap<Uid, Box<[Claim]>>,
    notes: Notes,
    marked: Marked,
}

/// What is the same for all sequences.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Whether nodes are watched, so that Node scope can be acted on (Full mode).
    pub full: bool,
    /// What the taints of `nodeGuard: Taints` begin with: one of [`keys::TAINT_PREFIXES`].
    pub taint_prefix: &'static str,
}

impl Default for Mode {
    fn default() -> Mode {
        Mode { full: false, taint_prefix: keys::PREFIX }
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

    /// How many there are, ghosts included.
    pub fn number(&self) -> usize {
        self.entries.len()
    }

    pub fn live(&self) -> impl Iterator<Item = &Sequence> {
        self.entries.values().filter(|entry| !entry.ghost).map(|entry| &entry.sequence)
    }

    /// The sequences that go by nodes.
    pub fn node_scoped(&self) -> impl Iterator<Item = Uid> {
        self.node_scoped.iter().copied()
    }

    /// A number that is another one when another sequence goes by nodes, or one does not any more.
    pub fn node_scoped_since(&self) -> u64 {
        self.node_scoped_since
    }

    /// The keys of labels that selectors name in a namespace.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.claims.label_keys(namespace)
    }

    /// The namespaces in which a selector names a key that none named before, since the last call.
    pub fn take_namespaces_with_new_keys(&mut self) -> BTreeSet<Arc<str>> {
        self.claims.take_namespaces_with_new_keys()
    }

    /// The sequences that claim anything in a namespace.
    pub fn claiming_in(&self, namespace: &str) -> BTreeSet<Uid> {
        self.claims.sequences_in(namespace)
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
                return;
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
    }

    /// A sequence was deleted. What it still holds is released by its ghost.
    pub fn delete(&mut self, cluster: &mut Cluster, uid: Uid, touched: &mut Touched) {
        let Some(entry) = self.entries.get(&uid).filter(|entry| !entry.ghost) else { return };
        let ghost = self.ghost_of(entry);
        touched.sequence(uid);
        self.notes.set_deleted(uid);
        self.change(cluster, uid, ghost, touched);
    }

    /// What is left to do of a sequence that goes. If its last spec cannot be acted on, an earlier one may have
    /// left pods behind: its note knows them.
    fn ghost_of(&self, entry: &SequenceEntry) -> Option<SequenceEntry> {
        match (&entry.sequence.spec, entry.spec()) {
            // It has nothing to let go; but on nodes nothing of it may stay.
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

    /// A sequence that a restored cluster does not have: nobody deleted it, so nothing is to be done for it.
    pub fn forget(&mut self, cluster: &mut Cluster, uid: Uid, touched: &mut Touched) {
        touched.sequence(uid);
        self.change(cluster, uid, None, touched);
    }

    /// A ghost has done its work.
    pub fn remove_finished_ghost(&mut self, cluster: &mut Cluster, uid: Uid, touched: &mut Touched) {
        if self.get(uid).is_some_and(|entry| entry.ghost) {
            // Or its note, until that is removed, would raise it again.
            self.notes.set_deleted(uid);
            self.change(cluster, uid, None, touched);
        }
    }

    /// What is known comes from another time than the list that begins: every view counts as newer.
    pub fn forget_versions(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.sequence.version = 0);
    }

    /// Replaces a sequence by another version of itself, or by nothing, and counts all pods concerned anew.
    fn change(
        &mut self,
        cluster: &mut Cluster,
        uid: Uid,
        entry: Option<SequenceEntry>,
        touched: &mut Touched,
    ) {
        let (mut pods, mut templates) = (BTreeSet::new(), BTreeSet::new());
        // By its claims, not by its counts: terminating pods are claimed too, and not counted.
        for known in self.entries.get(&uid).into_iter().chain(&entry) {
            if let Some(spec) = known.spec() {
                find_members(cluster, spec, known.name_if_own_namespace(), &mut pods, &mut templates);
            }
        }
        pods.iter().for_each(|pod| self.pod_leaves(cluster, *pod, touched));
        templates.iter().for_each(|owner| self.owner_leaves(cluster, *owner, touched));
        self.unregister(cluster, uid, touched);
        if let Some(entry) = entry {
            self.register(uid, entry);
        }
        templates.iter().for_each(|owner| self.owner_enters(cluster, *owner, touched));
        for pod in pods {
            self.resolve_claims(cluster, pod);
            self.pod_enters(cluster, pod, touched);
        }
        self.compare_note(uid);
    }

    fn register(&mut self, uid: Uid, entry: SequenceEntry) {
        if let Some(spec) = entry.spec() {
            self.claims.insert(uid, spec, entry.name_if_own_namespace());
        }
        if let Ok(spec) = &entry.sequence.spec
            && spec.pod_namespace != entry.sequence.namespace
        {
            self.cross_namespace.entry(spec.pod_namespace.clone()).or_default().insert(uid);
        }
        if entry.spec().is_some_and(|spec| spec.scope == Scope::Node) {
            self.node_scoped.insert(uid);
            self.node_scoped_since += 1;
        }
        self.entries.insert(uid, entry);
    }

    fn unregister(&mut self, cluster: &Cluster, uid: Uid, touched: &mut Touched) {
        let Some(entry) = self.entries.remove(&uid) else { return };
        if self.node_scoped.remove(&uid) {
            self.node_scoped_since += 1;
            // For some of them it may have been the last to be waited for.
            if cluster.nodes().any(|node| node.labels.get(keys::UNSEEN).is_some()) {
                touched.sequences(self.node_scoped());
            }
        }
        if let Some(spec) = entry.spec() {
            self.claims.remove(uid, spec);
        }
        if let Ok(spec) = &entry.sequence.spec
            && let Some(sequences) = self.cross_namespace.get_mut(&spec.pod_namespace)
        {
            sequences.remove(&uid);
        }
    }

    /// A namespace has changed: `before` is what was known of it, `after` what is known now.
    pub fn namespace_changed(
        &mut self,
        name: &Arc<str>,
        before: Option<&Namespace>,
        after: Option<&Namespace>,
        touched: &mut Touched,
    ) {
        if before.map(|before| &before.allow_from) != after.map(|after| &after.allow_from) {
            self.touch_cross_namespace(name, touched);
        }
        let may_taint = |namespace: Option<&Namespace>| namespace.map(|there| there.allow_node_taints);
        if after.is_some() && may_taint(before) != may_taint(after) {
            let here = |uid: &Uid| self.get(*uid).is_some_and(|entry| entry.sequence.namespace == *name);
            touched.sequences(self.node_scoped().filter(here));
        }
    }

    /// The permission for sequences from elsewhere changed. What they held back there, others may now let go.
    fn touch_cross_namespace(&self, namespace: &Arc<str>, touched: &mut Touched) {
        let Some(from_elsewhere) = self.cross_namespace.get(namespace) else { return };
        if !from_elsewhere.is_empty() {
            touched.sequences(from_elsewhere.iter().copied());
            touched.sequences(self.claims.sequences_in(namespace));
        }
    }

    /// Keeps what was decided, until the status has it.
    pub fn remember(&mut self, uid: Uid, recorded: Recorded) {
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.remembered = Some(recorded);
        }
    }

    /// Keeps what was judged about nodes.
    pub fn remember_nodes(&mut self, cluster: &Cluster, uid: Uid, judgements: Judgements) {
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.node_results.remember(judgements, |name| cluster.takes_part(name));
        }
    }

    /// Makes the next decision judge every node anew, as if nothing were kept. It must come out the same.
    pub fn invalidate_node_results(&mut self, uid: Uid) {
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.node_results.invalidate();
        }
    }
}

/// The pods and the workloads that may belong to a sequence.
fn find_members(
    cluster: &Cluster,
    spec: &Spec,
    name_if_own_namespace: Option<&str>,
    pods: &mut BTreeSet<Uid>,
    templates: &mut BTreeSet<Uid>,
) {
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
        }
    }
}

/// Selects what says itself that it belongs to a group.
fn saying(sequence: &str, group: usize) -> Selector {
    let operator = Operator::In(vec![membership_value(sequence, group)]);
    Selector { requirements: vec![Requirement { key: MEMBERSHIP_KEY.into(), operator }] }
}

fn no_cells(groups: usize) -> Vec<Cell> {
    std::iter::repeat_with(Cell::default).take(groups).collect()
}

/// Of claims sorted by sequence and group, the first of each sequence.
pub(super) fn winners(claims: &[Claim]) -> impl Iterator<Item = Claim> {
    let mut last = None;
    claims.iter().copied().filter(move |claim| last.replace(claim.sequence) != Some(claim.sequence))
}
