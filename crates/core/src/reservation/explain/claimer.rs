//! Which ticket a pod gets, and which ones it cannot have.

use super::super::Facts;
use super::super::claim::{Choice, Obstacle, TICKET_WITHIN, candidates, check, choose};
use super::super::hand_over::{Step, next_step};
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

/// A pod behind the ticket gate; nothing if it is not, or if no Order and no ticket is known: then nobody has looked, or nobody could.
pub fn explain_claimer(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Option<Line> {
    let known = facts.reservations.orders().next().is_some() || facts.reservations.tickets().next().is_some();
    let request = pod.request.as_deref().filter(|_| is_gated(pod) && known)?;
    let (name, time) = (&pod.name, elapsed(pod.created, now));
    let line = |code: &'static str, text: String| Line::new(code, text, pod.created, Target::of_pod(pod));
    if let Some(ticket) = facts.reservations.claimed_by(pod.uid) {
        let at = ticket.claim().map_or(pod.created, |claim| claim.at);
        let next = next_in_words(facts, pod, ticket, now).unwrap_or_default();
        let on = ticket.record.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let text = format!("{name} is being given the room of ticket {}{on}: {next}", ticket.name);
        let late = now.duration_since(at) > TICKET_WITHIN;
        let line = Line { since: at, ..line("HandOver", text) };
        let line = line.hint(explain_hint("ticket", &ticket.namespace, &ticket.name));
        return Some(if late { line.hint(doctor()) } else { line });
    }
    let release = Hint::rollcall("release", &pod.namespace, format!("pod/{name}"));
    let release = release.to("let it run without reserved room");
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
                Choice::Ticket(_) => format!("now it would get {what}"),
                Choice::Soon(_) => format!("now it would wait: {what}"),
                Choice::None { .. } => format!("now it would run without reserved room: {what}"),
            };
            let text = format!(
                "{name} is held by {} for {time}: its turn comes when no other gate holds it; {gets}",
                gates::TICKET
            );
            line("OtherGateFirst", text)
        }
        (true, (code, what)) => line(
            code,
            match &choice {
                Choice::Ticket(_) => {
                    format!("{name} has waited for room for {time}, and is about to get {what}")
                }
                Choice::Soon(_) => format!(
                    "{name} has waited for room for {time}, and waits at most {} s before it runs without: {what}",
                    TICKET_WITHIN.as_secs()
                ),
                Choice::None { .. } => {
                    format!("{name} has waited for room for {time}, and is about to run without: {what}")
                }
            },
        ),
    };
    let line = line.with(below);
    let line = if late { line.hint(doctor()) } else { line };
    Some(if others.is_empty() { line.hint(release) } else { line })
}

/// The gates that hold a pod besides ours.
pub(super) fn other_gates(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.gates.iter().map(|gate| &**gate).filter(|gate| *gate != gates::TICKET)
}

/// A pod whose gate is gone, and that has, or is about to have, the room of a ticket.
pub fn explain_claimed(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Option<Line> {
    let ticket = facts.reservations.claimed_by(pod.uid).filter(|_| !is_gated(pod))?;
    let claim = ticket.claim()?;
    let (name, room, time) = (&pod.name, &ticket.name, elapsed(claim.at, now));
    let node = ticket.record.node.as_deref().unwrap_or("a node");
    let text = match &pod.node {
        Some(there) if **there == *node => {
            format!("{name} has the room of ticket {room} on {node}, for {time}")
        }
        Some(there) => format!("{name} is on {there}, and not in the room of ticket {room} on {node}"),
        None => format!(
            "{name} may take the room of ticket {room} on {node}, for {time}: the scheduler has not bound it"
        ),
    };
    let hint = explain_hint("ticket", &ticket.namespace, room);
    Some(Line::new("HasRoom", text, claim.at, Target::of_pod(pod)).hint(hint))
}

/// The tickets that it cannot have. If there is only one, what is said of the pod says it.
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
    // What is nearest first.
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    bounded(lines.into_iter().map(|(_, line)| line).collect(), "tickets")
}

/// What is next in the hand-over of a ticket to a pod that is still held; nothing if it is held no more.
pub(super) fn next_in_words(facts: Facts<'_>, pod: &Pod, ticket: &Ticket, now: Timestamp) -> Option<String> {
    if !is_gated(pod) {
        return None;
    }
    let node = ticket.record.node.as_deref().unwrap_or("its node");
    Some(match next_step(facts, ticket, now) {
        _ if pod.gates.len() > 1 => "another gate holds it".to_owned(),
        Some(Step::AwaitTurn) => format!("it waits for earlier claims on {node}"),
        Some(Step::AwaitForeign(other, _)) => {
            format!("it waits for pod {other}, which is nominated for {node}")
        }
        Some(Step::Nominate) => format!("next, it is nominated for {node}"),
        Some(Step::AwaitNominations) => {
            format!("it is nominated for {node}, and waits for the other claims there to be nominated")
        }
        Some(Step::ClearNomination) => {
            "its guardian could not be deleted; next, its nomination is cleared, and it tries again"
                .to_owned()
        }
        Some(Step::DeleteGuardian(_)) => {
            format!("it is nominated for {node}; next, the guardian gives way")
        }
        Some(Step::AwaitDeletions) => {
            format!(
                "it is nominated for {node}, and waits for the guardians of all claims there to be deleted"
            )
        }
        Some(Step::RemoveGate) | None => "the guardian has given way; next, its gate goes".to_owned(),
    })
}
