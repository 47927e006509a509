//! Explains the state of a ticket: why it is not Reserved, and why no pod has claimed it.

use super::super::Facts;
use super::super::claim::{Obstacle, candidates, check};
use super::super::eligible::{Criterion, Fit, fit};
use super::super::index::{Guardian, guardian, ticket_target};
use super::super::names::{guardian_class, guardian_name};
use super::super::reason::{Reason, described};
use super::super::spec::{Ticket, TicketClaim, TicketPhase, TicketSpec};
use super::super::ticket::{BIND_WITHIN, NO_ROOM, priority};
use super::claiming_pod::{next_in_words, other_gates};
use super::room::Room;
use super::{ahead, bounded, doctor, explain_hint, node_target, order_target, since, some};
use crate::{
    Timestamp,
    cluster::Target,
    facts::Pod,
    line::{Hint, Line, elapsed},
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of nodes whose usage is explained.
pub(super) const ROOMS: usize = 3;

/// Data that was read in addition to the facts.
#[derive(Clone, Copy, Debug)]
pub struct FetchedData<'a> {
    /// The usage of the ticket's candidate nodes. Empty if it was not read; then it is not explained.
    pub rooms: &'a [Room],
    /// Whether the pods of the namespace could be read. If not, the pods that request the ticket are not listed.
    pub pods_known: bool,
}

pub fn explain_ticket(facts: Facts<'_>, ticket: &Ticket, fetched: FetchedData<'_>, now: Timestamp) -> Line {
    let question = TicketQuestion { facts, ticket, now, since: since(ticket) };
    let record = &ticket.record;
    let (name, time) = (&ticket.name, elapsed(question.since, now));
    if let Err(wrong) = &ticket.spec {
        let text = format!("ticket {name} has an invalid spec: {wrong}");
        return question.line(Reason::InvalidSpec.code(), text);
    }
    if record.reason.is_empty() {
        let text = format!("ticket {name} has had no status for {time}: no controller has processed it");
        return question
            .line("TicketUnseen", text)
            .with(question.order().into_iter().collect())
            .hint(doctor());
    }
    let phase = ticket.phase().as_str();
    let text = match ticket.claim() {
        Some(TicketClaim { name: by, utilization, .. }) => {
            let on = record.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
            format!(
                "ticket {name} has been Claimed{on} for {time} by {by}, which requests {utilization}% of it"
            )
        }
        None => format!("ticket {name} has been {phase} for {time}: {}", record.message),
    };
    let known = described(&record.reason);
    let mut line = question.line(known.map_or("TicketWaits", |known| known.code), text);
    let is_claimed = ticket.claim().is_some();
    let over = ticket.phase() == TicketPhase::Expired;
    let mut below = Vec::new();
    match (ticket.claim(), &ticket.spec) {
        (Some(claim), _) => below.push(question.claiming_pod(claim)),
        (None, Ok(spec)) if *record.reason == *NO_ROOM => {
            below.extend(no_room(facts, ticket, spec, fetched.rooms, now));
        }
        (None, _) => line.hints.extend(question.hints()),
    }
    below.extend(question.guardian());
    if !is_claimed && !over {
        below.extend(fetched.pods_known.then(|| question.wanted()).into_iter().flatten());
        below.extend(question.end());
    }
    below.extend(question.order());
    line.with(below)
}

struct TicketQuestion<'a> {
    facts: Facts<'a>,
    ticket: &'a Ticket,
    now: Timestamp,
    since: Timestamp,
}

