//! What was decided: actions named by the object that they write, and what people are told. A decision is so specific that
//! nothing is left to choose for whoever carries it out.

use crate::{
    Timestamp, Uid,
    cluster::{Effect, Target},
    facts::NodeConstraints,
    kind::Kind,
    launch::index::Waiting,
    node::Node,
    reservation::{
        index::{Place, ReleasedClaim, WaitingClaimer},
        spec::{Record, Template, TicketSpec},
        status::OrderStatus,
        timetable::Window,
    },
    sequence::{
        Status,
        index::{Note, UnseenNodes},
        marks::Marks,
        spec::Recorded,
        views::Judgements,
    },
};
use std::sync::Arc;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    PatchPod(PodPatch),
    PatchNode(NodePatch),
    WriteNote { note: Box<Note> },
    DropNote { sequence: Uid },
    WriteBarrier(BarrierWrite),
    Create(Box<New>),
    Delete(Delete),
    WriteTicket(Box<TicketWrite>),
    Nominate(Nominate),
}

/// A change of the pod of this uid.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPatch {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// The scheduling gate that goes.
    pub drop_gate: Option<DropGate>,
    /// Labels of nodes that the pod must not land on.
    pub avoid: Vec<Arc<str>>,
    /// Taints that keep nodes closed for others, and not for this pod.
    pub tolerate: Vec<Arc<str>>,
    /// What the pod asks of its node, as it was seen: what is added must fit to it. Empty where nothing is added.
    pub constraints: NodeConstraints,
    /// Annotations that are set.
    pub annotations: Vec<(&'static str, String)>,
}

impl PodPatch {
    /// One that changes nothing yet.
    pub fn of(uid: Uid, namespace: Arc<str>, name: Arc<str>) -> PodPatch {
        let (drop_gate, constraints) = (None, NodeConstraints::default());
        let (avoid, tolerate, annotations) = (Vec::new(), Vec::new(), Vec::new());
        PodPatch { uid, namespace, name, drop_gate, avoid, tolerate, constraints, annotations }
    }

    pub fn target(&self) -> Target {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        Target { kind: Kind::Pod, namespace, name, uid: Some(self.uid) }
    }

    /// What counts as soon as it is sent.
    pub fn effect(&self) -> Effect {
        Effect { drops_gate: self.drop_gate.as_ref().map(|gate| gate.name.clone()), ..Effect::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropGate {
    pub name: Arc<str>,
    /// Its place in the list of gates, as it was seen.
    pub place: Option<usize>,
}

/// The marks of sequences on the node of this uid, at this version: a patch decided from an older view must not undo what another
/// leader has written since.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePatch {
    pub node: Uid,
    pub version: u64,
    pub name: Arc<str>,
    /// The marks of the sequence that was decided about come first.
    pub parts: Vec<NodeMarks>,
}

/// The marks of one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeMarks {
    pub sequence: Uid,
    pub marks: Marks,
}

impl NodePatch {
    pub fn new(node: &Node, parts: Vec<NodeMarks>) -> NodePatch {
        NodePatch { node: node.uid, version: node.version, name: node.name.clone(), parts }
    }

    pub fn sequences(&self) -> impl Iterator<Item = Uid> {
        self.parts.iter().map(|part| part.sequence)
    }
}

/// What is to be done with the ConfigMap for which the containers of a pod wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierWrite {
    /// The pod that owns it.
    pub pod: Uid,
    pub pod_name: Arc<str>,
    pub target: Target,
    pub to: ToBarrier,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToBarrier {
    /// Only to see whose it is.
    Look,
    Create {
        keys: Vec<String>,
    },
    /// Refused by the API server if the ConfigMap belongs to another pod by now.
    AddKeys {
        keys: Vec<String>,
        /// There is nothing in it yet.
        first: bool,
    },
    /// Of a pod that is gone; the uid is that of the ConfigMap.
    Delete {
        config_map: Uid,
    },
}

/// An object that is to be made. Its name follows from what it is for, so it is not made twice.
#[derive(Clone, Debug, PartialEq)]
pub enum New {
    Ticket(NewTicket),
    Guardian(NewGuardian),
    /// The class of guardians of this priority.
    PriorityClass {
        target: Target,
        priority: i32,
    },
}

impl New {
    pub fn target(&self) -> &Target {
        match self {
            New::Ticket(NewTicket { target, .. }) | New::Guardian(NewGuardian { target, .. }) => target,
            New::PriorityClass { target, .. } => target,
        }
    }
}

/// A ticket of an Order.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTicket {
    pub target: Target,
    pub order: Uid,
    pub order_name: Arc<str>,
    pub template: Template,
    /// The place that it is for: a node, or a number.
    pub node: Option<Arc<str>>,
    pub index: Option<u32>,
    pub tick: Option<Timestamp>,
}

