//! The index: all facts, counted. Synchronous; takes one changed object at a time and says which sequences are
//! touched by it.
//!
//! ```text
//! pods ──owner──▶ owners ──parent──▶ owners        (who wants how many)
//!   │ claims
//!   ▼
//! sequences ──▶ groups ──▶ cells                   (who is where on its way)
//! ```
//!
//! One rule keeps the counts right: whoever changes a fact that a count depends on takes the pod out of its
//! cells first ([`Index::unplace`]) and puts it back afterwards ([`Index::place`]).

mod board;
mod cell;
mod claims;
mod labelled;
mod nodes;
mod owners;
mod place;
mod pods;
mod sequences;

pub use board::{Board, Count, Counts};
pub use cell::{Cell, Standing, Sum};
pub use claims::{BELONGS, Claim, own_word};
pub use pods::Answer;
pub use sequences::{Note, SequenceEntry};

use crate::{
    Uid,
    facts::{Namespace, Owner, OwnerKind, Pod},
    intern::Interner,
    node::{Drivers, Node},
    sequence::keys,
};
use claims::Claims;
use labelled::Labelled;
use nodes::Nodes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The kinds of objects the index is fed with, each by a watch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Namespace,
    Sequence,
    Note,
    Node,
    CsiNode,
}

impl Kind {
    pub const ALL: [Kind; 11] = [
        Kind::Pod,
        Kind::Deployment,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
        Kind::Namespace,
        Kind::Sequence,
        Kind::Note,
        Kind::Node,
        Kind::CsiNode,
    ];

    /// What Cluster scope alone needs: nothing about nodes, and no right to see them.
    pub fn of_lite() -> &'static [Kind] {
        &Kind::ALL[..9]
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Pod => "pods",
            Kind::Deployment => "deployments",
            Kind::ReplicaSet => "replicasets",
            Kind::StatefulSet => "statefulsets",
            Kind::DaemonSet => "daemonsets",
            Kind::Job => "jobs",
            Kind::Namespace => "namespaces",
            Kind::Sequence => "podsequences",
            Kind::Note => "notes",
            Kind::Node => "nodes",
            Kind::CsiNode => "csinodes",
        }
    }

    fn of_owner(kind: OwnerKind) -> Option<Kind> {
        match kind {
            OwnerKind::Deployment => Some(Kind::Deployment),
            OwnerKind::ReplicaSet => Some(Kind::ReplicaSet),
            OwnerKind::StatefulSet => Some(Kind::StatefulSet),
            OwnerKind::DaemonSet => Some(Kind::DaemonSet),
            OwnerKind::Job => Some(Kind::Job),
            OwnerKind::Other => None,
        }
    }
}

/// An object as it was last seen.
#[derive(Clone, Debug)]
pub enum Object {
    Pod(Pod),
    Owner(Owner),
    Namespace(Namespace),
    Sequence(crate::sequence::Sequence),
    Note(Note),
    Node(Node),
    Drivers(Drivers),
}

/// Deleted uids that are remembered, so that a late view of one does not bring it back. Late views come from
/// answers in flight and from watches that reconnect, so a few hundred would do; 16 bytes each.
const TOMBSTONES: usize = 4096;

#[derive(Debug, Default)]
pub struct Index {
    /// Boxed: a third of the places in the nodes of a map are empty, and an entry is large.
    pods: BTreeMap<Uid, Box<PodEntry>>,
    pod_names: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Uid>>,
    pod_labels: Labelled,
    pods_of: BTreeMap<Uid, BTreeSet<Uid>>,

    owners: BTreeMap<Uid, OwnerEntry>,
    children_of: BTreeMap<Uid, BTreeSet<Uid>>,
    template_labels: Labelled,

    namespaces: BTreeMap<Arc<str>, Namespace>,

    mode: Mode,
    nodes: Nodes,
    /// The sequences that go by nodes.
    node_scoped: BTreeSet<Uid>,
    /// Counts their comings and goings.
    node_scoped_since: u64,

    sequences: BTreeMap<Uid, SequenceEntry>,
    /// Sequences that act in a namespace other than their own, by that namespace.
    guests: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    claims: Claims,
    notes: BTreeMap<Uid, Note>,
    /// Sequences seen deleted whose note may still be there.
    settled: BTreeSet<Uid>,
    /// Notes of sequences that are not known here.
    orphans: BTreeSet<Uid>,
    /// Of those, and of the ones that left something on a node, those that the last list of sequences began after, and lacked.
    asked_for: BTreeSet<Uid>,