impl TicketQuestion<'_> {
    fn line(&self, code: &'static str, text: String) -> Line {
        Line::new(code, text, self.since, ticket_target(self.ticket))
    }

    /// The hints that follow from the reason alone.
    fn hints(&self) -> Vec<Hint> {
        let TicketQuestion { facts, ticket, .. } = self;
        let is = |reason: Reason| *ticket.record.reason == *reason.code();
        let guardian = guardian_name(&ticket.name);
        if is(Reason::GuardianNameTaken) {
            return vec![
                Hint::kubectl("get pod", &ticket.namespace, format!("{guardian} -o yaml"))
                    .to("show its owner"),
            ];
        }
        if is(Reason::UnknownPriorityClass) {
            return vec![Hint::kubectl_cluster("get", "priorityclasses")];
        }
        let priority = ticket.spec.as_ref().ok().and_then(|spec| priority(*facts, spec).ok());
        if let Some(priority) = priority.filter(|_| is(Reason::GuardianClassTaken)) {
            return vec![Hint::kubectl_cluster("delete priorityclass", guardian_class(priority))];
        }
        if is(Reason::GuardianRefused) {
            return vec![Hint::Advice(Reason::GuardianRefused.hint().into())];
        }
        Vec::new()
    }

    fn order(&self) -> Option<Line> {
        let order = self.ticket.order?;
        let Some(entry) = self.facts.reservations.order(order) else {
            let text =
                "its Order no longer exists: the garbage collector is about to delete the ticket".to_owned();
            return Some(self.line("OrderGone", text));
        };
        let text = format!("created by Order {}", entry.order.name);
        let hint = explain_hint("order", &entry.order.namespace, &entry.order.name);
        Some(Line::new("OfOrder", text, self.ticket.created, order_target(entry)).hint(hint))
    }

    /// Describes the claiming pod.
    fn claiming_pod(&self, claim: &TicketClaim) -> Line {
        let Facts { cluster, .. } = self.facts;
        let Some(pod) = cluster.pod(claim.pod) else {
            let text = format!(
                "claiming pod {} not found: if it was deleted, the claim is about to end",
                claim.name
            );
            return self.line("ClaimerGone", text).hint(doctor());
        };
        let object = Target::of_pod(pod);
        let node = self.ticket.record.node.as_deref().unwrap_or("its node");
        if let Some(next) = next_in_words(self.facts, pod, self.ticket, self.now) {
            let text = format!("the capacity is being handed over to {}: {next}", pod.name);
            let time = self.now.duration_since(claim.at) > BIND_WITHIN;
            let line = Line::new("HandOver", text, claim.at, object);
            return if time { line.hint(doctor()) } else { line };
        }
        let code = if pod.node.is_some() { "ClaimerRuns" } else { "ClaimerUnbound" };
        let text = match &pod.node {
            Some(there) => format!("{} is bound to {there}", pod.name),
            None => format!("{} was released, but the scheduler has not bound it to {node} yet", pod.name),
        };
        Line::new(code, text, claim.at, object)
    }

    /// Describes the guardian, if its trouble is the reason why the ticket is Pending.
    fn guardian(&self) -> Option<Line> {
        let Guardian::Ours(pod) = guardian(self.facts.cluster, self.ticket) else { return None };
        let trouble = pod.trouble.as_ref().filter(|_| self.ticket.phase() == TicketPhase::Pending)?;
        let line = Line::not_started(pod, &trouble.what, self.now);
        let describe = Hint::kubectl("describe pod", &pod.namespace, pod.name.to_string());
        Some(Line { text: format!("its guardian {}", line.text), ..line }.hint(describe))
    }

    /// The waiting pods that may claim the ticket, and why each of them has not claimed it.
    fn wanted(&self) -> Vec<Line> {
        let Facts { cluster, reservations } = self.facts;
        let pods = reservations.waiting_in(&self.ticket.namespace).filter_map(|uid| cluster.pod(uid));
        let wants = |pod: &&Pod| {
            let found = pod.request.as_ref().map(|request| candidates(self.facts, pod, request));
            found.unwrap_or_default().iter().any(|ticket| ticket.uid == self.ticket.uid)
        };
        let lines: Vec<Line> = pods.filter(wants).map(|pod| self.wanting(pod)).collect();
        match lines.is_empty() {
            true => vec![self.line("NobodyAsks", "no waiting pod requests this ticket".to_owned())],
            false => bounded(lines, "pods that request it"),
        }
    }

    fn wanting(&self, pod: &Pod) -> Line {
        let name = &pod.name;
        let answer = pod.request.as_ref().map(|request| check(self.facts, pod, request, self.ticket));
        let others: Vec<&str> = other_gates(pod).collect();
        let (code, text) = match answer {
            Some(Err(obstacle)) => {
                let text =
                    format!("{name} requests it but cannot claim it: {}", obstacle.describe("the ticket"));
                (obstacle_code(&obstacle), text)
            }
            _ if !others.is_empty() => {
                ("OtherGateFirst", format!("{name} requests it, but is held by {}", some(&others)))
            }
            _ => ("Wanted", format!("{name} requests it and can claim it")),
        };
        let hint = explain_hint("pod", &pod.namespace, name);
        Line::new(code, text, pod.created, Target::of_pod(pod)).hint(hint)
    }

    /// Describes when the ticket expires.
    fn end(&self) -> Option<Line> {
        let record = &self.ticket.record;
        record.activated.or(record.expires)?;
        let Some(end) = record.expires else {
            return Some(self.line("Endless", "it does not expire".to_owned()));
        };
        let text = format!("unless a pod claims it, it expires at {}", ahead(end, self.now));
        let since = record.expiring.since.filter(|_| record.expiring.holds);
        let code = if since.is_some() { Reason::Expiring.code() } else { "Ends" };
        let begin = since.or(record.activated).unwrap_or(self.since);
        Some(Line::new(code, text, begin, ticket_target(self.ticket)))
    }
}

