//! Guardians that have outlived their ticket.
//!
//! With `--guardian-node-owner` a guardian has two owners, its ticket and its Node. The garbage collector deletes an object only
//! when none of its owners exists. When the ticket is deleted, the collector only removes the reference to it, and the guardian
//! still occupies the capacity. The controller deletes such guardians, also those that it finds when it starts.

use super::Facts;
use super::names::ticket_of_guardian;
use crate::{
    Uid,
    cluster::Target,
    decision::{Action, Delete},
    facts::{OwnerKind, Pod},
};

/// Whether a pod may be an orphaned guardian. [`removal`] makes the final decision, which needs the nodes.
pub fn is_suspect(pod: &Pod) -> bool {
    pod.owner.is_some_and(|owner| owner.kind == OwnerKind::Other) && ticket_of_guardian(&pod.name).is_some()
}

/// Returns the deletion of a pod if it is an orphaned guardian: it is named like a guardian, and only its own node owns it.
pub fn removal(facts: Facts<'_>, uid: Uid) -> Option<Action> {
    let cluster = facts.cluster;
    let pod = cluster.pod(uid).filter(|pod| is_suspect(pod) && !pod.terminating)?;
    let node = cluster.node(&cluster.node_of(pod)?)?;
    let is_orphan = pod.owner.is_some_and(|owner| owner.uid == node.uid);
    (is_orphan && !cluster.is_writing_pod(uid))
        .then(|| Action::Delete(Delete { target: Target::of_pod(pod), at_once: true }))
}
