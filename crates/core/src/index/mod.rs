//! The index: facts of the cluster, and the counts that each feature derives from them. It is synchronous: it takes one changed
//! object at a time and returns the keys that the change touches.
//!
//! ```text
//! changed object ──▶ freshness ──▶ cluster (facts) ──▶ sequences (counts) ──▶ touched keys
//! ```
//!
//! One rule keeps the counts right. Before code changes a fact about a pod, it calls [`Index::pod_leaves`], which removes the
//! pod from all counts. Afterwards, it calls [`Index::pod_enters`], which adds the pod again.

mod nodes;
mod owners;
mod pods;

pub use crate::cluster::table::Listed;
pub use pods::Answer;

use crate::{
    Uid,
    cluster::{Cluster, Refusal, Target, table::Table},
    decision::Subject,
    facts::{Namespace, Owner, Pod},
    key::{Feature, Key, Touched},
    kind::{Identity, Kind},
    launch::{
        self,
        index::{Barrier, Launches, SeenBarrier},
    },
    node::{Drivers, Node},
    reservation::{
        self, Reservations,
        index::{ReleasedPodState, WaitingPodState},
        spec::{Order, PriorityClass, Ticket},
    },
    sequence::{
        self, Facts,
        index::{Mode, Note, Sequences, UnseenNodes},
        spec::Recorded,
        views::Judgements,
    },
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An object as it was last seen.
#[derive(Clone, Debug)]
pub enum Object {
    Pod(Pod),
    Owner(Owner),
    Namespace(Namespace),
    Sequence(sequence::Sequence),
    Note(Note),
    Node(Node),
    Drivers(Drivers),
    /// The ConfigMap of a pod. Not watched, but read and written individually.
    Barrier(SeenBarrier),
    Order(Box<Order>),
    Ticket(Box<Ticket>),
    PriorityClass(PriorityClass),
}

#[derive(Debug, Default)]
pub struct Index {
    pub cluster: Cluster,
    pub sequences: Sequences,
    pub launches: Launches,
    pub reservations: Reservations,
    touched: Touched,
}

impl Index {
    pub fn new(mode: Mode) -> Index {
        Index { sequences: Sequences::new(mode), ..Index::default() }
    }

    /// Creates an index for Full mode, which also counts by node.
    pub fn of_full_mode() -> Index {
        Index::new(Mode { full: true, ..Mode::default() })
    }

    /// The facts for decisions about sequences.
    pub fn facts(&self) -> Facts<'_> {
        Facts { cluster: &self.cluster, sequences: &self.sequences }
    }

    /// The facts for decisions about the start order of containers.
    pub fn launch_facts(&self) -> launch::Facts<'_> {
        launch::Facts { cluster: &self.cluster, launches: &self.launches }
    }

    /// The facts for decisions about reservations.
    pub fn reservation_facts(&self) -> reservation::Facts<'_> {
        reservation::Facts { cluster: &self.cluster, reservations: &self.reservations }
    }

    /// Applies the current state of an object. A view older than the known one is ignored.
    pub fn apply(&mut self, object: Object) {
        match object {
            Object::Pod(pod) => self.apply_pod(pod),
            Object::Owner(owner) => self.apply_owner(owner),
            Object::Namespace(namespace) => self.apply_namespace(namespace),
            Object::Sequence(sequence) => self.apply_sequence(sequence),
            Object::Note(note) => self.apply_note(note),
            Object::Node(node) => self.apply_node(node),
            Object::Drivers(drivers) => self.apply_drivers(drivers),
            Object::Barrier(barrier) => {
                self.launches.barrier_seen(&self.cluster, &barrier, &mut self.touched);
            }
            Object::Order(order) => self.apply_order(*order),
            Object::Ticket(ticket) => self.apply_ticket(*ticket),
            Object::PriorityClass(class) => {
                self.cluster.freshness.advance_newest(Kind::PriorityClass, class.version);
                self.reservations.apply_class(class, &mut self.touched);
            }
        }
    }

    /// Applies the object in the answer to our own write. It does not advance the version that the watch has reached: a list
    /// taken before the write may arrive after the answer. Such a list is merely old, and no sign of a restored cluster.
    pub fn apply_answer(&mut self, object: Object) {
        let newest = self.cluster.freshness.all_newest();
        self.apply(object);
        self.cluster.freshness.set_newest(newest);
    }

    /// Applies an object that was read again because selectors now need more of its labels: the same version may contain more
    /// than before. Like an answer, it does not advance the version that the watch has reached.
    pub fn apply_read_again(&mut self, object: Object) {
        if let Listed::Uid(uid) = object.listed()
            && self.known_version(&object) == Some(object.version())
        {
            self.cluster.forget_version_of(uid);
        }
        self.apply_answer(object);
    }

    /// Ends a repeated read of the pods, or the workloads of one kind, in a namespace. Removes the objects that are missing in
    /// it: the watch may lag behind, and a deleted pod must not count in a second start. `version` is that of the list.
    pub fn read_again_ended(&mut self, kind: Kind, namespace: &str, version: u64, listed: &BTreeSet<Listed>) {
        // The list is outdated, or from a cluster restored from a backup: a missing object in it may still exist.
        if self.cluster.freshness.newest(kind).is_some_and(|newest| version < newest) {
            return;
        }
        for gone in self.missing(kind, version, listed) {
            if let Listed::Uid(uid) = gone
                && self.cluster.namespace_of(uid).is_some_and(|there| **there == *namespace)
            {
                self.remove(kind, gone, false);
            }
        }
    }

    fn table(&self, kind: Kind) -> Option<&dyn Table> {
        let table = self.cluster.table(kind).or_else(|| self.sequences.table(kind));
        table.or_else(|| self.reservations.table(kind))
    }

    fn table_mut(&mut self, kind: Kind) -> Option<&mut dyn Table> {
        let table = self.cluster.table_mut(kind).or_else(|| self.sequences.table_mut(kind));
        table.or_else(|| self.reservations.table_mut(kind))
    }

    /// The latest known version of an object.
    pub fn version(&self, kind: Kind, object: &Listed) -> Option<u64> {
        self.table(kind)?.version_of(kind, object)
    }

    /// The known objects of a kind that a list lacks, except those seen in a newer version than the list.
    fn missing(&self, kind: Kind, version: u64, listed: &BTreeSet<Listed>) -> Vec<Listed> {
        let known = self.table(kind).map(|table| table.listed_of_kind(kind)).unwrap_or_default().into_iter();
        let missing = known.filter(|(known, seen)| *seen <= version && !listed.contains(known));
        missing.map(|(known, _)| known).collect()
    }

    fn known_version(&self, object: &Object) -> Option<u64> {
        self.version(object.kind()?, &object.listed())
    }

    /// Whether a newer object with the same identity is known, so that a late event about `object` must not affect it. Never
    /// true for kinds that are identified by uid.
    pub fn knows_newer(&self, object: &Object) -> bool {
        let comes_back = object.kind().is_some_and(|kind| kind.identity() != Identity::Uid);
        comes_back && self.known_version(object).is_some_and(|known| known > object.version())
    }

    /// Applies the deletion of an object.
    pub fn delete(&mut self, object: Object) {
        if self.knows_newer(&object) {
            return;
        }
        match (object.kind(), object) {
            (_, Object::Barrier(barrier)) => self.barrier_absent(barrier.pod),
            (Some(kind), object) => {
                if kind == Kind::Note {
                    self.cluster.freshness.advance_newest(kind, object.version());
                }
                self.remove(kind, object.listed(), false);
            }
            (None, _) => {}
        }
    }

    /// Removes an object. After a restore from a backup, the object was not deleted and may be created again.
    fn remove(&mut self, kind: Kind, gone: Listed, restored: bool) {
        let (cluster, touched) = (&mut self.cluster, &mut self.touched);
        if let Listed::Uid(uid) = gone
            && kind.identity() == Identity::Uid
            && !restored
        {
            cluster.freshness.add_tombstone(uid);
        }
        match (kind, gone) {
            (Kind::Pod, Listed::Uid(uid)) => self.forget_pod(uid),
            (Kind::Sequence, Listed::Uid(uid)) if restored => self.sequences.forget(cluster, uid, touched),
            (Kind::Sequence, Listed::Uid(uid)) => self.sequences.delete(cluster, uid, touched),
            (Kind::Note, Listed::Uid(uid)) => self.delete_note(uid),
            (Kind::Order, Listed::Uid(uid)) => self.reservations.delete_order(uid, touched),
            (Kind::Ticket, Listed::Uid(uid)) => self.reservations.delete_ticket(uid, touched),
            (_, Listed::Uid(uid)) => self.forget_owner(uid),
            (Kind::Namespace, Listed::Name(name)) => self.delete_namespace(&name),
            (Kind::Node, Listed::Name(name)) => self.delete_node(&name),
            (Kind::CsiNode, Listed::Name(name)) => self.delete_drivers(&name),
            (Kind::PriorityClass, Listed::Name(name)) => self.reservations.delete_class(&name, touched),
            (_, Listed::Name(_)) => {}
        }
    }

    /// Records that a watch has reached this version: all earlier changes of its kind have been applied.
    pub fn heard_until(&mut self, kind: Kind, version: u64) {
        self.cluster.freshness.advance_newest(kind, version);
        if kind == Kind::Sequence {
            self.sweep();
        }
    }

    /// Begins a list of one kind; no decisions are made until it ends. `version` is that of the list. If it is lower than one
    /// seen before, the cluster was restored from a backup, and known facts do not count as newer.
    pub fn list_begins(&mut self, kind: Kind, version: u64) {
        if self.cluster.freshness.list_begins(kind, version) {
            self.table_mut(kind).into_iter().for_each(Table::forget_versions);
        }
        if kind == Kind::Sequence {
            self.sequences.list_begins();
        }
    }

    /// Ends a list of one kind. Removes the objects that it lacks, unless they were seen in a newer version than the list (in
    /// the answer to our own write).
    pub fn list_ended(&mut self, kind: Kind, listed: &BTreeSet<Listed>) {
        let list = self.cluster.freshness.last_list(kind);
        let (version, restored) = list.map_or((u64::MAX, false), |list| (list.version, list.restored));
        for gone in self.missing(kind, version, listed) {
            self.remove(kind, gone, restored);
        }
        self.set_synced(kind);
    }

    fn set_synced(&mut self, kind: Kind) {
        self.cluster.freshness.set_synced(kind);
        self.sequences.adopt_notes(&mut self.cluster, &mut self.touched);
        self.sweep();
        if kind.is_needed_by(Feature::Reservation) && self.is_synced(Feature::Reservation) {
            self.reservations.keys_of_all(&mut self.touched);
        }
        if kind.is_needed_by(Feature::Sequence) && self.is_synced(Feature::Sequence) {
            self.touched.sequences(self.sequences.iter().map(|entry| entry.sequence.uid));
            self.launches.pods().for_each(|pod| self.touched.launch(pod));
        }
    }

    /// The kinds of objects that the index needs.
    pub fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.iter().copied().filter(|kind| self.is_told(*kind)).collect()
    }

    fn is_told(&self, kind: Kind) -> bool {
        let Mode { full, reservations, .. } = self.sequences.mode();
        kind.is_watched(full, reservations)
    }

    fn serves_reservations(&self) -> bool {
        let Mode { full, reservations, .. } = self.sequences.mode();
        full && reservations
    }

    /// Whether all kinds that the feature needs have been listed, so that it may decide.
    pub fn is_synced(&self, feature: Feature) -> bool {
        let served = feature != Feature::Reservation || self.serves_reservations();
        let mut needed = Kind::ALL.iter().filter(|kind| kind.is_needed_by(feature) && self.is_told(**kind));
        served && needed.all(|kind| self.cluster.freshness.is_synced(*kind))
    }

    /// Marks a kind as no longer readable. Its facts stay, and the features that need it decide nothing until it is readable
    /// again.
    pub fn kind_is_frozen(&mut self, kind: Kind) {
        self.cluster.freshness.set_unsynced(kind);
    }

    /// Marks a kind as impossible to watch: it counts as listed and empty. Sequences are an exception: a missing CRD does not
    /// prove that they were deleted, and their deletion would release pods.
    pub fn kind_is_unavailable(&mut self, kind: Kind) {
        if kind != Kind::Sequence {
            self.cluster.freshness.forget_list(kind);
            self.list_ended(kind, &BTreeSet::new());
        }
        self.set_synced(kind);
    }

    /// Returns the keys touched since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Key> {
        self.touched.take()
    }

    fn apply_namespace(&mut self, namespace: Namespace) {
        let known = self.cluster.namespace(&namespace.name).map(|known| known.version);
        if !self.cluster.freshness.admits(Kind::Namespace, None, known, namespace.version) {
            return;
        }
        let name = namespace.name.clone();
        let before = self.cluster.put_namespace(namespace);
        self.sequences.namespace_changed(&mut self.cluster, &name, before.as_ref(), &mut self.touched);
    }

    fn delete_namespace(&mut self, name: &Arc<str>) {
        let before = self.cluster.remove_namespace(name);
        self.sequences.namespace_changed(&mut self.cluster, name, before.as_ref(), &mut self.touched);
    }

    fn apply_sequence(&mut self, sequence: sequence::Sequence) {
        // The entry itself compares versions: any view of an existing sequence replaces a ghost.
        if self.cluster.freshness.admits(Kind::Sequence, Some(sequence.uid), None, sequence.version) {
            self.sequences.apply(&mut self.cluster, sequence, &mut self.touched);
        }
    }

    pub fn remove_finished_ghost(&mut self, uid: Uid) {
        self.sequences.remove_finished_ghost(&mut self.cluster, uid, &mut self.touched);
    }

    fn apply_note(&mut self, note: Note) {
        let known = self.sequences.note(note.sequence).map(|known| known.version);
        if self.cluster.freshness.admits(Kind::Note, None, known, note.version) {
            self.sequences.apply_note(&mut self.cluster, note, &mut self.touched);
        }
    }

    /// Applies a note after a successful write. If the watch has passed the version of the note without showing it, the note
    /// has been deleted meanwhile.
    pub fn note_written(&mut self, note: Note) {
        let seen = self.cluster.freshness.newest(Kind::Note).is_some_and(|newest| note.version <= newest);
        if !seen || self.sequences.note(note.sequence).is_some() {
            self.apply_answer(Object::Note(note));
        }
    }

    pub fn delete_note(&mut self, sequence: Uid) {
        self.sequences.delete_note(sequence, &mut self.touched);
    }

    /// Stores the information for the next decision about a sequence.
    pub fn keep_of_sequence(&mut self, uid: Uid, recorded: Recorded, nodes: Judgements, unseen: UnseenNodes) {
        self.sequences.remember(uid, recorded, &mut self.touched);
        self.sequences.remember_nodes(&self.cluster, uid, nodes);
        self.sequences.remember_unseen(unseen);
    }

    /// Records that the ConfigMap of a pod does not exist.
    pub fn barrier_absent(&mut self, pod: Uid) {
        self.launches.barrier_is(pod, Barrier::Absent, &mut self.touched);
    }

    /// Records that another client changed the ConfigMap of a pod, so that it must be read again.
    pub fn barrier_lost(&mut self, pod: Uid) {
        self.launches.barrier_is(pod, Barrier::Lost, &mut self.touched);
    }

    fn apply_order(&mut self, order: Order) {
        let known = self.reservations.order(order.uid).map(|known| known.order.version);
        if self.cluster.freshness.admits(Kind::Order, Some(order.uid), known, order.version) {
            self.reservations.apply_order(&self.cluster, order, &mut self.touched);
        }
    }

    fn apply_ticket(&mut self, ticket: Ticket) {
        let known = self.reservations.ticket(ticket.uid).map(|known| known.version);
        if self.cluster.freshness.admits(Kind::Ticket, Some(ticket.uid), known, ticket.version) {
            self.reservations.apply_ticket(&self.cluster, ticket, &mut self.touched);
        }
    }

    pub fn delete_ticket(&mut self, uid: Uid) {
        self.remove(Kind::Ticket, Listed::Uid(uid), false);
    }

    /// Records the answer to a write for reservations.
    pub fn reservation_write_ended(&mut self, target: &Target) {
        self.cluster.in_flight.end(target);
        match (target.kind, target.uid) {
            (Kind::Ticket, Some(uid)) => self.reservations.write_ended(uid, &mut self.touched),
            // Even if the creation failed: all tickets that need the class were waiting for this one write.
            (Kind::PriorityClass, _) => self.reservations.touch_pending(&mut self.touched),
            _ => {}
        }
    }

    /// Records whether a write for an Order or a ticket was rejected.
    pub fn reservation_refused(&mut self, uid: Uid, refusal: Option<Refusal>) {
        self.reservations.refused(uid, refusal, &mut self.touched);
    }

    pub fn keep_of_ticket(&mut self, ticket: Uid, released: Option<ReleasedPodState>) {
        self.reservations.keep_ticket(ticket, released);
    }

    pub fn keep_of_claim(&mut self, pod: Uid, waiting: WaitingPodState) {
        if let Some(pod) = self.cluster.pod(pod) {
            self.reservations.keep_waiting(pod, waiting);
        }
    }

    fn sweep(&mut self) {
        self.sequences.sweep(&self.cluster, &mut self.touched);
    }

    /// The known version of the object of an event; `None` if the object is deleted.
    pub fn version_of(&self, subject: &Subject) -> Option<u64> {
        let Subject { kind, name, uid, .. } = subject;
        let object = match kind.identity() {
            Identity::Name => Listed::Name(name.clone()),
            Identity::Uid | Identity::Subject => Listed::Uid(*uid),
        };
        self.version(*kind, &object)
    }
}