    synced: BTreeSet<Kind>,
    lists: BTreeMap<Kind, List>,
    newest: BTreeMap<Kind, u64>,
    tombstones: BTreeSet<Uid>,
    tombstone_order: VecDeque<Uid>,
    /// How often a workload came that wants its pods elsewhere than before.
    placements: u64,
    touched: BTreeSet<Uid>,
    interner: Interner,
}

/// What is the same for all sequences.
#[derive(Clone, Copy, Debug)]
struct Mode {
    /// Whether nodes are watched, so that Node scope can be acted on (Full mode).
    full: bool,
    taint_prefix: &'static str,
}

impl Default for Mode {
    fn default() -> Mode {
        Mode { full: false, taint_prefix: keys::PREFIX }
    }
}

/// The last list of a kind.
#[derive(Clone, Copy, Debug)]
struct List {
    version: u64,
    /// Below what was seen before it: of a cluster restored from a backup.
    restored: bool,
}

#[derive(Debug)]
struct PodEntry {
    pod: Pod,
    /// All claims, sorted; the first one of each sequence wins.
    claims: Box<[Claim]>,
    /// The gate that is being taken away: sent, not answered.
    releasing: Option<Arc<str>>,
    root: Option<Uid>,
    /// Not of a ReplicaSet that its Deployment has replaced.
    current: bool,
}

#[derive(Debug)]
struct OwnerEntry {
    owner: Owner,
    /// Changes when it wants its pods on other nodes.
    placement_since: u64,
    /// Groups whose selector matches its template, the first one of each sequence.
    claims: Box<[Claim]>,
}

