//! Explains why an Order does not have all of its tickets.

use super::super::Facts;
use super::super::eligible::{Criterion, Fit};
use super::super::index::{OrderEntry, Place, ticket_target};
use super::super::order::{Closed, opening};
use super::super::reason::{Reason, described};
use super::super::spec::{OrderSpec, Places, Ticket, TicketPhase};
use super::super::status::{Cause, OrderStatus, order_status};
use super::super::ticket::NO_ROOM;
use super::room::Room;
use super::ticket::{ROOMS, no_room};
use super::{LISTED_NAMES, ahead, bounded, doctor, explain_hint, node_target, order_target, since, some};
use crate::{
    Timestamp, Uid,
    line::{Hint, Line, elapsed},
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The part of an Order's status that is not in the facts.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The last transition of the Ready condition.
    pub since: Option<Timestamp>,
    pub message: &'a str,
    /// Whether nodes could be read. If not, an Order with one ticket per node is described only by its message.
    pub nodes_known: bool,
}

/// The usage of a ticket's candidate nodes, for the tickets that [`without_room`] returns.
pub type Rooms = BTreeMap<Uid, Vec<Room>>;

/// The tickets whose candidate nodes are explained: the first ones that wait for capacity. Tickets that are not bound to a
/// node all wait for the same nodes, so only one of them is returned.
pub fn without_room<'a>(facts: Facts<'a>, entry: &'a OrderEntry) -> Vec<&'a Ticket> {
    let mut waiting: Vec<&Ticket> = pending(facts, entry).filter(|ticket| has_no_room(ticket)).collect();
    waiting.sort_by(|one, other| one.name.cmp(&other.name));
    let mut unbound = waiting.iter().filter(|ticket| ticket.node.is_none()).take(1);
    match unbound.next() {
        Some(ticket) => vec![*ticket],
        None => waiting.into_iter().take(ROOMS).collect(),
    }
}

fn has_no_room(ticket: &Ticket) -> bool {
    *ticket.record.reason == *NO_ROOM
}

/// The tickets that are not Reserved yet.
fn pending<'a>(facts: Facts<'a>, entry: &'a OrderEntry) -> impl Iterator<Item = &'a Ticket> {
    let tickets = entry.tickets().filter_map(move |uid| facts.reservations.ticket(uid));
    tickets.filter(|ticket| ticket.is_unclaimed() && ticket.phase() == TicketPhase::Pending)
}

pub fn explain_order(
    facts: Facts<'_>,
    entry: &OrderEntry,
    written: &Written<'_>,
    rooms: &Rooms,
    now: Timestamp,
) -> Line {
    let (status, _) = order_status(facts, entry, now);
    let since = written.since.unwrap_or(entry.order.created);
    let question = OrderQuestion { facts, entry, rooms, now, since };
    let Some(spec) = entry.spec() else {
        let text = format!("Order {} has an invalid spec: {}", entry.order.name, status.message);
        return question.line(Reason::InvalidSpec.code(), text).hint(question.edit());
    };
    let by_nodes = spec.places == Places::EachNode;
    if by_nodes && !written.nodes_known {
        let text = format!("Order {}, according to its status: {}", entry.order.name, written.message);
        return question.line("OrderUnjudged", text).with(question.tickets());
    }
    let mut below = question.tickets();
    if !spec.paused {
        below.extend(question.missing(spec, &status));
    }
    if by_nodes {
        below.extend(question.nodes());
    }
    below.extend(question.schedule(&status));
    question.summary(spec, &status).with(below)
}

struct OrderQuestion<'a> {
    facts: Facts<'a>,
    entry: &'a OrderEntry,
    rooms: &'a Rooms,
    now: Timestamp,
    since: Timestamp,
}

