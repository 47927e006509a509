//! The parts of each kind that are read.

use rollcall_api::load;
use rollcall_api::reservation::{OrderObject, OrderStatus, PriorityClassObject, TicketObject};
use rollcall_api::sequence::{KnownSpec, PodSequenceStatus, SequenceObject, note::NoteObject};
use rollcall_api::watch::{CsiNodeObject, KeptLabels, NamespaceObject, NodeObject, OwnerObject, PodObject};
use rollcall_core::Uid;
use rollcall_core::index::Object;
use rollcall_core::kind::Kind;
use rollcall_core::sequence::Sequence;
use std::collections::BTreeMap;

/// An object with the data needed to write its status, for kinds whose status we write.
pub struct Item {
    pub object: Object,
    pub written: Option<Box<AnyWritten>>,
}

/// The current status of an object, by kind.
pub enum AnyWritten {
    Sequence(WrittenStatus<PodSequenceStatus>),
    Order(WrittenStatus<OrderStatus>),
}

/// The current status of an object, with its version.
#[derive(Clone, Debug)]
pub struct WrittenStatus<S> {
    pub uid: Uid,
    pub version: u64,
    pub status: Option<S>,
    pub resource_version: String,
    pub generation: i64,
}

/// An object that a watch reads.
pub trait Watched: load::Watched {
    /// Converts the object. `None` for an object that the controller does not handle.
    fn item(self, known: &mut Known) -> Option<Item> {
        Some(Item::plain(self.object(known.kind, &known.labels)?))
    }
}

/// Data that a watch keeps about the objects that it reads.
#[derive(Debug)]
pub struct Known {
    pub kind: Kind,
    pub labels: KeptLabels,
    /// The latest specs of the sequences, so that a change of only the status does not require parsing a thousand groups.
    pub specs: BTreeMap<Uid, KnownSpec>,
}

impl Known {
    fn sequence(&mut self, object: &SequenceObject) -> Sequence {
        let uid = object.metadata.uid();
        let sequence = object.facts_knowing(self.specs.get(&uid));
        self.specs.insert(uid, KnownSpec::from(&sequence));
        sequence
    }
}

impl Item {
    pub fn plain(object: Object) -> Item {
        Item { object, written: None }
    }
}

impl Watched for PodObject {}
impl Watched for NamespaceObject {}
impl Watched for OwnerObject {}
impl Watched for NodeObject {}
impl Watched for CsiNodeObject {}
impl Watched for TicketObject {}
impl Watched for PriorityClassObject {}
impl Watched for NoteObject {}

impl Watched for SequenceObject {
    fn item(self, known: &mut Known) -> Option<Item> {
        let facts = known.sequence(&self);
        Some(of_sequence(&self, facts))
    }
}

pub fn of_sequence(object: &SequenceObject, facts: Sequence) -> Item {
    let written = WrittenStatus {
        uid: facts.uid,
        version: facts.version,
        status: object.status(),
        resource_version: object.metadata.resource_version.clone(),
        generation: object.metadata.generation.unwrap_or_default(),
    };
    Item { object: Object::Sequence(facts), written: Some(Box::new(AnyWritten::Sequence(written))) }
}

impl Watched for OrderObject {
    fn item(self, _: &mut Known) -> Option<Item> {
        Some(of_order(&self))
    }
}

pub fn of_order(object: &OrderObject) -> Item {
    let facts = object.facts();
    let written = WrittenStatus {
        uid: facts.uid,
        version: facts.version,
        status: object.status(),
        resource_version: object.metadata.resource_version.clone(),
        generation: facts.generation,
    };
    Item { object: Object::Order(Box::new(facts)), written: Some(Box::new(AnyWritten::Order(written))) }
}