impl Object {
    /// The kind; `None` for a workload of a kind that is not watched.
    pub fn kind(&self) -> Option<Kind> {
        self.identify().0
    }

    pub fn listed(&self) -> Listed {
        self.identify().1
    }

    pub fn version(&self) -> u64 {
        self.identify().2
    }

    fn identify(&self) -> (Option<Kind>, Listed, u64) {
        let uid = |kind: Kind, uid: Uid, version: u64| (Some(kind), Listed::Uid(uid), version);
        let name =
            |kind: Kind, name: &Arc<str>, version: u64| (Some(kind), Listed::Name(name.clone()), version);
        match self {
            Object::Pod(pod) => uid(Kind::Pod, pod.uid, pod.version),
            Object::Owner(owner) => (Kind::of_owner(owner.kind), Listed::Uid(owner.uid), owner.version),
            Object::Namespace(namespace) => name(Kind::Namespace, &namespace.name, namespace.version),
            Object::Sequence(sequence) => uid(Kind::Sequence, sequence.uid, sequence.version),
            Object::Note(note) => uid(Kind::Note, note.sequence, note.version),
            Object::Node(node) => name(Kind::Node, &node.name, node.version),
            Object::Drivers(drivers) => name(Kind::CsiNode, &drivers.node, drivers.version),
            Object::Barrier(barrier) => uid(Kind::Barrier, barrier.uid, barrier.version),
            Object::Order(order) => uid(Kind::Order, order.uid, order.version),
            Object::Ticket(ticket) => uid(Kind::Ticket, ticket.uid, ticket.version),
            Object::PriorityClass(class) => name(Kind::PriorityClass, &class.name, class.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_watched_kind_has_a_table() {
        let index = Index::default();
        for kind in Kind::ALL {
            assert_eq!(index.table(*kind).is_some(), kind.is_watched(true, true), "{}", kind.as_str());
        }
    }
}
