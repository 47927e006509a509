//! Guardians that have outlived their ticket.
//!
//! With `--guardian-node-owner` a guardian has two owners, its ticket and its Node. The garbage collector deletes an object only when all
//! its owners are gone. So when the ticket is deleted, the collector only removes the reference to it, and the guardian keeps its capacity
//! for nobody. The controller deletes such a guardian, also those that it finds at its start.

use super::Facts;
use super::names::ticket_of_guardian;
use crate::{
    Uid,
    cluster::Target,
    decision::{Action, Delete},
    facts::{OwnerKind, Pod},
};

/// Whether a pod may be an orphaned guardian. [`removal`] knows for certain, once the nodes are known.
pub fn is_suspect(pod: &Pod) -> bool {
    pod.owner.is_some_and(|owner| owner.kind == OwnerKind::Other) && ticket_of_guardian(&pod.name).is_some()
}

/// The deletion of a pod that is an orphaned guardian: called like one, and owned by nothing but the node that it belongs to.
pub fn removal(facts: Facts<'_>, uid: Uid) -> Option<Action> {
    let cluster = facts.cluster;
    let pod = cluster.pod(uid).filter(|pod| is_suspect(pod) && !pod.terminating)?;
    let node = cluster.node(&cluster.node_of(pod)?)?;
    let is_orphan = pod.owner.is_some_and(|owner| owner.uid == node.uid);
    (is_orphan && !cluster.is_writing_pod(uid))
        .then(|| Action::Delete(Delete { target: Target::of_pod(pod), at_once: true }))
}
