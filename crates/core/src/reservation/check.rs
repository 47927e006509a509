//! The auditor of reservations: checks that a decision preserves their invariants. To be independent, it does not share code with
//! the decisions.

use super::Facts;
use super::index::{Guardian, OrderEntry, guardian, is_gated};
use super::names::{TICKET_CLAIMED, TICKET_NODE, guardian_of, ticket_of_guardian};
use super::spec::{Ticket, TicketPhase, TicketRecord};
use crate::{
    Timestamp, Uid,
    decision::{
        Action, Decision, Delete, New, NewGuardian, NewTicket, Nominate, PodPatch, TicketWrite, Violation,
    },
    facts::Pod,
    gates,
    key::Key,
    kind::Kind,
};

type BrokenInvariant = (&'static str, String);

pub fn check(facts: Facts<'_>, key: Key, decision: &Decision, now: Timestamp) -> Vec<Violation> {
    let problems = decision.actions.iter().filter_map(|action| match action {
        Action::Create(new) => match &**new {
            New::Ticket(ticket) => audit_ticket(facts, key, ticket, now),
            New::Guardian(guardian) => audit_guardian(facts, guardian, now),
            New::PriorityClass { .. } => None,
        },
        Action::Delete(delete) => audit_delete(facts, key, delete),
        Action::WriteTicket(write) => audit_record(facts, key, write),
        Action::Nominate(nominate) => audit_nomination(facts, key, nominate),
        Action::PatchPod(patch) => audit_patch(facts, key, patch),
        Action::PatchNode(_)
        | Action::WriteNote { .. }
        | Action::DropNote { .. }
        | Action::WriteBarrier(_) => {
            Some(("S6", "reservations may write only to tickets, guardians and claiming pods".to_owned()))
        }
    });
    problems.map(|(invariant, detail)| Violation { invariant, detail }).collect()
}

/// S4: each place has at most one unclaimed ticket.
fn audit_ticket(facts: Facts<'_>, key: Key, new: &NewTicket, now: Timestamp) -> Option<BrokenInvariant> {
    let entry = facts.reservations.order(new.order).filter(|_| key == Key::Order(new.order));
    let Some(entry) = entry.filter(|entry| entry.order.namespace == new.target.namespace) else {
        return Some((
            "S6",
            format!("ticket {} is created without an Order in its namespace", new.target.name),
        ));
    };
    let same_place = |ticket: &&Ticket| {
        ticket.order == Some(new.order) && ticket.node == new.node && ticket.index == new.index
    };
    let there = entry.tickets().filter_map(|uid| facts.reservations.ticket(uid)).filter(same_place);
    if there.into_iter().any(|ticket| ticket.is_unclaimed()) {
        return Some((
            "S4",
            format!("ticket {} is the second unclaimed ticket in its place", new.target.name),
        ));
    }
    let eligible = new.node.as_ref().is_none_or(|node| {
        let place = super::index::Place::Node(node.clone());
        entry.wants(&place, now) == Some(true)
    });
    (!eligible).then(|| ("S4", format!("ticket {} is on a node that is not eligible", new.target.name)))
}

fn audit_guardian(facts: Facts<'_>, new: &NewGuardian, now: Timestamp) -> Option<BrokenInvariant> {
    let name = &new.target.name;
    let Some(ticket) = facts.reservations.ticket(new.ticket) else {
        return Some(("S7", format!("{name} is created for an unknown ticket")));
    };
    if *name != guardian_of(ticket) || new.target.namespace != ticket.namespace {
        return Some(("S6", format!("{name} is not the guardian of {}", ticket.name)));
    }
    if !ticket.is_unclaimed()
        || ticket.record.expires.is_some_and(|end| end <= now && end != Timestamp::MAX)
            && !is_renewed(facts, ticket)
    {
        return Some(("S4", format!("{name} is created for a ticket that is claimed or has expired")));
    }
    if !matches!(guardian(facts.cluster, ticket), Guardian::None) {
        return Some(("S4", format!("{name} exists already")));
    }
    let place = OrderEntry::place_of(ticket);
    let others = ticket.order.and_then(|order| facts.reservations.order(order));
    let others = others.into_iter().flat_map(|entry| entry.tickets_at(&place).collect::<Vec<Uid>>());
    let guarded = others
        .filter(|other| *other != ticket.uid)
        .filter_map(|uid| facts.reservations.ticket(uid))
        .any(|other| other.is_unclaimed() && matches!(guardian(facts.cluster, other), Guardian::Ours(_)));
    guarded.then(|| ("S4", format!("{name} would be the second guardian in {place}")))
}

fn is_renewed(facts: Facts<'_>, ticket: &Ticket) -> bool {
    let order = ticket.order.and_then(|order| facts.reservations.order(order));
    order.and_then(OrderEntry::spec).is_some_and(|spec| spec.refresh == super::spec::Refresh::Always)
}

fn audit_delete(facts: Facts<'_>, key: Key, delete: &Delete) -> Option<BrokenInvariant> {
    let name = &delete.target.name;
    let Some(uid) = delete.target.uid else {
        return Some(("S7", format!("{name} is deleted without a uid")));
    };
    match delete.target.kind {
        Kind::Ticket => {
            let Some(ticket) = facts.reservations.ticket(uid) else {
                return Some(("S7", format!("the unknown ticket {name} is deleted")));
            };
            let of_key =
                key == Key::Ticket(uid) || ticket.order.is_some_and(|order| key == Key::Order(order));
            (ticket.phase() == TicketPhase::Claimed || !of_key)
                .then(|| ("S4", format!("ticket {name} is claimed, or another decision must delete it")))
        }
        Kind::Pod => {
            let Some(pod) = facts.cluster.pod(uid) else {
                return Some(("S7", format!("the unknown pod {name} is deleted")));
            };
            // Only guardians may be deleted.
            let owner = pod.owner.map(|owner| owner.uid);
            let ticket = owner.and_then(|owner| facts.reservations.ticket(owner));
            let guards =
                ticket.map_or(ticket_of_guardian(name).is_some(), |ticket| *name == guardian_of(ticket));
            if !guards {
                return Some(("S6", format!("the pod {name} is not a guardian")));
            }
            let claim = ticket.and_then(|ticket| Some((ticket, ticket.claim()?)));
            let handed_over = claim.is_none_or(|(claimed, claim)| {
                let pod = facts.cluster.pod(claim.pod);
                let refused = facts.cluster.in_flight.refusal(claim.pod).is_some();
                let nominated = pod.is_some_and(|pod| pod.nominated.is_some());
                let runs = pod.is_some_and(|pod| pod.node.is_some());
                (nominated || refused) && key == Key::Claim(claim.pod)
                    || runs && key == Key::Ticket(claimed.uid)
            });
            if !handed_over {
                return Some(("S4", format!("{name} is deleted before the claiming pod is nominated")));
            }
            let (claimed, _) = claim.filter(|_| matches!(key, Key::Claim(_)))?;
            let other = claims_beside(facts, claimed).find(|(other, _)| {
                let under_way = facts.cluster.is_writing_pod(other.uid);
                is_gated(other) && under_way && other.nominated != claimed.record.node
            });
            other.map(|(other, _)| ("S4", format!("{name} is deleted before {} is nominated", other.name)))
        }
        _ => Some(("S6", format!("{name} must not be deleted by reservations"))),
    }
}

/// S7, S4: a ticket is claimed only once, by one waiting pod.
fn audit_record(facts: Facts<'_>, key: Key, write: &TicketWrite) -> Option<BrokenInvariant> {
    let name = &write.target.name;
    let known = write.target.uid.and_then(|uid| facts.reservations.ticket(uid));
    let Some(ticket) = known.filter(|ticket| ticket.version == write.version) else {
        return Some(("S7", format!("the status of {name} is based on another version of the ticket")));
    };
    if write.record.observed_generation < ticket.record.observed_generation {
        return Some(("S9", format!("the observedGeneration of {name} decreases")));
    }
    let TicketRecord { phase, claim, .. } = &write.record;
    match (claim, ticket.claim()) {
        (Some(claim), None) if *phase == Some(TicketPhase::Claimed) => {
            let waits = facts.cluster.pod(claim.pod).is_some_and(|pod| {
                is_gated(pod) && pod.gates.len() == 1 && pod.namespace == ticket.namespace && !pod.terminating
            });
            let free = ticket.phase() == TicketPhase::Reserved && key == Key::Claim(claim.pod);
            if facts.cluster.in_flight.is_claiming(claim.pod) {
                return Some((
                    "S4",
                    format!("{name} is claimed while another ticket is being claimed by {}", claim.name),
                ));
            }
            (!waits || !free).then(|| {
                (
                    "S4",
                    format!("{name} is claimed although it is not Reserved, or by a pod that is not waiting"),
                )
            })
        }
        (Some(claim), Some(before)) if claim.pod != before.pod => {
            Some(("S4", format!("{name} is claimed by two pods")))
        }
        _ => None,
    }
}

fn audit_nomination(facts: Facts<'_>, key: Key, nominate: &Nominate) -> Option<BrokenInvariant> {
    let name = &nominate.target.name;
    let Some(pod) = nominate.target.uid.and_then(|uid| facts.cluster.pod(uid)) else {
        return Some(("S7", format!("the unknown pod {name} is nominated")));
    };
    let ticket = facts.reservations.claimed_by(pod.uid);
    match &nominate.node {
        Some(node) => {
            let own = ticket.is_some_and(|ticket| ticket.record.node.as_ref() == Some(node));
            let gated = is_gated(pod) && key == Key::Claim(pod.uid);
            // A pod that the scheduler rejected may be nominated again.
            let guarded =
                ticket.is_some_and(|ticket| matches!(guardian(facts.cluster, ticket), Guardian::Ours(_)));
            let rejected = !is_gated(pod) && !pod.is_bound() && pod.trouble.is_some() && !guarded;
            let again = rejected && ticket.is_some_and(|ticket| key == Key::Ticket(ticket.uid));
            (!own || !gated && !again)
                .then(|| ("S4", format!("{name} is nominated for a node without a claim there")))
        }
        None => ticket.is_none().then(|| ("S2", format!("the nomination of {name} is foreign"))),
    }
}

fn audit_patch(facts: Facts<'_>, key: Key, patch: &PodPatch) -> Option<BrokenInvariant> {
    let PodPatch { uid, name, drop_gate, annotations, avoid, tolerate, .. } = patch;
    let Some(pod) = facts.cluster.pod(*uid).filter(|_| key == Key::Claim(*uid)) else {
        return Some(("S7", format!("a patch of the unknown pod {name}")));
    };
    let ours = drop_gate.as_ref().is_some_and(|gate| *gate.name == *gates::TICKET);
    let foreign = annotations.iter().any(|(key, _)| ![TICKET_CLAIMED, TICKET_NODE].contains(key));
    if !ours || foreign || !avoid.is_empty() || !tolerate.is_empty() {
        return Some(("S2", format!("a patch of {name} changes more than the ticket gate")));
    }
    if pod.gates.len() > 1 {
        return Some(("S4", format!("{name} is held by other gates")));
    }
    let ticket = facts.reservations.claimed_by(*uid)?;
    if matches!(guardian(facts.cluster, ticket), Guardian::Ours(_)) {
        return Some(("S4", format!("the gate of {name} is removed before the guardian is deleted")));
    }
    let mut beside = claims_beside(facts, ticket);
    let twice = beside.find(|(other, guarded)| *guarded && other.nominated == ticket.record.node);
    twice.map(|(other, _)| {
        ("S4", format!("{name} is released while {} counts twice: nominated beside its guardian", other.name))
    })
}

/// The unbound pods of the other claims of a node, each with whether its guardian exists. If two controllers have each claimed a
/// ticket for one pod, only the ticket that the pod is given counts. The other ticket keeps its guardian.
fn claims_beside<'a>(facts: Facts<'a>, ticket: &'a Ticket) -> impl Iterator<Item = (&'a Pod, bool)> {
    let node = ticket.record.node.as_deref().unwrap_or_default();
    let hand_overs = facts.reservations.hand_overs();
    let tickets = hand_overs.begun(node).chain(hand_overs.waiting(node));
    let others =
        tickets.filter(|other| *other != ticket.uid).filter_map(|uid| facts.reservations.ticket(uid));
    others.filter_map(move |other| {
        let pod = facts.cluster.pod(other.claim()?.pod)?;
        facts.reservations.claimed_by(pod.uid).filter(|given| given.uid == other.uid)?;
        let guarded = matches!(guardian(facts.cluster, other), Guardian::Ours(_));
        (!pod.is_bound() && !pod.terminating).then_some((pod, guarded))
    })
}
