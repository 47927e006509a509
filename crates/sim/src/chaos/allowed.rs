//! What each feature of ours may write. A write that no feature may make is wrong, whatever it was for.

use super::world::{self, World};
use crate::kinds::Kind;
use crate::store::Change;
use rollcall_api::names;
use rollcall_core::reservation::names as known;

pub struct Feature {
    /// The gate that it may take off pods.
    pub gate: &'static str,
    /// The annotations that it may set on pods.
    pub annotations: &'static [&'static str],
    /// The fields of their status that it may set.
    pub status: &'static [&'static str],
    /// Whether it may tell the scheduler which nodes a pod avoids and tolerates, in Full mode.
    pub steers: bool,
    /// The kinds that it may write, and where.
    writes: &'static [(Kind, Where)],
}

enum Where {
    /// In our own namespace.
    Own,
    /// Where the pods of the world are.
    Pods,
    /// Where there are sequences.
    Sequences,
    /// In the namespace of events about nodes, if it is about one.
    AboutNodes,
    /// On nodes, in Full mode.
    Nodes,
    /// Where there are no namespaces.
    Cluster,
}

pub static SEQUENCES: Feature = Feature {
    gate: names::SEQUENCE_GATE,
    annotations: &[],
    status: &[],
    steers: true,
    writes: &[
        (Kind::Pod, Where::Pods),
        (Kind::PodSequence, Where::Sequences),
        (Kind::Event, Where::Sequences),
        (Kind::Event, Where::AboutNodes),
        (Kind::ConfigMap, Where::Own),
        (Kind::Node, Where::Nodes),
    ],
};

pub static LAUNCH: Feature = Feature {
    gate: names::LAUNCH_GATE,
    annotations: &[names::LAUNCH_RANK, names::LAUNCH_NUDGE, names::LAUNCHED],
    status: &[],
    steers: false,
    writes: &[(Kind::Pod, Where::Pods), (Kind::ConfigMap, Where::Pods), (Kind::Event, Where::Pods)],
};

/// What else of this is wrong is found in `reservation_order`.
pub static RESERVATIONS: Feature = Feature {
    gate: names::TICKET_GATE,
    annotations: &[known::TICKET_CLAIMED, known::TICKET_NODE],
    status: &["nominatedNodeName"],
    steers: false,
    writes: &[
        (Kind::Pod, Where::Pods),
        (Kind::Order, Where::Pods),
        (Kind::Ticket, Where::Pods),
        (Kind::PriorityClass, Where::Cluster),
        (Kind::Event, Where::Pods),
    ],
};

/// The features that are there in a world.
pub fn features(world: &World) -> impl Iterator<Item = &'static Feature> + use<> {
    let others = [world.full.then_some(&LAUNCH), world.reservation.then_some(&RESERVATIONS)];
    [&SEQUENCES].into_iter().chain(others.into_iter().flatten())
}

/// Whether some feature may write an object of this kind there.
pub fn may_write(world: &World, change: &Change) -> bool {
    let (kind, namespace) = (change.key.kind, &*change.key.namespace);
    let holds = |place: &Where| match place {
        Where::Own => namespace == names::OWN_NAMESPACE,
        Where::Pods => namespace == world::NAMESPACE,
        Where::Sequences => world.rules.iter().any(|rule| rule.namespace == namespace),
        Where::AboutNodes => namespace == "default" && change.object["regarding"]["kind"] == "Node",
        Where::Nodes => world.full,
        Where::Cluster => namespace.is_empty(),
    };
    features(world).flat_map(|feature| feature.writes).any(|(of, place)| *of == kind && holds(place))
}
