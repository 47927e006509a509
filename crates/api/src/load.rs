//! Converts Kubernetes objects to facts of the core. The watches of the controller decode objects here. Programs that
//! read a cluster once, or hold one in memory, fill an [`Index`] with a [`Loader`].

use crate::reservation::{OrderObject, PriorityClassObject, TicketObject};
use crate::sequence::{SequenceObject, note::NoteObject};
use crate::watch::{CsiNodeObject, KeptLabels, Meta, NamespaceObject, NodeObject, OwnerObject, PodObject};
use jiff::Timestamp;
use rollcall_core::Uid;
use rollcall_core::cluster::Refusal;
use rollcall_core::dispatch::{decide, keep};
use rollcall_core::index::{Index, Object};
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::reservation::reason::Reason;
use rollcall_core::reservation::status::words_of_refusal;
use rollcall_core::sequence::{Reason as SequenceReason, Settings};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object of a watched kind, decoded as far as the core needs it.
pub trait Watched: DeserializeOwned + Clone + Send + 'static {
    fn metadata(&self) -> &Meta;

    /// The facts about the object, with those of its labels that `labels` keeps. `None` if the object is not what its
    /// kind suggests, such as a ConfigMap that is not a note.
    fn object(&self, kind: Kind, labels: &KeptLabels) -> Option<Object>;

    /// Writes for this object that the API server rejected. Only the controller saw the answers; the status of the
    /// object repeats them.
    fn rejected_writes(&self) -> Vec<RejectedWrite> {
        Vec::new()
    }
}

/// A write of the controller that the API server rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedWrite {
    to: RejectedObject,
    forbidden: bool,
    message: String,
    since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RejectedObject {
    Pod { namespace: String, name: String },
    Order(Uid),
}

macro_rules! watched {
    ($($object:ident: |$this:ident, $kind:pat_param, $labels:pat_param| $facts:expr;)*) => {$(
        impl Watched for $object {
            fn metadata(&self) -> &Meta {
                &self.metadata
            }
            fn object(&self, $kind: Kind, $labels: &KeptLabels) -> Option<Object> {
                let $this = self;
                Some($facts)
            }
        }
    )*};
}

watched! {
    PodObject: |this, _, labels| Object::Pod(this.facts_keeping(labels));
    OwnerObject: |this, kind, labels| Object::Owner(this.facts_keeping(kind.owner()?, labels));
    NamespaceObject: |this, _, _| Object::Namespace(this.facts());
    NodeObject: |this, _, _| Object::Node(this.facts());
    CsiNodeObject: |this, _, _| Object::Drivers(this.facts());
    NoteObject: |this, _, _| Object::Note(this.facts()?);
    TicketObject: |this, _, _| Object::Ticket(Box::new(this.facts()));
    PriorityClassObject: |this, _, _| Object::PriorityClass(this.facts());
}

impl Watched for SequenceObject {
    fn metadata(&self) -> &Meta {
        &self.metadata
    }

    fn object(&self, _: Kind, _: &KeptLabels) -> Option<Object> {
        Some(Object::Sequence(self.facts()))
    }

    fn rejected_writes(&self) -> Vec<RejectedWrite> {
        let Some((status, spec)) = self.status().zip(self.facts().spec.ok()) else { return Vec::new() };
        let rejected = status.blocked_by.into_iter().filter_map(|blocked| {
            let (name, message) = (blocked.pod?, blocked.message?);
            let namespace = spec.pod_namespace.to_string();
            Some(RejectedWrite {
                to: RejectedObject::Pod { namespace, name },
                forbidden: blocked.reason == "ReleaseForbidden",
                message,
                since: blocked.since.map(|since| since.get()),
            })
        });
        rejected.collect()
    }
}

impl Watched for OrderObject {
    fn metadata(&self) -> &Meta {
        &self.metadata
    }

    fn object(&self, _: Kind, _: &KeptLabels) -> Option<Object> {
        Some(Object::Order(Box::new(self.facts())))
    }

    fn rejected_writes(&self) -> Vec<RejectedWrite> {
        let conditions = self.status().map(|status| status.conditions).unwrap_or_default();
        let rejected = conditions.iter().filter(|condition| {
            condition.type_ == "Failure"
                && condition.status == "True"
                && condition.reason == Reason::TicketRefused.code()
        });
        let write = rejected.map(|condition| RejectedWrite {
            to: RejectedObject::Order(self.metadata.uid()),
            forbidden: true,
            message: words_of_refusal(&condition.message).into(),
            since: Some(condition.last_transition_time.0),
        });
        write.collect()
    }
}