impl OrderQuestion<'_> {
    fn line(&self, code: &'static str, text: String) -> Line {
        Line::new(code, text, self.since, order_target(self.entry))
    }

    fn edit(&self) -> Hint {
        let order = &self.entry.order;
        Hint::kubectl("edit orders.core.korder.dev", &order.namespace, order.name.to_string())
    }

    fn summary(&self, spec: &OrderSpec, status: &OrderStatus) -> Line {
        let OrderStatus { ready, failure, message, .. } = status;
        let (name, time) = (&self.entry.order.name, elapsed(self.since, self.now));
        if spec.paused {
            let text = format!("Order {name} is paused, no tickets are created or removed: {message}");
            return self.line(Reason::Paused.code(), text).hint(self.edit());
        }
        // A rejection by the API server is reported first, because other problems follow from it.
        let refused = failure.holds && failure.reason == Reason::TicketRefused;
        let Cause { holds, reason, message } = if refused { failure } else { ready };
        let verb = if *holds && !refused { "has been" } else { "has not been" };
        let line = self.line(reason.code(), format!("Order {name} {verb} Ready for {time}: {message}"));
        match reason {
            Reason::Over | Reason::TicketRefused => line.hint(Hint::Advice(reason.hint().into())),
            _ => line,
        }
    }

    /// The tickets that are not Reserved, grouped by reason, and the claimed tickets.
    fn tickets(&self) -> Vec<Line> {
        let mut waiting: BTreeMap<&str, Vec<&Ticket>> = BTreeMap::new();
        for ticket in pending(self.facts, self.entry) {
            waiting.entry(&ticket.record.reason).or_default().push(ticket);
        }
        let mut lines = Vec::new();
        for (reason, mut tickets) in waiting {
            tickets.sort_by(|one, other| one.name.cmp(&other.name));
            let each = tickets.into_iter().map(|ticket| self.ticket_line(reason, ticket)).collect();
            let what = if reason.is_empty() { "tickets" } else { &format!("tickets: {reason}") };
            lines.extend(bounded(each, what));
        }
        let tickets = self.entry.tickets().filter_map(|uid| self.facts.reservations.ticket(uid));
        lines.extend(self.claimed(tickets.filter(|ticket| ticket.claim().is_some()).collect()));
        lines
    }

    fn ticket_line(&self, reason: &str, ticket: &Ticket) -> Line {
        let (since, target) = (since(ticket), ticket_target(ticket));
        let time = elapsed(since, self.now);
        let hint = explain_hint("ticket", &ticket.namespace, &ticket.name);
        match reason.is_empty() {
            true => {
                let text = format!("ticket {} has had no status for {time}", ticket.name);
                Line::new("TicketUnseen", text, since, target).hint(doctor())
            }
            false => {
                let text =
                    format!("ticket {} has been Pending for {time}: {}", ticket.name, ticket.record.message);
                let code = described(reason).map_or("TicketWaits", |known| known.code);
                Line::new(code, text, since, target).with(self.no_room(ticket)).hint(hint)
            }
        }
    }

    fn no_room(&self, ticket: &Ticket) -> Vec<Line> {
        let known = (self.rooms.get(&ticket.uid), &ticket.spec);
        let (Some(rooms), Ok(spec)) = known else { return Vec::new() };
        no_room(self.facts, ticket, spec, rooms, self.now)
    }

    fn claimed(&self, tickets: Vec<&Ticket>) -> Option<Line> {
        let latest = tickets.iter().map(|ticket| since(ticket)).max()?;
        let who: Vec<String> = tickets
            .iter()
            .filter_map(|ticket| Some((ticket, ticket.claim()?)))
            .map(|(ticket, claim)| match &ticket.record.node {
                Some(node) => format!("{} on {node}", claim.name),
                None => claim.name.to_string(),
            })
            .collect();
        let text = match tickets.len() {
            1 => format!("1 ticket is claimed by {}", some(&who)),
            number => format!("{number} tickets are claimed by {}", some(&who)),
        };
        Some(Line::new(Reason::Claimed.code(), text, latest, order_target(self.entry)))
    }

    /// Places that should have an unclaimed ticket and have none.
    fn missing(&self, spec: &OrderSpec, status: &OrderStatus) -> Vec<Line> {
        let OrderQuestion { facts, entry, now, .. } = *self;
        let ticket = |uid| facts.reservations.ticket(uid);
        let wants =
            |place: &Place| entry.wants(place, now) == Some(true) && entry.chosen(place, ticket).is_none();
        let (mut soon, mut over, mut once) = (Vec::new(), Vec::new(), Vec::new());
        for place in entry.all_places().into_iter().filter(wants) {
            let tickets: Vec<&Ticket> = entry.tickets_at(&place).filter_map(ticket).collect();
            // If the hand-over fails, the place gets its ticket back.
            if tickets.iter().any(|ticket| ticket.is_being_handed_over()) {
                continue;
            }
            match opening(facts, &entry.order, spec, &place, &tickets, now) {
                Ok(_) => soon.push(place.to_string()),
                // [`OrderQuestion::schedule`] reports this.
                Err(Closed::Until(_)) => {}
                Err(Closed::Over) => over.push(place.to_string()),
                Err(Closed::Once) => once.push(place.to_string()),
            }
        }
        let places = |places: &[String]| match spec.places {
            Places::EachNode => format!("on {}", some(places)),
            Places::Number(_) => format!("for replica {}", some(places)),
        };
        let mut lines = Vec::new();
        if !soon.is_empty() {
            let text = format!("no ticket exists {} yet: it is about to be created", places(&soon));
            lines.push(self.line("TicketMissing", text).hint(doctor()));
        }
        if !over.is_empty() && status.ready.reason != Reason::Over {
            let text =
                format!("no more tickets are created {}: the reservation period has ended", places(&over));
            lines.push(self.line(Reason::Over.code(), text));
        }
        if !once.is_empty() {
            let text = format!("no second ticket is created {}: refreshPolicy is Never", places(&once));
            lines.push(self.line("TicketOnce", text));
        }
        lines
    }

    /// Nodes that get no ticket, grouped by the criterion that they fail.
    fn nodes(&self) -> Vec<Line> {
        let mut unfit: BTreeMap<&Criterion, Vec<&Arc<str>>> = BTreeMap::new();
        let mut lines = Vec::new();
        for (node, fit) in self.entry.fits() {
            match fit {
                Fit::Eligible => {}
                Fit::Unfit(criterion) => unfit.entry(criterion).or_default().push(node),
                Fit::Kept { until } => lines.push(self.kept(node, *until)),
            }
        }
        let mut lines = bounded(lines, "nodes that are not Ready");
        // The criterion that most nodes fail comes first, because it is most likely the mistake.
        let mut unfit: Vec<(&Criterion, Vec<&Arc<str>>)> = unfit.into_iter().collect();
        unfit.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        let groups = unfit.iter().map(|(criterion, nodes)| self.unfit(criterion, nodes)).collect();
        lines.extend(bounded(groups, "criteria"));
        lines
    }

    fn node_since(&self, node: &str) -> Timestamp {
        let known = self.facts.cluster.node(node);
        let begin =
            known.map_or(self.entry.order.created, |node| node.not_ready_since.unwrap_or(node.created));
        begin.max(self.entry.order.created).min(self.now)
    }

    fn kept(&self, node: &Arc<str>, until: Option<Timestamp>) -> Line {
        let end = until.map_or("indefinitely".to_owned(), |until| format!("until {until}"));
        let text = format!("{node} is not Ready, and keeps its ticket {end}");
        let object = node_target(node, self.facts.cluster.node(node));
        Line::new("NodeKept", text, self.node_since(node), object)
            .hint(Hint::kubectl_cluster("describe node", node.to_string()))
    }

    fn unfit(&self, criterion: &Criterion, nodes: &[&Arc<str>]) -> Line {
        let what = criterion.describe();
        let first = nodes[0];
        let text = match nodes {
            [node] => format!("{node} gets no ticket: {what}"),
            several => format!("{} nodes get no ticket, {what}: {}", several.len(), some(several)),
        };
        let object = node_target(first, self.facts.cluster.node(first));
        let line = Line::new("NodeNotEligible", text, self.node_since(first), object);
        match criterion {
            Criterion::Cordoned => {
                let these: Vec<&str> = nodes.iter().take(LISTED_NAMES).map(|node| &***node).collect();
                line.hint(Hint::kubectl_cluster("uncordon", these.join(" ")))
            }
            Criterion::NodeSelector | Criterion::Affinity => line
                .hint(Hint::kubectl_cluster("get node", format!("{first} --show-labels")))
                .hint(self.edit()),
            Criterion::Taint(_) => {
                let taints = format!("{first} -o jsonpath='{{.spec.taints}}'");
                line.hint(Hint::kubectl_cluster("get node", taints)).hint(self.edit())
            }
            Criterion::NotReady | Criterion::Leaving => {
                line.hint(Hint::kubectl_cluster("describe node", first.to_string()))
            }
        }
    }

    fn schedule(&self, status: &OrderStatus) -> Option<Line> {
        let next = status.next_schedule.filter(|next| *next > self.now)?;
        Some(self.line("NextSchedule", format!("next scheduled reservation: {}", ahead(next, self.now))))
    }
}
