//! The index: the facts of the cluster, and of every feature what it counts on them. Synchronous; takes one changed object at a
//! time and says which keys are touched by it.
//!
//! ```text
//! changed object ──▶ freshness ──▶ cluster (facts) ──▶ sequences (counts) ──▶ touched keys
//! ```
//!
//! One rule keeps the counts right: whoever changes a fact lets the pod leave the features first and enter them afterwards
//! ([`Index::pod_leaves`], [`Index::pod_enters`]).

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
        index::{ReleasedClaim, WaitingClaimer},
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
    /// The ConfigMap of a pod. Not watched: looked at, or written.
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

    /// An index that counts by node, too.
    pub fn of_full_mode() -> Index {
        Index::new(Mode { full: true, ..Mode::default() })
    }

    /// What decisions about sequences rest on.
    pub fn facts(&self) -> Facts<'_> {
        Facts { cluster: &self.cluster, sequences: &self.sequences }
    }

    /// What decisions about the order of containers rest on.
    pub fn launch_facts(&self) -> launch::Facts<'_> {
        launch::Facts { cluster: &self.cluster, launches: &self.launches }
    }

    /// What decisions about reservations rest on.
    pub fn reservation_facts(&self) -> reservation::Facts<'_> {
        reservation::Facts { cluster: &self.cluster, reservations: &self.reservations }
    }

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

    /// Takes in the answer to a write of our own. It does not tell how far the watch has come: a list that was taken before the
    /// write may arrive after its answer. Such a list is merely old; it does not mean that the cluster was restored.
    pub fn apply_answer(&mut self, object: Object) {
        let newest = self.cluster.freshness.all_newest();
        self.apply(object);
        self.cluster.freshness.set_newest(newest);
    }

    /// Takes in an object that was read again because more of its labels are wanted than before: the same version may say more
    /// now. It does not tell how far the watch has come, either.
    pub fn apply_read_again(&mut self, object: Object) {
        if let Listed::Uid(uid) = object.listed()
            && self.known_version(&object) == Some(object.version())
        {
            self.cluster.forget_version_of(uid);
        }
        self.apply_answer(object);
    }

    /// The pods of a namespace, or its workloads of one kind, have been read again. Whatever is missing is gone: the watch may be
    /// behind, and a deleted pod must not count in a second start. `version` is the list's.
    pub fn read_again_ended(&mut self, kind: Kind, namespace: &str, version: u64, listed: &BTreeSet<Listed>) {
        // Of a cluster that was restored from a backup, or merely old: it proves nothing.
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

    /// The version in which an object is known.
    pub fn version(&self, kind: Kind, object: &Listed) -> Option<u64> {
        self.table(kind)?.version_of(kind, object)
    }

    /// The known objects of a kind that a list lacks, without those that were seen newer than the list.
    fn missing(&self, kind: Kind, version: u64, listed: &BTreeSet<Listed>) -> Vec<Listed> {
        let known = self.table(kind).map(|table| table.known(kind)).unwrap_or_default().into_iter();
        let missing = known.filter(|(known, seen)| *seen <= version && !listed.contains(known));
        missing.map(|(known, _)| known).collect()
    }

    fn known_version(&self, object: &Object) -> Option<u64> {
        self.version(object.kind()?, &object.listed())
    }

    /// Whether a newer object is known in place of this one, so that a late message about this one says nothing about the other.
    /// An object that is known by its uid has no successor.
    pub fn knows_newer(&self, object: &Object) -> bool {
        let comes_back = object.kind().is_some_and(|kind| kind.identity() != Identity::Uid);
        comes_back && self.known_version(object).is_some_and(|known| known > object.version())
    }

    /// An object is gone.
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

    /// Removes an object. After a restore from a backup it was not deleted, and may be created again.
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

    /// A watch has come this far: nothing of its kind has changed up to this version but what was told.
    pub fn heard_until(&mut self, kind: Kind, version: u64) {
        self.cluster.freshness.advance_newest(kind, version);
        if kind == Kind::Sequence {
            self.sweep();
        }
    }

    /// A list of one kind begins: until it has ended, no decision is taken. `version` is the list's. Below
    /// what was seen before it means a cluster restored from a backup: then what we know is not newer.
    pub fn list_begins(&mut self, kind: Kind, version: u64) {
        if self.cluster.freshness.list_begins(kind, version) {
            self.table_mut(kind).into_iter().for_each(Table::forget_versions);
        }
        if kind == Kind::Sequence {
            self.sequences.list_begins();
        }
    }

    /// A list of one kind has been applied whole; what it did not name is gone, unless it was seen newer than the
    /// list (in an answer to a write of our own).
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

    /// The kinds it has to be told about.
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

    /// Every kind has been listed that a feature needs: it may decide.
    pub fn is_synced(&self, feature: Feature) -> bool {
        let served = feature != Feature::Reservation || self.serves_reservations();
        let mut needed = Kind::ALL.iter().filter(|kind| kind.is_needed_by(feature) && self.is_told(**kind));
        served && needed.all(|kind| self.cluster.freshness.is_synced(*kind))
    }

    /// A kind cannot be read any more. What is known of it stays, and nothing is decided on it until it can be read again.
    pub fn kind_is_frozen(&mut self, kind: Kind) {
        self.cluster.freshness.set_unsynced(kind);
    }

    /// A kind that cannot be watched counts as listed and empty. But not the sequences: a missing CRD is no proof of deletion,
    /// and a deletion would release pods.
    pub fn kind_is_unavailable(&mut self, kind: Kind) {
        if kind != Kind::Sequence {
            self.cluster.freshness.forget_list(kind);
            self.list_ended(kind, &BTreeSet::new());
        }
        self.set_synced(kind);
    }

    /// The keys touched since the last call.
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
        // The entry itself compares versions: a ghost gives way to any view of a sequence that lives.
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

    /// A note has been written; this is what it says now. If the watch is further than that and knows of no such note, it has
    /// been removed since.
    pub fn note_written(&mut self, note: Note) {
        let seen = self.cluster.freshness.newest(Kind::Note).is_some_and(|newest| note.version <= newest);
        if !seen || self.sequences.note(note.sequence).is_some() {
            self.apply_answer(Object::Note(note));
        }
    }

    pub fn delete_note(&mut self, sequence: Uid) {
        self.sequences.delete_note(sequence, &mut self.touched);
    }

    /// Keeps what the next decision about a sequence is to know.
    pub fn keep_of_sequence(&mut self, uid: Uid, recorded: Recorded, nodes: Judgements, unseen: UnseenNodes) {
        self.sequences.remember(uid, recorded, &mut self.touched);
        self.sequences.remember_nodes(&self.cluster, uid, nodes);
        self.sequences.remember_unseen(unseen);
    }

    /// The ConfigMap of a pod is not there.
    pub fn barrier_absent(&mut self, pod: Uid) {
        self.launches.barrier_is(pod, Barrier::Absent, &mut self.touched);
    }

    /// The ConfigMap of a pod is not what it was taken for.
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

    /// A write for reservations has been answered.
    pub fn reservation_write_ended(&mut self, target: &Target) {
        self.cluster.in_flight.end(target);
        match (target.kind, target.uid) {
            (Kind::Ticket, Some(uid)) => self.reservations.write_ended(uid, &mut self.touched),
            // Made or not: every ticket that needs it has waited for the one that asked for it.
            (Kind::PriorityClass, _) => self.reservations.touch_pending(&mut self.touched),
            _ => {}
        }
    }

    /// A write for an Order or a ticket was refused, or was not.
    pub fn reservation_refused(&mut self, uid: Uid, refusal: Option<Refusal>) {
        self.reservations.refused(uid, refusal, &mut self.touched);
    }

    pub fn keep_of_ticket(&mut self, ticket: Uid, released: Option<ReleasedClaim>) {
        self.reservations.keep_ticket(ticket, released);
    }

    pub fn keep_of_claim(&mut self, pod: Uid, waiting: WaitingClaimer) {
        if let Some(pod) = self.cluster.pod(pod) {
            self.reservations.keep_waiting(pod, waiting);
        }
    }

    fn sweep(&mut self) {
        self.sequences.sweep(&self.cluster, &mut self.touched);
    }

    /// The version of an object that people are told about; nothing if it is gone.
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
    /// `None` for a workload of a kind that is not watched.
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
