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

pub use pods::Answer;

use crate::{
    Timestamp, Uid,
    cluster::{Cluster, Refusal, Target},
    decision::Subject,
    facts::{Namespace, Owner, Pod},
    key::{Feature, Key, Touched},
    kind::Kind,
    launch::{
        self,
        index::{Barrier, Launches, SeenBarrier},
    },
    node::{Drivers, Node},
    planted::{Bug, planted},
    reservation::{
        self, Reservations,
        index::WaitingClaimer,
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
        if self.known_version(&object) == Some(object.version()) {
            match &object {
                Object::Pod(pod) => self.cluster.forget_version_of(pod.uid),
                Object::Owner(owner) => self.cluster.forget_version_of(owner.uid),
                // Of nothing else are labels left out.
                Object::Namespace(_) | Object::Sequence(_) | Object::Note(_) => {}
                Object::Node(_) | Object::Drivers(_) | Object::Barrier(_) => {}
                Object::Order(_) | Object::Ticket(_) | Object::PriorityClass(_) => {}
            }
        }
        self.apply_answer(object);
    }

    /// The pods of a namespace, or its workloads of one kind, have been read again. What is not there any more is gone: the watch may be
    /// behind, and in a second start whoever is gone must not count. `version` is the list's.
    pub fn read_again_ended(&mut self, kind: Kind, namespace: &str, version: u64, listed: &BTreeSet<Listed>) {
        // Of a cluster that was restored from a backup, or merely old: it proves nothing.
        if self.cluster.freshness.newest(kind).is_some_and(|newest| version < newest) {
            return;
        }
        let gone = |uid: Uid, seen: u64| seen <= version && !listed.contains(&Listed::Uid(uid));
        if kind == Kind::Pod {
            let pods = self.cluster.pods().filter(|pod| *pod.namespace == *namespace);
            let pods: Vec<Uid> = pods.filter(|pod| gone(pod.uid, pod.version)).map(|pod| pod.uid).collect();
            pods.into_iter().for_each(|uid| self.delete_pod(uid));
        } else {
            let of_kind = |owner: &&Owner| Kind::of_owner(owner.kind) == Some(kind);
            let owners = self.cluster.owners().filter(of_kind).filter(|owner| *owner.namespace == *namespace);
            let owners: Vec<Uid> =
                owners.filter(|owner| gone(owner.uid, owner.version)).map(|owner| owner.uid).collect();
            owners.into_iter().for_each(|uid| self.delete_owner(uid));
        }
    }

    fn known_version(&self, object: &Object) -> Option<u64> {
        match object {
            Object::Pod(pod) => self.cluster.pod(pod.uid).map(|known| known.version),
            Object::Owner(owner) => self.cluster.owner(owner.uid).map(|known| known.version),
            Object::Namespace(there) => self.cluster.namespace(&there.name).map(|known| known.version),
            Object::Sequence(there) => self.sequences.get(there.uid).map(|known| known.sequence.version),
            Object::Note(note) => self.sequences.note(note.sequence).map(|known| known.version),
            Object::Node(node) => self.cluster.node(&node.name).map(|known| known.version),
            Object::Drivers(there) => self.cluster.drivers_on(&there.node).map(|known| known.version),
            Object::Barrier(_) => None,
            Object::Order(there) => self.reservations.order(there.uid).map(|known| known.order.version),
            Object::Ticket(there) => self.reservations.ticket(there.uid).map(|known| known.version),
            Object::PriorityClass(there) => self.reservations.class(&there.name).map(|known| known.version),
        }
    }

    /// Whether something newer is known than this: a late word about an object of which there is another one under its name by
    /// now. Who is known by a uid is gone for ever.
    pub fn knows_newer(&self, object: &Object) -> bool {
        let by_uid = matches!(
            object,
            Object::Pod(_) | Object::Owner(_) | Object::Sequence(_) | Object::Order(_) | Object::Ticket(_)
        );
        !by_uid && self.known_version(object).is_some_and(|known| known > object.version())
    }

    /// An object is gone.
    pub fn delete(&mut self, object: Object) {
        if self.knows_newer(&object) {
            return;
        }
        match object {
            Object::Pod(pod) => self.delete_pod(pod.uid),
            Object::Owner(owner) => self.delete_owner(owner.uid),
            Object::Namespace(namespace) => self.delete_namespace(&namespace.name),
            Object::Sequence(sequence) => self.delete_sequence(sequence.uid),
            Object::Note(note) => {
                self.cluster.freshness.advance_newest(Kind::Note, note.version);
                self.delete_note(note.sequence);
            }
            Object::Node(node) => self.delete_node(&node.name),
            Object::Drivers(drivers) => self.delete_drivers(&drivers.node),
            Object::Barrier(barrier) => self.barrier_absent(barrier.pod),
            Object::Order(order) => self.delete_order(order.uid),
            Object::Ticket(ticket) => self.delete_ticket(ticket.uid),
            Object::PriorityClass(class) => self.reservations.delete_class(&class.name, &mut self.touched),
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
            self.forget_versions(kind);
        }
        if kind == Kind::Sequence {
            self.sequences.list_begins();
        }
    }

    fn forget_versions(&mut self, kind: Kind) {
        match kind {
            Kind::Sequence => self.sequences.forget_versions(),
            Kind::Note => self.sequences.forget_note_versions(),
            Kind::Order | Kind::Ticket | Kind::PriorityClass => self.reservations.forget_versions(kind),
            Kind::Pod
            | Kind::Namespace
            | Kind::Node
            | Kind::CsiNode
            | Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob
            | Kind::Barrier => self.cluster.forget_versions(kind),
        }
    }

    /// A list of one kind has been applied whole; what it did not name is gone, unless it was seen newer than the
    /// list (in an answer to a write of our own).
    pub fn list_ended(&mut self, kind: Kind, listed: &BTreeSet<Listed>) {
        let list = self.cluster.freshness.last_list(kind);
        let (version, restored) = list.map_or((u64::MAX, false), |list| (list.version, list.restored));
        let known = self.known(kind).into_iter();
        for (gone, _) in known.filter(|(known, seen)| *seen <= version && !listed.contains(known)) {
            match (kind, gone, restored) {
                (Kind::Pod, Listed::Uid(uid), false) => self.delete_pod(uid),
                (Kind::Pod, Listed::Uid(uid), true) => self.forget_pod(uid),
                (Kind::Sequence, Listed::Uid(uid), false) => self.delete_sequence(uid),
                (Kind::Sequence, Listed::Uid(uid), true) => {
                    self.sequences.forget(&mut self.cluster, uid, &mut self.touched);
                }
                (Kind::Note, Listed::Uid(uid), _) => self.delete_note(uid),
                (Kind::Namespace, Listed::Name(name), _) => self.delete_namespace(&name),
                (Kind::Node, Listed::Name(name), _) => self.delete_node(&name),
                (Kind::CsiNode, Listed::Name(name), _) => self.delete_drivers(&name),
                (Kind::PriorityClass, Listed::Name(name), _) => {
                    self.reservations.delete_class(&name, &mut self.touched);
                }
                (Kind::Order, Listed::Uid(uid), false) => self.delete_order(uid),
                (Kind::Order, Listed::Uid(uid), true) => {
                    self.reservations.delete_order(uid, &mut self.touched)
                }
                (Kind::Ticket, Listed::Uid(uid), false) => self.delete_ticket(uid),
                (Kind::Ticket, Listed::Uid(uid), true) => {
                    self.reservations.delete_ticket(uid, &mut self.touched);
                }
                (_, Listed::Uid(uid), false) => self.delete_owner(uid),
                (_, Listed::Uid(uid), true) => self.forget_owner(uid),
                (_, Listed::Name(_), _) => {}
            }
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
        match kind.is_of_reservations() {
            true => self.serves_reservations(),
            false => kind.is_watched(self.sequences.mode().full),
        }
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

    fn delete_sequence(&mut self, uid: Uid) {
        self.cluster.freshness.add_tombstone(uid);
        self.sequences.delete(&mut self.cluster, uid, &mut self.touched);
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

    fn delete_order(&mut self, uid: Uid) {
        self.cluster.freshness.add_tombstone(uid);
        self.reservations.delete_order(uid, &mut self.touched);
    }

    fn apply_ticket(&mut self, ticket: Ticket) {
        let known = self.reservations.ticket(ticket.uid).map(|known| known.version);
        if self.cluster.freshness.admits(Kind::Ticket, Some(ticket.uid), known, ticket.version) {
            self.reservations.apply_ticket(ticket, &mut self.touched);
        }
    }

    pub fn delete_ticket(&mut self, uid: Uid) {
        self.cluster.freshness.add_tombstone(uid);
        self.reservations.delete_ticket(uid, &mut self.touched);
    }

    /// A write for reservations has been answered.
    pub fn reservation_write_ended(&mut self, target: &Target) {
        self.cluster.in_flight.end(target);
        match (target.kind, target.uid) {
            (Kind::Ticket, Some(uid)) => self.reservations.write_ended(uid, &mut self.touched),
            // Made or not: every ticket that needs it has waited for the one that asked for it.
            (Kind::PriorityClass, _) if planted(Bug::ClassForgotten) => {}
            (Kind::PriorityClass, _) => self.reservations.touch_pending(&mut self.touched),
            _ => {}
        }
    }

    /// A write for an Order or a ticket was refused, or was not.
    pub fn reservation_refused(&mut self, uid: Uid, refusal: Option<Refusal>) {
        self.reservations.refused(uid, refusal, &mut self.touched);
    }

    pub fn keep_of_ticket(&mut self, ticket: Uid, let_go: Option<Timestamp>) {
        self.reservations.keep_ticket(ticket, let_go);
    }

    pub fn keep_of_claim(&mut self, pod: Uid, waiting: WaitingClaimer) {
        if let Some(pod) = self.cluster.pod(pod) {
            self.reservations.keep_waiting(pod, waiting);
        }
    }

    fn sweep(&mut self) {
        self.sequences.sweep(&self.cluster, &mut self.touched);
    }

    /// Everything known of a kind, with its version.
    fn known(&self, kind: Kind) -> Vec<(Listed, u64)> {
        let uid = |uid: Uid, version: u64| (Listed::Uid(uid), version);
        let name = |name: &Arc<str>, version: u64| (Listed::Name(name.clone()), version);
        match kind {
            Kind::Pod => self.cluster.pods().map(|pod| uid(pod.uid, pod.version)).collect(),
            Kind::Sequence => self.sequences.live().map(|live| uid(live.uid, live.version)).collect(),
            Kind::Note => self.sequences.notes().map(|note| uid(note.sequence, note.version)).collect(),
            Kind::Namespace => {
                self.cluster.namespaces().map(|there| name(&there.name, there.version)).collect()
            }
            Kind::Node => self.cluster.all_nodes().map(|node| name(&node.name, node.version)).collect(),
            Kind::CsiNode => {
                self.cluster.drivers().map(|drivers| name(&drivers.node, drivers.version)).collect()
            }
            Kind::Barrier => Vec::new(),
            Kind::Order => {
                let orders = self.reservations.orders();
                orders.map(|entry| uid(entry.order.uid, entry.order.version)).collect()
            }
            Kind::Ticket => {
                self.reservations.tickets().map(|ticket| uid(ticket.uid, ticket.version)).collect()
            }
            Kind::PriorityClass => {
                self.reservations.classes().map(|class| name(&class.name, class.version)).collect()
            }
            Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob => {
                let of_kind = |owner: &&Owner| Kind::of_owner(owner.kind) == Some(kind);
                self.cluster.owners().filter(of_kind).map(|owner| uid(owner.uid, owner.version)).collect()
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

impl Index {
    /// The version of an object that people are told about; nothing if it is gone.
    pub fn version_of(&self, subject: &Subject) -> Option<u64> {
        let Subject { kind, uid, .. } = subject;
        match kind {
            Kind::Sequence => {
                let entry = self.sequences.get(*uid).filter(|entry| !entry.ghost)?;
                Some(entry.sequence.version)
            }
            Kind::Pod => self.cluster.pod(*uid).map(|pod| pod.version),
            Kind::Deployment
            | Kind::ReplicaSet
            | Kind::StatefulSet
            | Kind::DaemonSet
            | Kind::Job
            | Kind::CronJob => self.cluster.owner(*uid).map(|owner| owner.version),
            Kind::Namespace => self.cluster.namespace(&subject.name).map(|there| there.version),
            Kind::Node => self.cluster.node(&subject.name).map(|node| node.version),
            Kind::CsiNode => self.cluster.drivers_on(&subject.name).map(|drivers| drivers.version),
            Kind::Note => self.sequences.note(*uid).map(|note| note.version),
            Kind::Barrier => None,
            Kind::Order => self.reservations.order(*uid).map(|entry| entry.order.version),
            Kind::Ticket => self.reservations.ticket(*uid).map(|ticket| ticket.version),
            Kind::PriorityClass => self.reservations.class(&subject.name).map(|class| class.version),
        }
    }
}

impl Object {
    pub fn version(&self) -> u64 {
        match self {
            Object::Pod(pod) => pod.version,
            Object::Owner(owner) => owner.version,
            Object::Namespace(namespace) => namespace.version,
            Object::Sequence(sequence) => sequence.version,
            Object::Note(note) => note.version,
            Object::Node(node) => node.version,
            Object::Drivers(drivers) => drivers.version,
            Object::Barrier(barrier) => barrier.version,
            Object::Order(order) => order.version,
            Object::Ticket(ticket) => ticket.version,
            Object::PriorityClass(class) => class.version,
        }
    }

    pub fn listed(&self) -> Listed {
        match self {
            Object::Pod(pod) => Listed::Uid(pod.uid),
            Object::Owner(owner) => Listed::Uid(owner.uid),
            Object::Namespace(namespace) => Listed::Name(namespace.name.clone()),
            Object::Sequence(sequence) => Listed::Uid(sequence.uid),
            Object::Note(note) => Listed::Uid(note.sequence),
            Object::Node(node) => Listed::Name(node.name.clone()),
            Object::Drivers(drivers) => Listed::Name(drivers.node.clone()),
            Object::Barrier(barrier) => Listed::Uid(barrier.uid),
            Object::Order(order) => Listed::Uid(order.uid),
            Object::Ticket(ticket) => Listed::Uid(ticket.uid),
            Object::PriorityClass(class) => Listed::Name(class.name.clone()),
        }
    }
}
