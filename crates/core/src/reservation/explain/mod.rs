//! Why there is no ticket, why it is not Reserved, why nobody gets it: the judgement of the decisions, in lines.

mod claimer;
mod order;
mod room;
mod ticket;

pub use claimer::{explain_claimed, explain_claimer};
pub use order::{Rooms, Written, explain_order, without_room};
pub use room::{Room, Sitter};
pub use ticket::{Looked, explain_ticket};

use super::index::OrderEntry;
use super::spec::{Phase, Ticket};
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

/// Lines of the same kind, and names in one line: what a person reads. The others are counted.
const MOST: usize = 5;

/// Since when a ticket is as it is.
fn since(ticket: &Ticket) -> Timestamp {
    let record = &ticket.record;
    match (ticket.phase(), &record.claim) {
        (Phase::Claimed, Some(claim)) => claim.at.max(ticket.created),
        (Phase::Expired, _) => record.expires.unwrap_or(ticket.created),
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

/// `a time, in 5m`. Thousandths of a second are for machines.
fn ahead(at: Timestamp, now: Timestamp) -> String {
    format!("{}, in {}", at.strftime("%Y-%m-%dT%H:%M:%SZ"), elapsed(now, at))
}

/// `a, b, c and 4 more`.
fn some<T: AsRef<str>>(names: &[T]) -> String {
    let first: Vec<&str> = names.iter().take(MOST).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The first lines, and how many there are besides.
fn bounded(lines: Vec<Line>, what: &str) -> Vec<Line> {
    let more = lines.len().saturating_sub(MOST);
    let last = lines.get(MOST).map(|line| (line.since, line.object.clone()));
    let mut lines: Vec<Line> = lines.into_iter().take(MOST).collect();
    if let Some((since, object)) = last {
        let text = if more == 1 { "and 1 more".to_owned() } else { format!("and {more} more {what}") };
        lines.push(Line::new("More", text, since, object));
    }
    lines
}

/// Where all is well and nothing happens.
fn doctor() -> Hint {
    Hint::Advice("see whether a controller in Full mode runs: rollcall doctor".into())
}

fn explain_hint(kind: &str, namespace: &Arc<str>, name: &str) -> Hint {
    Hint::rollcall("explain", namespace, format!("{kind}/{name}"))
}
