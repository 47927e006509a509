//! The life of each ticket, recorded from the commits, and whether all Orders and tickets are settled.

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::report::{OrderReport, TicketReport, TicketSpan, TicketState};
use crate::store::Change;
use rollcall_core::reservation::names::GUARDIAN;
use rollcall_core::reservation::ticket::NO_ROOM;
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether the pod is a guardian. Reports show the ticket instead.
pub fn is_guardian(pod: &Value) -> bool {
    pod["metadata"]["labels"][GUARDIAN] == "true"
}

#[derive(Default)]
pub struct TicketLives {
    all: Vec<TicketReport>,
    by_uid: BTreeMap<String, usize>,
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

impl TicketLives {
    /// Records a change of a ticket. Returns whether its state changed.
    pub fn update(&mut self, change: &Change, at: u64) -> bool {
        let (ticket, status) = (&change.object, &change.object["status"]);
        let place = *self.by_uid.entry(ticket.uid().to_owned()).or_insert_with(|| {
            let (namespace, name) = (change.key.namespace.to_string(), change.key.name.to_string());
            let order = text(&ticket["metadata"]["ownerReferences"][0]["name"]);
            self.all.push(TicketReport {
                namespace,
                name,
                order,
                node: None,
                spans: Vec::new(),
                deleted: None,
            });
            self.all.len() - 1
        });
        let life = &mut self.all[place];
        if change.deleted {
            life.deleted = Some(at);
            return true;
        }
        life.node = text(&status["nodeName"]).or(text(&ticket["spec"]["nodeName"]));
        let state = match status["phase"].as_str() {
            Some("Reserved") => TicketState::Reserved,
            Some("Claimed") => TicketState::Claimed,
            Some("Expired") => TicketState::Expired,
            _ if status["reason"] == NO_ROOM => TicketState::NoRoom,
            _ => TicketState::Pending,
        };
        let claimed_by = text(&status["podName"]).filter(|_| state == TicketState::Claimed);
        let waits = matches!(state, TicketState::Pending | TicketState::NoRoom) && is_settled(ticket);
        let why = text(&status["message"]).filter(|_| waits);
        let new = TicketSpan { from: at, state, claimed_by, why };
        let lasts = |last: &TicketSpan| TicketSpan { from: at, ..last.clone() } == new;
        if life.spans.last().is_some_and(lasts) {
            return false;
        }
        // A state that ends at the instant it began is dropped.
        if life.spans.last().is_some_and(|last| last.from == at) {
            life.spans.pop();
        }
        if !life.spans.last().is_some_and(lasts) {
            life.spans.push(new);
        }
        true
    }

    pub fn all(&self) -> &[TicketReport] {
        &self.all
    }
}

/// Whether no further change of the ticket is expected.
fn is_settled(ticket: &Value) -> bool {
    let status = &ticket["status"];
    match status["phase"].as_str() {
        Some("Reserved" | "Expired") => true,
        Some("Claimed") => status["guardianPod"].is_null(),
        _ => !matches!(status["reason"].as_str(), None | Some("GuardianStarting" | "Unclaimed" | "NotBound")),
    }
}

fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|is| is["type"] == name).map_or(&Value::Null, |is| &is["status"])
}

/// Whether all tickets are settled and no Order is progressing.
pub fn are_settled(cluster: &Cluster) -> bool {
    cluster.store.list(Kind::Ticket, None).all(|(_, ticket)| is_settled(ticket))
        && cluster.store.list(Kind::Order, None).all(|(_, order)| condition(order, "Progressing") == "False")
}

pub fn orders(cluster: &Cluster) -> Vec<OrderReport> {
    let orders = cluster.store.list(Kind::Order, None);
    let report = orders.map(|(key, order)| OrderReport {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        ready: condition(order, "Ready") == "True",
        message: text(&order["status"]["message"]).unwrap_or_default(),
    });
    report.collect()
}
