//! Hand-overs in progress, by node: claims that have begun, and claims that wait for their turn. Both are derived from the
//! objects, so they are known after a restart, too.

use super::{Guardian, guardian, is_gated};
use crate::reservation::spec::Ticket;
use crate::{
    Timestamp, Uid,
    cluster::Cluster,
    facts::{Pod, PodPhase},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A claim whose pod is not bound yet, as the objects show it.
#[derive(Clone, Copy, Debug)]
pub struct HandOver<'a> {
    pub ticket: &'a Ticket,
    /// When the claim was recorded.
    pub at: Timestamp,
    pub node: &'a Arc<str>,
    pub pod: &'a Pod,
    /// The guardian, while it exists.
    pub guardian: Option<&'a Pod>,
}

impl<'a> HandOver<'a> {
    /// `None` if no pod has claimed the ticket, or if the pod is bound, has ended or is being deleted.
    pub fn from_ticket(cluster: &'a Cluster, ticket: &'a Ticket) -> Option<HandOver<'a>> {
        let (claim, node) = (ticket.claim()?, ticket.record.node.as_ref()?);
        let ended = |pod: &Pod| matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
        let pod = cluster.pod(claim.pod).filter(|pod| !pod.is_bound() && !pod.terminating && !ended(pod))?;
        let guardian = match guardian(cluster, ticket) {
            Guardian::Ours(guardian) => Some(guardian),
            Guardian::None | Guardian::Taken(_) => None,
        };
        Some(HandOver { ticket, at: claim.at, node, pod, guardian })
    }

    pub fn is_nominated(&self) -> bool {
        self.pod.nominated.as_ref() == Some(self.node)
    }

    pub fn is_released(&self) -> bool {
        !is_gated(self.pod)
    }

    /// Pod and guardian both count on the node: the scheduler sees the capacity taken twice.
    pub fn counts_twice(&self) -> bool {
        self.is_nominated() && self.guardian.is_some()
    }

    pub fn is_guardian_being_deleted(&self, cluster: &Cluster) -> bool {
        self.guardian.is_some_and(|guardian| cluster.is_writing_pod(guardian.uid))
    }

    /// `None` if another client removed the gate before the first step. The scheduler places such a pod without us.
    fn turn(&self, cluster: &Cluster) -> Option<Turn> {
        let untouched = self.guardian.is_some()
            && !self.is_nominated()
            && !cluster.is_writing_pod(self.pod.uid)
            && !self.is_guardian_being_deleted(cluster);
        match (untouched, self.is_released()) {
            (false, _) => Some(Turn::Begun),
            (true, false) => Some(Turn::Waiting(self.at)),
            (true, true) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// At least one step is done or sent.
    Begun,
    /// No step is done or sent. Contains the time of the claim.
    Waiting(Timestamp),
}

#[derive(Debug, Default)]
pub struct HandOvers {
    nodes: BTreeMap<Arc<str>, NodeClaims>,
    /// By ticket.
    turns: BTreeMap<Uid, (Arc<str>, Turn)>,
    /// Tickets whose last step failed.
    set_back: BTreeSet<Uid>,
}

/// The claims of one node, by ticket.
#[derive(Debug, Default)]
struct NodeClaims {
    begun: BTreeSet<Uid>,
    /// The oldest claim first.
    waiting: BTreeSet<(Timestamp, Uid)>,
}

impl HandOvers {
    /// The claims of a node that have begun, by ticket.
    pub fn begun(&self, node: &str) -> impl Iterator<Item = Uid> {
        self.nodes.get(node).into_iter().flat_map(|claims| &claims.begun).copied()
    }

    /// The claims of a node that wait for their turn, the oldest first.
    pub fn waiting(&self, node: &str) -> impl Iterator<Item = Uid> {
        self.nodes.get(node).into_iter().flat_map(|claims| &claims.waiting).map(|(_, ticket)| *ticket)
    }

    pub fn is_set_back(&self, ticket: Uid) -> bool {
        self.set_back.contains(&ticket)
    }

    /// Records that a step of this claim failed.
    pub fn set_back(&mut self, ticket: Uid) {
        self.set_back.insert(ticket);
    }

    /// Records that a step of this claim succeeded.
    pub fn recover(&mut self, ticket: Uid) {
        self.set_back.remove(&ticket);
    }

    /// Updates the state of a claim from the current objects.
    pub fn update(&mut self, cluster: &Cluster, ticket: &Ticket) {
        let found = HandOver::from_ticket(cluster, ticket);
        let turn = found.and_then(|found| Some((found.node.clone(), found.turn(cluster)?)));
        // The guardian has been deleted after all, or the claim has ended.
        if found.is_none_or(|found| found.guardian.is_none()) {
            self.set_back.remove(&ticket.uid);
        }
        if self.turns.get(&ticket.uid) != turn.as_ref() {
            self.remove_turn(ticket.uid);
            if let Some((node, turn)) = turn {
                let claims = self.nodes.entry(node.clone()).or_default();
                match turn {
                    Turn::Begun => claims.begun.insert(ticket.uid),
                    Turn::Waiting(at) => claims.waiting.insert((at, ticket.uid)),
                };
                self.turns.insert(ticket.uid, (node, turn));
            }
        }
    }

    pub fn remove(&mut self, ticket: Uid) {
        self.set_back.remove(&ticket);
        self.remove_turn(ticket);
    }

    fn remove_turn(&mut self, ticket: Uid) {
        let Some((node, turn)) = self.turns.remove(&ticket) else { return };
        let Some(claims) = self.nodes.get_mut(&node) else { return };
        match turn {
            Turn::Begun => claims.begun.remove(&ticket),
            Turn::Waiting(at) => claims.waiting.remove(&(at, ticket)),
        };
        if claims.begun.is_empty() && claims.waiting.is_empty() {
            self.nodes.remove(&node);
        }
    }
}
