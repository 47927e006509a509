//! The result of a decision: actions, each on a named object, and messages for users. A decision is specific enough to be
//! carried out without further choices.

use crate::{
    Timestamp, Uid,
    cluster::{Target, WriteEffect},
    facts::NodeConstraints,
    kind::Kind,
    launch::index::StuckRank,
    node::Node,
    reservation::{
        index::{Place, ReleasedPodState, WaitingPodState},
        spec::{Template, TicketRecord, TicketSpec},
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

/// A change to the pod of this uid.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPatch {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// The scheduling gate to remove.
    pub drop_gate: Option<DropGate>,
    /// Node labels that the pod must avoid: they mark blocked nodes.
    pub avoid: Vec<Arc<str>>,
    /// Taints of blocked nodes that this pod tolerates.
    pub tolerate: Vec<Arc<str>>,
    /// The node constraints of the pod when the decision was made: additions must fit them. Empty if nothing is added.
    pub constraints: NodeConstraints,
    /// Annotations to set.
    pub annotations: Vec<(&'static str, String)>,
}

impl PodPatch {
    /// Creates a patch that changes nothing yet.
    pub fn new(uid: Uid, namespace: Arc<str>, name: Arc<str>) -> PodPatch {
        let (drop_gate, constraints) = (None, NodeConstraints::default());
        let (avoid, tolerate, annotations) = (Vec::new(), Vec::new(), Vec::new());
        PodPatch { uid, namespace, name, drop_gate, avoid, tolerate, constraints, annotations }
    }

    pub fn target(&self) -> Target {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        Target { kind: Kind::Pod, namespace, name, uid: Some(self.uid) }
    }

    /// Effects that count as soon as the patch is sent.
    pub fn effect(&self) -> WriteEffect {
        WriteEffect {
            drops_gate: self.drop_gate.as_ref().map(|gate| gate.name.clone()),
            ..WriteEffect::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropGate {
    pub name: Arc<str>,
    /// Position in the list of gates when the decision was made.
    pub place: Option<usize>,
}

/// The marks of one or more sequences on the node of this uid. The write only succeeds at this `version`: a decision from an older
/// view must not undo what another leader has written since.
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

/// A write to the ConfigMap that the containers of a pod wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierWrite {
    /// The pod that owns the ConfigMap.
    pub pod: Uid,
    pub pod_name: Arc<str>,
    pub target: Target,
    pub to: ToBarrier,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToBarrier {
    /// Read it only, to see which pod owns it.
    Look,
    Create {
        keys: Vec<String>,
    },
    /// The API server rejects this if the ConfigMap meanwhile belongs to another pod.
    AddKeys {
        keys: Vec<String>,
        /// The ConfigMap is still empty.
        first: bool,
    },
    /// Delete the ConfigMap of a deleted pod; the uid is that of the ConfigMap.
    Delete {
        config_map: Uid,
    },
}

/// An object to create. Its name is derived from its purpose, so it cannot be created twice.
#[derive(Clone, Debug, PartialEq)]
pub enum New {
    Ticket(NewTicket),
    Guardian(NewGuardian),
    /// The PriorityClass of guardians with this priority.
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
    /// The slot of the ticket in its Order: a node or a number.
    pub node: Option<Arc<str>>,
    pub index: Option<u32>,
    pub tick: Option<Timestamp>,
}

/// The pod that occupies the capacity of a ticket.
#[derive(Clone, Debug, PartialEq)]
pub struct NewGuardian {
    pub target: Target,
    pub ticket: Uid,
    pub ticket_name: Arc<str>,
    pub order: Option<Uid>,
    /// The Order reserves on each node.
    pub each_node: bool,
    pub spec: Arc<TicketSpec>,
    /// The only node that the guardian can run on, and its uid if known.
    pub node: Option<Arc<str>>,
    pub node_uid: Option<Uid>,
    pub class: Arc<str>,
}

/// Deletion of the object of this uid. `at_once`: without a grace period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    pub target: Target,
    pub at_once: bool,
}

/// The new status of a ticket, written only if the ticket is still at this version.
#[derive(Clone, Debug, PartialEq)]
pub struct TicketWrite {
    pub target: Target,
    pub version: u64,
    pub record: TicketRecord,
}

impl TicketWrite {
    /// Effects that count as soon as the status is sent.
    pub fn effect(&self) -> WriteEffect {
        WriteEffect {
            claims_for: self.record.claim.as_ref().map(|claim| claim.pod),
            ..WriteEffect::default()
        }
    }
}

/// Nominates the pod for a node, where the scheduler then reserves capacity for it; `None` clears the nomination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nominate {
    pub target: Target,
    pub node: Option<Arc<str>>,
    /// Annotations to remove because they are no longer true.
    pub forget: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// The budget did not allow all writes; decide again when more are allowed.
    pub more: bool,
    /// The status of the object. `None` if the object does not exist, for example after the deletion of a sequence.
    pub report: Option<Report>,
    /// The status must be written without delay: it contains a new phase, or a time that a later decision needs.
    pub urgent: bool,
    pub events: Vec<Event>,
    /// Time of the next decision if nothing changes before.
    pub wake_at: Option<Timestamp>,
    pub keep: Keep,
    /// Nothing remains to be done for the key: its state can be dropped.
    pub finished: bool,
}

/// The status of an object, as the controller writes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Sequence(Box<Status>),
    Order(Box<OrderStatus>),
}

/// Information for the next decision about the same key.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Keep {
    #[default]
    Nothing,
    Sequence {
        /// The decided times, until the status contains them.
        recorded: Box<Recorded>,
        /// In Node scope: nodes that were judged again.
        nodes: Judgements,
        /// In Node scope: changes to the state of nodes that not all sequences have seen yet.
        unseen: UnseenNodes,
    },
    Launch {
        /// The rank whose containers do not progress, and how often the kubelet was notified of it.
        waiting: Option<StuckRank>,
        /// The reasons of the events that were just emitted.
        told: Vec<&'static str>,
    },
    Ticket {
        /// The claiming pod, from its release until it is bound.
        released: Option<ReleasedPodState>,
    },
    Order {
        /// The reservation window at the time of the decision, if there was one.
        window: Option<Window>,
        /// Slots that need no change.
        settled: Vec<Place>,
    },
    Claim(WaitingPodState),
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

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
}

impl Subject {
    /// The `action` of events about this kind: one word for what the controller does to it.
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

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `S1`, `S7` …, as numbered on the reliability page of the docs.
    pub invariant: &'static str,
    pub detail: String,
}
