//! Handing over reserved capacity: which claims of a node take their steps together, and the next step of each.
//!
//! The scheduler counts a nominated pod as if it ran on its node. If the guardian of that pod still runs, its capacity counts
//! twice. On a full node the scheduler then rejects another pod that is released at that moment, clears its nomination, and a
//! foreign pod takes the capacity. So the claims of one node go in batches:
//!
//! 1. Every pod of the batch is nominated.
//! 2. When all nominations are answered, every guardian is deleted.
//! 3. When all deletions are answered, every gate is removed.
//!
//! A batch takes in claims, in their order, until its first guardian is deleted. The next batch begins when every pod of this one
//! is bound or deleted, or its claim has ended. A claim whose step fails leaves the batch: its nomination is cleared before the
//! gates are removed. All of this is derived from the objects, except for the failed steps.

use super::Facts;
use super::claim::TICKET_WITHIN;
use super::index::HandOver;
use super::spec::Ticket;
use crate::{
    Timestamp, Uid,
    facts::Pod,
    planted::{Bug, planted},
};
use jiff::SignedDuration;
use std::sync::Arc;

/// Maximum number of claims of one node that take their steps together. In a larger batch, claims would wait for each other too
/// long.
pub const MOST_AT_ONCE: usize = 8;
/// How long a claim waits for foreign pods that are nominated for its node.
pub const FOREIGN_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// The next step for a gated pod that has claimed a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOverStep<'a> {
    /// Wait for earlier claims on the node.
    AwaitTurn,
    /// Wait for a foreign pod that is nominated for the node, at most until this time.
    AwaitForeign(&'a Arc<str>, Timestamp),
    Nominate,
    AwaitNominations,
    /// Leave the batch: the deletion of the guardian failed, and other claims of the batch wait.
    ClearNomination,
    DeleteGuardian(&'a Pod),
    AwaitDeletions,
    RemoveGate,
}

/// Whether the API server keeps rejecting the nomination of a pod. The capacity is then handed over without a nomination, because
/// the pod would wait forever otherwise. One rejection is not enough, however old: a token that is just being replaced is also
/// rejected.
fn is_unprotected(facts: Facts<'_>, pod: &Pod) -> bool {
    let refusal = facts.cluster.in_flight.refusal(pod.uid);
    refusal
        .is_some_and(|refusal| refusal.since + TICKET_WITHIN <= refusal.latest || planted(Bug::RefusedOnce))
}

/// Returns a pod without a claim on the node that is nominated for the node.
fn foreign<'a>(facts: Facts<'a>, node: &Arc<str>) -> Option<&'a Pod> {
    let claims_here = |pod: &Pod| {
        facts.reservations.claimed_by(pod.uid).is_some_and(|ticket| ticket.record.node.as_ref() == Some(node))
    };
    facts.cluster.nominated_for(node).find(|pod| !pod.terminating && !claims_here(pod))
}

/// The claims of a node that take their steps together.
struct Batch<'a> {
    facts: Facts<'a>,
    members: Vec<HandOver<'a>>,
}

impl<'a> Batch<'a> {
    fn on(facts: Facts<'a>, node: &Arc<str>, now: Timestamp) -> Batch<'a> {
        let Facts { cluster, reservations } = facts;
        let look = |uid: Uid| HandOver::from_ticket(cluster, reservations.ticket(uid)?);
        let hand_overs = reservations.hand_overs();
        let mut members: Vec<HandOver<'a>> = hand_overs.begun(node).filter_map(look).collect();
        // A pod that the controller is not permitted to release must not block other claims.
        let stuck = |member: &HandOver<'_>| {
            !member.is_released() && member.guardian.is_none() && is_unprotected(facts, member.pod)
        };
        let takes_more = |member: &HandOver<'_>| {
            let guarded = member.guardian.is_some() && !member.is_guardian_being_deleted(cluster);
            guarded && !member.is_released() || stuck(member)
        };
        if members.iter().all(takes_more) {
            let held_up = foreign(facts, node).is_some();
            let comes = |member: &HandOver<'_>| !held_up || member.at + FOREIGN_WITHIN <= now;
            let waiting = || hand_overs.waiting(node).filter_map(look).filter(comes);
            let fresh = waiting().filter(|member| !hand_overs.is_set_back(member.ticket.uid));
            let room = MOST_AT_ONCE.saturating_sub(members.len());
            members.extend(fresh.take(room));
            // Claims that failed before are retried when no other claim waits.
            if members.is_empty() {
                members.extend(waiting().take(MOST_AT_ONCE));
            }
        }
        Batch { facts, members }
    }

    fn is_failing(&self, member: &HandOver<'_>) -> bool {
        let set_back = self.facts.reservations.hand_overs().is_set_back(member.ticket.uid);
        set_back && member.counts_twice() && self.members.len() > 1
    }

    fn all_nominated(&self) -> bool {
        self.members.iter().all(|member| {
            let answered = !self.facts.cluster.is_writing_pod(member.pod.uid) || member.is_released();
            let nominated =
                member.is_nominated() || member.is_released() || is_unprotected(self.facts, member.pod);
            answered && nominated && !self.is_failing(member)
        })
    }
}

/// The next step of a gated pod that has claimed a ticket on a node.
pub fn next_step<'a>(facts: Facts<'a>, ticket: &'a Ticket, now: Timestamp) -> Option<HandOverStep<'a>> {
    let own = HandOver::from_ticket(facts.cluster, ticket)?;
    let batch = Batch::on(facts, own.node, now);
    if !batch.members.iter().any(|member| member.ticket.uid == ticket.uid) {
        let until = own.at + FOREIGN_WITHIN;
        let foreign = foreign(facts, own.node).filter(|_| until > now);
        return Some(
            foreign.map_or(HandOverStep::AwaitTurn, |pod| HandOverStep::AwaitForeign(&pod.name, until)),
        );
    }
    let early = planted(Bug::GuardianBeforeNomination) || planted(Bug::GateBeforeGuardian);
    if !own.is_nominated() && !is_unprotected(facts, own.pod) && !early {
        return Some(HandOverStep::Nominate);
    }
    Some(match own.guardian {
        Some(_) if planted(Bug::GateBeforeGuardian) => HandOverStep::RemoveGate,
        Some(_) if batch.is_failing(&own) => HandOverStep::ClearNomination,
        Some(guardian) if facts.cluster.is_writing_pod(guardian.uid) => HandOverStep::AwaitDeletions,
        Some(guardian) if batch.all_nominated() || early || planted(Bug::GuardianBeforeOthersNominated) => {
            HandOverStep::DeleteGuardian(guardian)
        }
        Some(_) => HandOverStep::AwaitNominations,
        None if batch.members.iter().all(|member| member.guardian.is_none())
            || planted(Bug::GateBeforeOtherGuardians) =>
        {
            HandOverStep::RemoveGate
        }
        None => HandOverStep::AwaitDeletions,
    })
}
