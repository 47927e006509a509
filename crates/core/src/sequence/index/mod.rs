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
pub use marked::UnseenNodes;
pub use node_results::{Count, Counts, NodeResults};
pub use notes::Note;

use super::{
    Sequence, keys,
    spec::{DeletionPolicy, Members, Recorded, Scope, Spec, WorkloadRef},
    views::Judgements,
};
use crate::{
    Uid,
    cluster::{
        Claim, Cluster,
        table::{fact, tables},
    },
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

    /// How many there are, ghosts included.
    pub fn number(&self) -> usize {
        self.entries.len()
    }

    /// The sequences that go by nodes.
    pub fn node_scoped(&self) -> impl Iterator<Item = Uid> {
        self.node_scoped.iter().copied()
    }

    /// The keys of labels that selectors name in a namespace.
    pub fn label_keys(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.claims.label_keys(namespace)
    }

    /// The namespaces of whose pods and workloads too little is known, since the last call.
    pub fn take_namespaces_to_read(&mut self) -> BTreeSet<Arc<str>> {
        self.claims.take_namespaces_to_read()
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

    /// If another start is asked for: what is known of the workloads may be older than the wish, of a time when they had not
    /// been stopped. Then a group could be taken for complete, and would stay so. So they are read once more.
    fn begin_again(&mut self, uid: Uid) {
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        if entry.begin_again()
            && let Some(spec) = entry.spec()
        {
            self.claims.read_again(&spec.pod_namespace);
        }
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

    /// Replaces a sequence by another version of itself, or by nothing, and counts all pods concerned anew.
    fn change(
        &mut self,
        cluster: &mut Cluster,
        uid: Uid,
        entry: Option<SequenceEntry>,
        touched: &mut Touched,
    ) {
        let mut concerned = Concerned::default();
        // By its claims, not by its counts: terminating pods are claimed too, and not counted.
        let known = self.entries.get(&uid).filter(|known| known.claims());
        let new = entry.as_ref().filter(|new| may_claim(cluster, new));
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

    /// Takes pods and workloads out of all counts while something changes, and counts them anew.
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
            self.resolve_claims(cluster, pod);
            self.pod_enters(cluster, pod, touched);
        }
    }

    fn register(&mut self, cluster: &Cluster, uid: Uid, mut entry: SequenceEntry) {
        if may_claim(cluster, &entry) {
            self.begin_claims(uid, &mut entry);
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
        if entry.claims() {
            self.end_claims(uid, &mut entry);
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

    fn begin_claims(&mut self, uid: Uid, entry: &mut SequenceEntry) {
        entry.set_claims(true);
        if let Some(spec) = entry.spec() {
            self.claims.insert(uid, spec, entry.name_if_own_namespace());
        }
    }

    fn end_claims(&mut self, uid: Uid, entry: &mut SequenceEntry) {
        if let Some(spec) = entry.spec() {
            self.claims.remove(uid, spec);
        }
        entry.set_claims(false);
    }

    /// A namespace has changed: `before` is what was known of it.
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

    /// The permission for sequences from elsewhere changed: who gets it claims pods there at once, who loses it has none.
    fn ask_guests_again(&mut self, cluster: &mut Cluster, namespace: &Arc<str>, touched: &mut Touched) {
        let guests = self.cross_namespace.get(namespace).into_iter().flatten().copied();
        for uid in guests.collect::<Vec<_>>() {
            touched.sequence(uid);
            let Some(entry) = self.entries.get(&uid) else { continue };
            let (claims, may) = (entry.claims(), may_claim(cluster, entry));
            if claims == may {
                continue;
            }
            let mut concerned = Concerned::default();
            concerned.add(cluster, entry);
            self.recount(cluster, concerned, touched, |all, _, _| {
                let Some(mut entry) = all.entries.remove(&uid) else { return };
                match may {
                    true => all.begin_claims(uid, &mut entry),
                    false => all.end_claims(uid, &mut entry),
                }
                all.entries.insert(uid, entry);
            });
        }
    }

    /// Keeps what was decided, until the status has it.
    pub fn remember(&mut self, uid: Uid, recorded: Recorded, touched: &mut Touched) {
        let Some(entry) = self.entries.get_mut(&uid) else { return };
        let stalled = entry.recorded().stalled != recorded.stalled;
        entry.remembered = Some(recorded);
        if stalled && self.node_scoped.contains(&uid) {
            self.voters_changed(touched);
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

/// Whether a sequence may claim pods where it looks for them.
fn may_claim(cluster: &Cluster, entry: &SequenceEntry) -> bool {
    entry.spec().is_some_and(|spec| cluster.permits(&spec.pod_namespace, &entry.sequence.namespace))
}

/// The pods and the workloads that may belong to a sequence.
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