impl Index {
    /// Takes in one object as it is now. An older view than the one known is dropped.
    pub fn apply(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => self.apply_pod(pod),
            Object::Owner(owner) => self.apply_owner(owner),
            Object::Namespace(namespace) => self.apply_namespace(namespace),
            Object::Sequence(sequence) => self.apply_sequence(sequence),
            Object::Note(note) => self.apply_note(note),
            Object::Node(node) => self.apply_node(node),
            Object::Drivers(drivers) => self.apply_drivers(drivers),
        }
    }

    /// Takes in the answer to a write of our own. It does not tell how far the watch has come: a list that was taken
    /// before the write and arrives after its answer is older than it, and of no restored cluster for that.
    pub fn apply_answer(&mut self, object: Object) {
        let newest = self.newest.clone();
        self.apply(object);
        self.newest = newest;
    }

    /// An object is gone. For a namespace the uid is not looked at: its name is its identity here.
    pub fn delete(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => self.delete_pod(pod.uid),
            Object::Owner(owner) => self.delete_owner(owner.uid),
            Object::Namespace(namespace) => self.delete_namespace(&namespace.name),
            Object::Sequence(sequence) => self.delete_sequence(sequence.uid),
            Object::Note(note) => {
                self.saw(Kind::Note, note.version);
                self.delete_note(note.sequence);
            }
            Object::Node(node) => {
                // A late word about one that was re-created under its name since then.
                if self.node(&node.name).is_some_and(|known| known.uid == node.uid) {
                    self.delete_node(&node.name);
                }
            }
            Object::Drivers(drivers) => self.delete_drivers(&drivers.node),
        }
    }

    /// A watch has come this far: nothing of its kind has changed up to this version but what was told.
    pub fn heard_until(&mut self, kind: Kind, version: u64) {
        self.saw(kind, version);
        if kind == Kind::Sequence {
            self.sweep();
        }
    }

    /// A list of one kind begins: until it has ended, no decision is taken. `version` is the list's. Below
    /// what was seen before it means a cluster restored from a backup: then what we know is not newer.
    pub fn list_begins(&mut self, kind: Kind, version: u64) {
        self.synced.remove(&kind);
        let restored = self.newest.get(&kind).is_some_and(|seen| version < *seen);
        if restored {
            self.forget_versions(kind);
        }
        if kind == Kind::Sequence {
            self.asked_for = self.orphans.clone();
            self.asked_for.extend(self.strangers());
        }
        self.newest.insert(kind, version);
        self.lists.insert(kind, List { version, restored });
    }

    /// A list of one kind has been applied whole; what it did not name is gone, unless it was seen newer than the
    /// list (in an answer to a write of our own).
    pub fn list_ended(&mut self, kind: Kind, listed: &BTreeSet<Listed>) {
        let unknown = List { version: u64::MAX, restored: false };
        let List { version, restored } = self.lists.get(&kind).copied().unwrap_or(unknown);
        let known = self.known(kind).into_iter();
        for (gone, _) in known.filter(|(known, seen)| *seen <= version && !listed.contains(known)) {
            match (kind, gone, restored) {
                (Kind::Pod, Listed::Uid(uid), false) => self.delete_pod(uid),
                (Kind::Pod, Listed::Uid(uid), true) => self.forget_pod(uid),
                (Kind::Sequence, Listed::Uid(uid), false) => self.delete_sequence(uid),
                (Kind::Sequence, Listed::Uid(uid), true) => self.forget_sequence(uid),
                (Kind::Note, Listed::Uid(uid), _) => self.delete_note(uid),
                (Kind::Namespace, Listed::Name(name), _) => self.delete_namespace(&name),
                (Kind::Node, Listed::Name(name), _) => self.delete_node(&name),
                (Kind::CsiNode, Listed::Name(name), _) => self.delete_drivers(&name),
                (_, Listed::Uid(uid), false) => self.delete_owner(uid),
                (_, Listed::Uid(uid), true) => self.forget_owner(uid),
                (_, Listed::Name(_), _) => {}
            }
        }
        self.listed(kind);
    }

    fn listed(&mut self, kind: Kind) {
        self.synced.insert(kind);
        self.adopt_notes();
        self.sweep();
        if self.is_synced() {
            self.touched.extend(self.sequences.keys().copied());
        }
    }

    /// An index that counts by node, too.
    pub fn of_full_mode() -> Index {
        Index { mode: Mode { full: true, ..Mode::default() }, ..Index::default() }
    }

    /// One of [`keys::TAINT_PREFIXES`], for the taints of `nodeGuard: Taints`.
    pub fn with_taint_prefix(self, prefix: &'static str) -> Index {
        Index { mode: Mode { taint_prefix: prefix, ..self.mode }, ..self }
    }

    /// What taints begin with.
    pub fn taint_prefix(&self) -> &'static str {
        self.mode.taint_prefix
    }

    /// Whether it counts by node (Full mode).
    pub fn counts_nodes(&self) -> bool {
        self.mode.full
    }

    /// The kinds it has to be told about.
    pub fn kinds(&self) -> &'static [Kind] {
        if self.mode.full { &Kind::ALL } else { Kind::of_lite() }
    }

    /// Every kind has been listed: decisions may be taken.
    pub fn is_synced(&self) -> bool {
        self.kinds().iter().all(|kind| self.synced.contains(kind))
    }

    /// A kind that is not there to be watched counts as listed and empty. But not the sequences: that their kind
    /// is missing does not say that they were deleted, and who is deleted lets go of its pods.
    pub fn without(&mut self, kind: Kind) {
        if kind != Kind::Sequence {
            self.lists.remove(&kind);
            self.list_ended(kind, &BTreeSet::new());
        }
        self.listed(kind);
    }

    /// The sequences touched since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Uid> {
        std::mem::take(&mut self.touched)
    }

    pub fn pod(&self, uid: Uid) -> Option<&Pod> {
        self.pods.get(&uid).map(|entry| &entry.pod)
    }

    pub fn pod_named(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let uid = self.pod_names.get(namespace)?.get(name)?;
        self.pod(*uid)
    }

    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    pub fn owner(&self, uid: Uid) -> Option<&Owner> {
        self.owners.get(&uid).map(|entry| &entry.owner)
    }

    /// For a workload that says which nodes it wants its pods on: a number that is another one when it says something else.
    pub fn placement_since(&self, uid: Uid) -> Option<u64> {
        let entry = self.owners.get(&uid).filter(|entry| entry.owner.placement.is_some())?;
        Some(entry.placement_since)
    }

    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    pub fn sequence(&self, uid: Uid) -> Option<&SequenceEntry> {
        self.sequences.get(&uid)
    }

    pub fn sequences(&self) -> impl Iterator<Item = &SequenceEntry> {
        self.sequences.values()
    }

    /// How many there are, ghosts included.
    pub fn sequence_count(&self) -> usize {
        self.sequences.len()
    }

    pub fn note(&self, sequence: Uid) -> Option<&Note> {
        self.notes.get(&sequence)
    }

    /// The claims that count on a pod: of each sequence its first group.
    pub fn claims_on(&self, pod: Uid) -> impl Iterator<Item = Claim> {
        self.pods.get(&pod).into_iter().flat_map(|entry| winners(&entry.claims))
    }

    /// Whether an action on this pod is sent and not answered.
    pub fn in_flight(&self, pod: Uid) -> bool {
        self.pods.get(&pod).is_some_and(|entry| entry.releasing.is_some())
    }

    fn apply_namespace(&mut self, namespace: Namespace) {
        self.saw(Kind::Namespace, namespace.version);
        let known = self.namespaces.get(&namespace.name);
        if known.is_some_and(|known| known.version >= namespace.version) {
            return;
        }
        if known.is_none_or(|known| known.allow_from != namespace.allow_from) {
            self.touch_guests(&namespace.name);
        }
        let known = self.namespaces.get(&namespace.name);
        if known.is_none_or(|known| known.allow_node_taints != namespace.allow_node_taints) {
            let live = |uid: &&Uid| {
                self.sequences.get(uid).is_some_and(|entry| entry.sequence.namespace == namespace.name)
            };
            self.touched.extend(self.node_scoped.iter().filter(live));
        }
        self.namespaces.insert(namespace.name.clone(), namespace);
    }

    fn delete_namespace(&mut self, name: &Arc<str>) {
        self.namespaces.remove(name);
        self.touch_guests(name);
    }

    /// The permission for guests changed. What they held back there, others may now let go.
    fn touch_guests(&mut self, namespace: &Arc<str>) {
        if self.guests.get(namespace).is_some_and(|guests| !guests.is_empty()) {
            self.touched.extend(self.guests.get(namespace).into_iter().flatten());
            self.touched.extend(self.claims.sequences_in(namespace));
        }
    }

    fn saw(&mut self, kind: Kind, version: u64) {
        let newest = self.newest.entry(kind).or_default();
        *newest = version.max(*newest);
    }

    fn bury(&mut self, uid: Uid) {
        if self.tombstones.insert(uid) {
            self.tombstone_order.push_back(uid);
        }
        if self.tombstone_order.len() > TOMBSTONES {
            let oldest = self.tombstone_order.pop_front();
            oldest.map(|uid| self.tombstones.remove(&uid));
        }
    }

    /// Everything known of a kind, with its version.
    fn known(&self, kind: Kind) -> Vec<(Listed, u64)> {
        let uid = |uid: Uid, version: u64| (Listed::Uid(uid), version);
        match kind {
            Kind::Pod => self.pods.values().map(|entry| uid(entry.pod.uid, entry.pod.version)).collect(),
            Kind::Sequence => self.live_sequences().map(|live| uid(live.uid, live.version)).collect(),
            Kind::Note => self.notes.values().map(|note| uid(note.sequence, note.version)).collect(),
            Kind::Namespace => self
                .namespaces
                .values()
                .map(|there| (Listed::Name(there.name.clone()), there.version))
                .collect(),
            Kind::Node => {
                let name = |node: &Node| (Listed::Name(node.name.clone()), node.version);
                self.nodes.by_name.values().map(name).collect()
            }
            Kind::CsiNode => {
                let name = |drivers: &Drivers| (Listed::Name(drivers.node.clone()), drivers.version);
                self.nodes.drivers.values().map(name).collect()
            }
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
                let owners = self.owners.values().map(|entry| &entry.owner);
                let of_kind = owners.filter(|owner| Kind::of_owner(owner.kind) == Some(kind));
                of_kind.map(|owner| uid(owner.uid, owner.version)).collect()
            }
        }
    }

    fn forget_versions(&mut self, kind: Kind) {
        self.tombstones.clear();
        self.tombstone_order.clear();
        match kind {
            Kind::Pod => self.pods.values_mut().for_each(|entry| entry.pod.version = 0),
            Kind::Sequence => self.sequences.values_mut().for_each(|entry| entry.sequence.version = 0),
            Kind::Note => self.notes.values_mut().for_each(|note| note.version = 0),
            Kind::Namespace => self.namespaces.values_mut().for_each(|namespace| namespace.version = 0),
            Kind::Node => self.nodes.by_name.values_mut().for_each(|node| node.version = 0),
            Kind::CsiNode => self.nodes.drivers.values_mut().for_each(|drivers| drivers.version = 0),
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
                self.owners.values_mut().for_each(|entry| entry.owner.version = 0);
            }
        }
    }
}

/// How a list names what it lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    Uid(Uid),
    Name(Arc<str>),
}

impl Object {
    pub fn listed(&self) -> Listed {
        match self {
            Object::Pod(pod) => Listed::Uid(pod.uid),
            Object::Owner(owner) => Listed::Uid(owner.uid),
            Object::Namespace(namespace) => Listed::Name(namespace.name.clone()),
            Object::Sequence(sequence) => Listed::Uid(sequence.uid),
            Object::Note(note) => Listed::Uid(note.sequence),
            Object::Node(node) => Listed::Name(node.name.clone()),
            Object::Drivers(drivers) => Listed::Name(drivers.node.clone()),
        }
    }
}

fn no_cells(groups: usize) -> Vec<Cell> {
    std::iter::repeat_with(Cell::default).take(groups).collect()
}

/// Of claims sorted by sequence and group, the first of each sequence.
fn winners(claims: &[Claim]) -> impl Iterator<Item = Claim> {
    let mut last = None;
    claims.iter().copied().filter(move |claim| last.replace(claim.sequence) != Some(claim.sequence))
}
