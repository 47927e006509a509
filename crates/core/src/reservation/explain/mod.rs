//! Explains why a ticket is missing, not Reserved or not claimed. Uses the same functions as the decisions.

mod claiming_pod;
mod order;
mod room;
mod ticket;

pub use claiming_pod::{explain_claiming_pod, explain_released_pod};
pub use order::{Rooms, Written, explain_order, without_room};
pub use room::{Occupant, Room};
pub use ticket::{FetchedData, explain_ticket};

use super::index::OrderEntry;
use super::spec::{Ticket, TicketPhase};
use super::status::subject;
use crate::{
    Timestamp,
    cluster::Target,
    decision::Subject,
    kind::Kind,
    line::{Hint, Line, elapsed},
    node::Node,
};
use std::sync::Arc;

/// Maximum number of lines of one kind, and of names in one line. Further ones are only counted.
const LISTED_NAMES: usize = 5;

/// Returns when a ticket entered its current state.
fn since(ticket: &Ticket) -> Timestamp {
    let record = &ticket.record;
    match (ticket.phase(), &record.claim) {
        (TicketPhase::Claimed, Some(claim)) => claim.at.max(ticket.created),
        (TicketPhase::Expired, _) => record.expires.unwrap_or(ticket.created),
        _ => record.ready.since.unwrap_or(ticket.created),
    }
}

fn order_target(entry: &OrderEntry) -> Target {
    let Subject { kind, namespace, name, uid } = subject(entry);
    Target { kind, namespace, name, uid: Some(uid) }
}

fn node_target(node: &Arc<str>, known: Option<&Node>) -> Target {
    Target { kind: Kind::Node, namespace: "".into(), name: node.clone(), uid: known.map(|node| node.uid) }
}

/// Formats a future time without fractions of a second: `2026-01-01T00:05:00Z, in 5m`.
fn ahead(at: Timestamp, now: Timestamp) -> String {
    format!("{}, in {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"), elapsed(now, at))
}

/// Formats names as `a, b, c and 4 more`.
fn some<T: AsRef<str>>(names: &[T]) -> String {
    let first: Vec<&str> = names.iter().take(LISTED_NAMES).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(LISTED_NAMES) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Returns the first lines, and a line with the number of further ones.
fn bounded(lines: Vec<Line>, what: &str) -> Vec<Line> {
    let more = lines.len().saturating_sub(LISTED_NAMES);
    let last = lines.get(LISTED_NAMES).map(|line| (line.since, line.object.clone()));
    let mut lines: Vec<Line> = lines.into_iter().take(LISTED_NAMES).collect();
    if let Some((since, object)) = last {
        let text = if more == 1 { "and 1 more".to_owned() } else { format!("and {more} more {what}") };
        lines.push(Line::new("More", text, since, object));
    }
    lines
}

/// The hint for a state that the controller should change soon.
fn doctor() -> Hint {
    Hint::Advice("check that the controller runs in Full mode: rollcall doctor".into())
}

fn explain_hint(kind: &str, namespace: &Arc<str>, name: &str) -> Hint {
    Hint::rollcall("explain", namespace, format!("{kind}/{name}"))
}
