//! What each feature of Rollcall may write. Any other write is a violation.

use super::world::{self, World};
use crate::kinds::Kind;
use crate::store::Change;
use rollcall_api::names;
use rollcall_core::reservation::names as known;

pub struct Feature {
    /// The gate that it may remove from pods.
    pub gate: &'static str,
    /// The annotations that it may set on pods.
    pub annotations: &'static [&'static str],
    /// The status fields that it may set on pods.
    pub status: &'static [&'static str],
    /// Whether it may set node affinity and tolerations of pods, in Full mode.
    pub steers: bool,
    /// The kinds that it may write, with their places.
    writes: &'static [(Kind, Where)],
}

enum Where {
    /// In the controller's own namespace.
    Own,
    /// In the namespace of the world's pods.
    Pods,
    /// In namespaces with sequences.
    Sequences,
    /// In the namespace of node events, for events about a node.
    AboutNodes,
    /// On nodes, in Full mode.
    Nodes,
    /// On cluster-scoped objects.
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

/// `hand_over_order` checks further rules.
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

/// The features that are enabled in a world.
pub fn features(world: &World) -> impl Iterator<Item = &'static Feature> + use<> {
    let others = [world.full.then_some(&LAUNCH), world.reservation.then_some(&RESERVATIONS)];
    [&SEQUENCES].into_iter().chain(others.into_iter().flatten())
}

/// Whether some feature may write an object of this kind in this place.
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
