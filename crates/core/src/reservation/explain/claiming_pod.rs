//! Explains the ticket that a pod claims, and the tickets that it cannot claim.

use super::super::Facts;
use super::super::claim::{Choice, Obstacle, TICKET_WITHIN, candidates, check, choose};
use super::super::hand_over::{HandOverStep, next_step};
use super::super::index::{is_gated, ticket_target};
use super::super::spec::{Request, Ticket};
use super::ticket::obstacle_code;
use super::{bounded, doctor, explain_hint, since};
use crate::{
    Timestamp,
    cluster::Target,
    facts::Pod,
    gates,
    line::{Hint, Line, elapsed},
};

/// Explains a pod with the ticket gate. `None` for other pods, and if no Order and no ticket is known: they were not or could not
/// be read.
pub fn explain_claiming_pod(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Option<Line> {
    let known = facts.reservations.orders().next().is_some() || facts.reservations.tickets().next().is_some();
    let request = pod.request.as_deref().filter(|_| is_gated(pod) && known)?;
    let (name, time) = (&pod.name, elapsed(pod.created, now));
    let line = |code: &'static str, text: String| Line::new(code, text, pod.created, Target::of_pod(pod));
    if let Some(ticket) = facts.reservations.claimed_by(pod.uid) {
        let at = ticket.claim().map_or(pod.created, |claim| claim.at);
        let next = next_in_words(facts, pod, ticket, now).unwrap_or_default();
        let on = ticket.record.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let text = format!("{name} is being handed the capacity of ticket {}{on}: {next}", ticket.name);
        let late = now.duration_since(at) > TICKET_WITHIN;
        let line = Line { since: at, ..line("HandOver", text) };
        let line = line.hint(explain_hint("ticket", &ticket.namespace, &ticket.name));
        return Some(if late { line.hint(doctor()) } else { line });
    }
    let release = Hint::rollcall("release", &pod.namespace, format!("pod/{name}"));
    let release = release.to("run it without reserved capacity");
    let others: Vec<&str> = other_gates(pod).collect();
    let choice = choose(facts, pod, request, now);
    let below = refused(facts, pod, request, &choice);
    let late = now.duration_since(pod.created) > TICKET_WITHIN * 2 && others.is_empty();
    let answer = match &choice {
        Choice::Ticket(ticket) => {
            let on = ticket.record.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
            ("TicketChosen", format!("ticket {}{on}", ticket.name))
        }
        Choice::Soon(why) => ("TicketAwaited", why.clone()),
        Choice::None { reason, why } => (reason.code(), why.clone()),
    };
    let line = match (others.is_empty(), answer) {
        (false, (_, what)) => {
            let gets = match &choice {
                Choice::Ticket(_) => format!("at present it would claim {what}"),
                Choice::Soon(_) => format!("at present it would wait: {what}"),
                Choice::None { .. } => format!("at present it would run without reserved capacity: {what}"),
            };
            let text = format!(
                "{name} has been held by {} for {time}; it can claim a ticket once all other gates are removed; {gets}",
                gates::TICKET
            );
            line("OtherGateFirst", text)
        }
        (true, (code, what)) => line(
            code,
            match &choice {
                Choice::Ticket(_) => {
                    format!("{name} has waited for a ticket for {time}, and is about to claim {what}")
                }
                Choice::Soon(_) => format!(
                    "{name} has waited for a ticket for {time}; after at most {} s it runs without reserved capacity: {what}",
                    TICKET_WITHIN.as_secs()
                ),
                Choice::None { .. } => {
                    format!(
                        "{name} has waited for a ticket for {time}, and is about to run without reserved capacity: {what}"
                    )
                }
            },
        ),
    };
    let line = line.with(below);
    let line = if late { line.hint(doctor()) } else { line };
    Some(if others.is_empty() { line.hint(release) } else { line })
}

/// The gates that hold a pod besides the ticket gate.
pub(super) fn other_gates(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.gates.iter().map(|gate| &**gate).filter(|gate| *gate != gates::TICKET)
}

/// Explains a pod that has claimed a ticket and has been released.
pub fn explain_released_pod(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Option<Line> {
    let ticket = facts.reservations.claimed_by(pod.uid).filter(|_| !is_gated(pod))?;
    let claim = ticket.claim()?;
    let (name, room, time) = (&pod.name, &ticket.name, elapsed(claim.at, now));
    let node = ticket.record.node.as_deref().unwrap_or("a node");
    let text = match &pod.node {
        Some(there) if **there == *node => {
            format!("{name} has used the capacity of ticket {room} on {node} for {time}")
        }
        Some(there) => format!("{name} is bound to {there}, not to {node}, the node of ticket {room}"),
        None => format!(
            "{name} claimed ticket {room} on {node} {time} ago and was released; the scheduler has not bound it yet"
        ),
    };
    let hint = explain_hint("ticket", &ticket.namespace, room);
    Some(Line::new("HasRoom", text, claim.at, Target::of_pod(pod)).hint(hint))
}

/// The tickets that the pod cannot claim. If there is only one, the line about the pod already explains it.
fn refused(facts: Facts<'_>, pod: &Pod, request: &Request, choice: &Choice<'_>) -> Vec<Line> {
    let tickets = candidates(facts, pod, request);
    if tickets.len() == 1 && !matches!(choice, Choice::Ticket(_)) {
        return Vec::new();
    }
    let line = |ticket: &&Ticket| {
        let obstacle = check(facts, pod, request, ticket).err()?;
        let text = obstacle.describe(&format!("ticket {}", ticket.name));
        let line = Line::new(obstacle_code(&obstacle), text, since(ticket), ticket_target(ticket));
        let line = match obstacle {
            Obstacle::Soon(_) => line.hint(explain_hint("ticket", &ticket.namespace, &ticket.name)),
            _ => line,
        };
        Some((obstacle, line))
    };
    let mut lines: Vec<_> = tickets.iter().filter_map(line).collect();
    // The smallest obstacle first.
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    bounded(lines.into_iter().map(|(_, line)| line).collect(), "tickets")
}

/// Describes the next step of the hand-over of a ticket to a gated pod; `None` if the pod has been released.
pub(super) fn next_in_words(facts: Facts<'_>, pod: &Pod, ticket: &Ticket, now: Timestamp) -> Option<String> {
    if !is_gated(pod) {
        return None;
    }
    let node = ticket.record.node.as_deref().unwrap_or("its node");
    Some(match next_step(facts, ticket, now) {
        _ if pod.gates.len() > 1 => "another gate holds the pod".to_owned(),
        Some(HandOverStep::AwaitTurn) => format!("waiting for earlier claims on {node}"),
        Some(HandOverStep::AwaitForeign(other, _)) => {
            format!("waiting for pod {other}, which is nominated for {node}")
        }
        Some(HandOverStep::Nominate) => format!("next, the pod is nominated for {node}"),
        Some(HandOverStep::AwaitNominations) => {
            format!("nominated for {node}; waiting until the other claiming pods are nominated, too")
        }
        Some(HandOverStep::ClearNomination) => {
            "deleting the guardian failed; next, the nomination is cleared, and the hand-over is retried"
                .to_owned()
        }
        Some(HandOverStep::DeleteGuardian(_)) => {
            format!("nominated for {node}; next, the guardian is deleted")
        }
        Some(HandOverStep::AwaitDeletions) => {
            format!(
                "nominated for {node}; waiting until the guardians of all claims on this node are deleted"
            )
        }
        Some(HandOverStep::RemoveGate) | None => {
            "the guardian is deleted; next, the gate is removed".to_owned()
        }
    })
}