/// The pod that sits in the room of a ticket.
#[derive(Clone, Debug, PartialEq)]
pub struct NewGuardian {
    pub target: Target,
    pub ticket: Uid,
    pub ticket_name: Arc<str>,
    pub order: Option<Uid>,
    /// Its Order wants one on each node.
    pub each_node: bool,
    pub spec: Arc<TicketSpec>,
    /// The only node it can be on, and its uid if it is known.
    pub node: Option<Arc<str>>,
    pub node_uid: Option<Uid>,
    pub class: Arc<str>,
}

/// The object of this uid goes; `at_once`: without a time of grace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    pub target: Target,
    pub at_once: bool,
}

/// What the status of a ticket is to say, if it is still at this version.
#[derive(Clone, Debug, PartialEq)]
pub struct TicketWrite {
    pub target: Target,
    pub version: u64,
    pub record: Record,
}

impl TicketWrite {
    /// What counts as soon as it is sent.
    pub fn effect(&self) -> Effect {
        Effect { claims_for: self.record.claim.as_ref().map(|claim| claim.pod), ..Effect::default() }
    }
}

/// The node whose room the scheduler keeps for a pod, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nominate {
    pub target: Target,
    pub node: Option<Arc<str>>,
    /// Annotations that are not true any more.
    pub forget: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// There is more to do than the budget allowed; ask again when there is room.
    pub more: bool,
    /// The status of the object. `None` if there is no object to write it to, as for the ghost of a deleted sequence.
    pub report: Option<Report>,
    /// The status has something that must not wait: a phase, or a time that a later decision needs.
    pub urgent: bool,
    pub events: Vec<Event>,
    /// When to decide again if nothing happens.
    pub wake_at: Option<Timestamp>,
    pub keep: Keep,
    /// Nothing is left to do, ever: what stands for the key can be forgotten.
    pub finished: bool,
}

/// The status of an object whose status the controller writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Sequence(Box<Status>),
    Order(Box<OrderStatus>),
}

/// What the next decision about the same key is to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Keep {
    #[default]
    Nothing,
    Sequence {
        /// The times that were decided, until the status has them.
        recorded: Box<Recorded>,
        /// In Node scope: what was judged anew about nodes.
        nodes: Judgements,
        /// In Node scope: what was found out about nodes that nobody has seen.
        unseen: UnseenNodes,
    },
    Launch {
        /// The rank that has not moved, and how often that was told to the kubelet.
        waiting: Option<Waiting>,
        /// What people have been told just now.
        told: Vec<&'static str>,
    },
    Ticket {
        /// What is known of its claiming pod while that is released and not bound.
        released: Option<ReleasedClaim>,
    },
    Order {
        /// Whether it reserved when it was decided about.
        window: Option<Window>,
        /// Places that are as they should be.
        settled: Vec<Place>,
    },
    Claim(WaitingClaimer),
}

impl Decision {
    pub fn nothing() -> Decision {
        Decision {
            actions: Vec::new(),
            more: false,
            report: None,
            urgent: false,
            events: Vec::new(),
            wake_at: None,
            keep: Keep::Nothing,
            finished: false,
        }
    }
}

/// An object that people are told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}

impl Subject {
    /// What we do to objects of this kind, in one word: the `action` of an event.
    pub fn action(&self) -> &'static str {
        match self.kind {
            Kind::Sequence => "Sequence",
            Kind::Order | Kind::Ticket => "Reserve",
            _ => "Start",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Normal,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: Subject,
    pub kind: EventKind,
    pub reason: &'static str,
    pub message: String,
}

/// An invariant that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `S1`, `S7` …, as the reliability page of the docs numbers them.
    pub invariant: &'static str,
    pub detail: String,
}
