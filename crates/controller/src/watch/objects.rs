//! What is read of each kind.

use rollcall_api::reservation::{OrderObject, OrderStatus, PriorityClassObject, TicketObject};
use rollcall_api::sequence::{KnownSpec, PodSequenceStatus, SequenceObject, note::NoteObject};
use rollcall_api::watch::{CsiNodeObject, KeptLabels, NamespaceObject, NodeObject, OwnerObject, PodObject};
use rollcall_core::Uid;
use rollcall_core::index::Object;
use rollcall_core::kind::Kind;
use rollcall_core::sequence::Sequence;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// An object, and what is needed to write its status where that is ours.
pub struct Item {
    pub object: Object,
    pub written: Option<Box<AnyWritten>>,
}

/// What the status of an object says, by its kind.
pub enum AnyWritten {
    Sequence(Written<PodSequenceStatus>),
    Order(Written<OrderStatus>),
}

/// What an object has in its status now.
#[derive(Clone, Debug)]
pub struct Written<S> {
    pub uid: Uid,
    pub version: u64,
    pub status: Option<S>,
    pub resource_version: String,
    pub generation: i64,
}

/// What can be listed and watched.
pub trait Watched: DeserializeOwned + Clone + Send + 'static {
    /// Its resourceVersion; nothing if it has none.
    fn version(&self) -> String;
    fn uid(&self) -> Uid;
    /// `None` for what is not ours to understand.
    fn item(self, known: &mut Known) -> Option<Item>;
}

/// What a watch knows about the objects that it reads.
#[derive(Debug)]
pub struct Known {
    pub kind: Kind,
    pub labels: KeptLabels,
    /// The specs of the sequences as they were seen last, so that news of a status need not read a thousand groups.
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

fn plain(object: Object) -> Option<Item> {
    Some(Item::plain(object))
}

/// What every object has that is kept as it came.
macro_rules! by_metadata {
    () => {
        fn version(&self) -> String {
            self.metadata.resource_version.clone()
        }
        fn uid(&self) -> Uid {
            self.metadata.uid()
        }
    };
}

impl Watched for PodObject {
    by_metadata!();
    fn item(self, known: &mut Known) -> Option<Item> {
        plain(Object::Pod(self.facts_keeping(&known.labels)))
    }
}

impl Watched for NamespaceObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        plain(Object::Namespace(self.facts()))
    }
}

impl Watched for OwnerObject {
    by_metadata!();
    fn item(self, known: &mut Known) -> Option<Item> {
        plain(Object::Owner(self.facts_keeping(known.kind.owner()?, &known.labels)))
    }
}

impl Watched for NodeObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        plain(Object::Node(self.facts()))
    }
}

impl Watched for CsiNodeObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        plain(Object::Drivers(self.facts()))
    }
}

impl Watched for SequenceObject {
    by_metadata!();
    fn item(self, known: &mut Known) -> Option<Item> {
        let facts = known.sequence(&self);
        Some(of_sequence(&self, facts))
    }
}

pub fn of_sequence(object: &SequenceObject, facts: Sequence) -> Item {
    let written = Written {
        uid: facts.uid,
        version: facts.version,
        status: object.status(),
        resource_version: object.metadata.resource_version.clone(),
        generation: object.metadata.generation.unwrap_or_default(),
    };
    Item { object: Object::Sequence(facts), written: Some(Box::new(AnyWritten::Sequence(written))) }
}

impl Watched for OrderObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        Some(of_order(&self))
    }
}

pub fn of_order(object: &OrderObject) -> Item {
    let facts = object.facts();
    let written = Written {
        uid: facts.uid,
        version: facts.version,
        status: object.status(),
        resource_version: object.metadata.resource_version.clone(),
        generation: facts.generation,
    };
    Item { object: Object::Order(Box::new(facts)), written: Some(Box::new(AnyWritten::Order(written))) }
}

impl Watched for TicketObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        plain(Object::Ticket(Box::new(self.facts())))
    }
}

impl Watched for PriorityClassObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        plain(Object::PriorityClass(self.facts()))
    }
}

impl Watched for NoteObject {
    by_metadata!();
    fn item(self, _: &mut Known) -> Option<Item> {
        plain(Object::Note(self.facts()?))
    }
}