struct Decoded {
    object: Object,
    rejected: Vec<RejectedWrite>,
}

fn decoded<T: Watched>(kind: Kind, object: &T) -> Option<Decoded> {
    Some(Decoded { object: object.object(kind, &KeptLabels::all())?, rejected: object.rejected_writes() })
}

/// The facts about an object, with all its labels. `None` if it does not have the shape of its kind.
pub fn object(kind: Kind, object: &Value) -> Option<Object> {
    Some(decode(kind, object)?.object)
}

fn decode(kind: Kind, object: &Value) -> Option<Decoded> {
    fn as_<T: Watched>(kind: Kind, object: &Value) -> Option<Decoded> {
        decoded(kind, &T::deserialize(object).ok()?)
    }
    match kind {
        Kind::Pod => as_::<PodObject>(kind, object),
        Kind::Deployment
        | Kind::ReplicaSet
        | Kind::StatefulSet
        | Kind::DaemonSet
        | Kind::Job
        | Kind::CronJob => as_::<OwnerObject>(kind, object),
        Kind::Namespace => as_::<NamespaceObject>(kind, object),
        Kind::Sequence => as_::<SequenceObject>(kind, object),
        Kind::Note => as_::<NoteObject>(kind, object),
        Kind::Node => as_::<NodeObject>(kind, object),
        Kind::CsiNode => as_::<CsiNodeObject>(kind, object),
        Kind::Order => as_::<OrderObject>(kind, object),
        Kind::Ticket => as_::<TicketObject>(kind, object),
        Kind::PriorityClass => as_::<PriorityClassObject>(kind, object),
        // Not watched: the pod that a barrier belongs to has all facts about it.
        Kind::Barrier => None,
    }
}

/// Whether a controller in Lite mode has reconciled any of these sequences: it reports that it does not support Node
/// scope.
pub fn is_served_in_lite_mode(sequences: &[SequenceObject]) -> bool {
    let code = SequenceReason::NodeScopeNeedsFullMode.code();
    sequences.iter().any(|sequence| sequence.facts().recorded.stalled.as_deref() == Some(code))
}

/// Fills an index with objects, in any order.
#[derive(Debug, Default)]
pub struct Loader {
    pub index: Index,
    orders: Vec<Uid>,
    rejected: Vec<RejectedWrite>,
}

impl Loader {
    /// A loader into an index that is empty or has objects already.
    pub fn into_index(index: Index) -> Loader {
        Loader { index, ..Loader::default() }
    }

    pub fn add<T: Watched>(&mut self, kind: Kind, objects: &[T]) {
        objects.iter().filter_map(|object| decoded(kind, object)).for_each(|object| self.add_decoded(object));
    }

    /// Adds an object that is not decoded yet. An object that does not have the shape of its kind is ignored.
    pub fn add_json(&mut self, kind: Kind, object: &Value) {
        if let Some(decoded) = decode(kind, object) {
            self.add_decoded(decoded);
        }
    }

    fn add_decoded(&mut self, decoded: Decoded) {
        let Decoded { object, rejected } = decoded;
        if let Object::Order(order) = &object {
            self.orders.push(order.uid);
        }
        self.index.apply(object);
        self.rejected.extend(rejected);
    }

    /// The index with everything that was added. Facts that the controller derives from its own decisions and writes
    /// are added last, because they depend on all objects.
    pub fn finish(self, now: Timestamp) -> Index {
        let Loader { mut index, orders, rejected } = self;
        for RejectedWrite { to, forbidden, message, since } in rejected {
            match to {
                RejectedObject::Pod { namespace, name } => {
                    let Some(pod) = index.cluster.pod_named(&namespace, &name) else { continue };
                    let (uid, since) = (pod.uid, since.unwrap_or(pod.created));
                    index.cluster.in_flight.refuse(uid, Refusal::new(forbidden, &message, since));
                }
                RejectedObject::Order(uid) => {
                    let since = since.unwrap_or(now).min(now);
                    index.reservation_refused(uid, Some(Refusal::new(forbidden, &message, since)));
                }
            }
        }
        // A decision determines which reservations of an Order are settled. The actions of the decision are not carried
        // out.
        for key in orders.into_iter().map(Key::Order) {
            let decision = decide(&index, key, Settings::default(), now, usize::MAX);
            keep(&mut index, key, decision.keep);
        }
        index
    }
}