/// Describes the usage of a ticket's candidate nodes, and the nodes that are not eligible.
pub(super) fn no_room(
    facts: Facts<'_>,
    ticket: &Ticket,
    spec: &TicketSpec,
    rooms: &[Room],
    now: Timestamp,
) -> Vec<Line> {
    let cluster = facts.cluster;
    let (mut possible, mut unfit) = (0, BTreeMap::<Criterion, Vec<Arc<str>>>::new());
    let pinned = ticket.node.as_ref();
    for node in cluster.all_nodes().filter(|node| pinned.is_none_or(|pinned| *pinned == node.name)) {
        match fit(&spec.placement, node) {
            Fit::Eligible | Fit::Kept { .. } => possible += 1,
            Fit::Unfit(criterion) => unfit.entry(criterion).or_default().push(node.name.clone()),
        }
    }
    let mut rooms: Vec<&Room> = rooms.iter().collect();
    rooms.sort_by_key(|room| (room.shortage(&spec.requests), room.node.clone()));
    let looked_at = rooms.len().max(possible);
    let mut lines: Vec<Line> =
        rooms.iter().take(ROOMS).map(|room| room.line(cluster, &spec.requests, now)).collect();
    if !rooms.is_empty() && looked_at > ROOMS {
        let text = format!("and {} more nodes with less free capacity", looked_at - ROOMS);
        lines.push(Line::new("More", text, since(ticket), ticket_target(ticket)));
    }
    for (criterion, nodes) in unfit {
        let text = format!("not eligible: {}: {}", some(&nodes), criterion.describe());
        let object = node_target(&nodes[0], cluster.node(&nodes[0]));
        lines.push(Line::new("NodeNotEligible", text, since(ticket), object));
    }
    lines
}

/// The code of a line about a ticket that a pod cannot claim.
pub(super) fn obstacle_code(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Soon(_) => "TicketPending",
        Obstacle::Priority { .. } => Reason::PriorityBelowTicket.code(),
        Obstacle::TooSmall(_) => "TicketTooSmall",
        Obstacle::Node(_) => "TicketElsewhere",
        Obstacle::Taken(_) => "TicketTaken",
        Obstacle::Invalid(_) => Reason::InvalidSpec.code(),
        Obstacle::Over => Reason::Expired.code(),
    }
}
