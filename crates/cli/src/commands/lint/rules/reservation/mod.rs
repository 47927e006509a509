//! Rules about Orders and Tickets, and the pods that claim their capacity. Specs, eligible nodes and ticket requests are
//! interpreted by the API crate and the core.

pub mod below_ticket;
pub mod gate_forgotten;
pub mod gate_misspelt;
pub mod invalid;
pub mod never_reserves;
pub mod no_node;
pub mod nobody_serves;
pub mod outlasts_period;
pub mod request_for_nobody;
pub mod request_unclear;
pub mod same_room;
pub mod too_large;

use super::prelude::*;
use crate::commands::lint::view::schedule::{Firing, firing};
use rollcall_api::reservation::{OrderObject, TicketObject};
use rollcall_core::labels::Labels;
use rollcall_core::reservation::names;
use rollcall_core::reservation::spec::{OrderSpec, Places, RequestedTicket, TicketSpec};
use rollcall_core::reservation::wanted::{ANNOTATIONS, wanted};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;

/// A valid object that reserves capacity: an Order, or a Ticket created by a user.
struct ReservingObject<'a> {
    object: &'a Object,
    /// `None` for a Ticket.
    order: Option<Arc<OrderSpec>>,
    ticket: Arc<TicketSpec>,
    /// `nodeName` of a Ticket.
    node: Option<Arc<str>>,
    /// Labels of its tickets.
    labels: Labels,
}

fn reserving_objects<'a>(all: &'a Manifests) -> Vec<ReservingObject<'a>> {
    let order = |object: &'a Object| {
        let order = read::<OrderObject>(object)?.facts().spec.ok()?;
        let labels = object.field("spec.template.metadata.labels").entries();
        let labels = labels.iter().map(|(key, value)| (*key, value.text())).collect();
        Some(ReservingObject {
            object,
            ticket: order.template.spec.clone(),
            order: Some(order),
            node: None,
            labels,
        })
    };
    let ticket = |object: &'a Object| {
        let ticket = read::<TicketObject>(object)?.facts();
        let (spec, node, labels) = (ticket.spec.ok()?, ticket.node, ticket.labels);
        Some(ReservingObject { object, ticket: spec, order: None, node, labels })
    };
    let orders = all.of_kind(Kind::Order).filter_map(order);
    orders.chain(all.of_kind(Kind::Ticket).filter_map(ticket)).collect()
}

/// Parses an object like the watch does, but only its name, labels and spec.
fn read<T: DeserializeOwned>(object: &Object) -> Option<T> {
    let metadata = json!({ "name": object.name, "labels": object.value["metadata"]["labels"] });
    serde_json::from_value(json!({ "metadata": metadata, "spec": object.value["spec"] })).ok()
}

impl<'a> ReservingObject<'a> {
    /// The spec of its tickets.
    fn ticket_field(&self) -> Field<'a> {
        ticket_field(self.object)
    }

    /// Whether the Order gives tickets to pods with these labels even if they request none.
    fn selects(&self, labels: &Labels) -> bool {
        let order = self.order.as_ref().filter(|order| order.places == Places::EachNode);
        order.and_then(|order| order.selector.as_ref()).is_some_and(|selector| selector.matches(labels))
    }

    /// Whether a pod may claim a ticket of this object, by its request and labels. Size and nodes are not considered.
    fn serves(&self, seeker: &Seeker) -> bool {
        let Object { namespace, name, .. } = self.object;
        let is_order = self.order.is_some();
        *namespace == seeker.template.object.namespace
            && match &seeker.wanted {
                RequestedTicket::Any => self.selects(&seeker.template.labels),
                // Names of an Order's tickets start with the name of the Order.
                RequestedTicket::Ticket(ticket) if is_order => {
                    ticket.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('-'))
                }
                RequestedTicket::Ticket(ticket) => **ticket == **name,
                RequestedTicket::Label { key, value } => self.labels.get(key) == Some(value),
                RequestedTicket::Order(order) => is_order && **order == **name,
                RequestedTicket::Unclear(_) => false,
            }
    }
}

fn ticket_field(object: &Object) -> Field<'_> {
    match object.kind {
        Some(Kind::Order) => object.field("spec.template.spec"),
        _ => object.spec(),
    }
}

/// A template whose pods need a ticket, with their ticket request.
struct Seeker<'a> {
    template: PodTemplate<'a>,
    wanted: RequestedTicket,
}

/// Templates that have the ticket gate, request a ticket, or are selected by an Order.
fn seekers<'a>(all: &'a Manifests, rooms: &[ReservingObject]) -> Vec<Seeker<'a>> {
    let seeker = |template: PodTemplate<'a>| {
        let annotations = template.metadata.get("annotations").value;
        let wanted = wanted(|key| annotations[key].as_str());
        Seeker { template, wanted }
    };
    let mut seekers: Vec<Seeker> = templates(all).into_iter().map(seeker).collect();
    seekers.retain(|seeker| {
        let seeks = seeker.wanted != RequestedTicket::Any
            || seeker.is_held()
            || rooms.iter().any(|room| room.serves(seeker));
        seeks && seeker.template.labels.get(names::GUARDIAN).is_none()
    });
    seekers
}

impl<'a> Seeker<'a> {
    fn is_held(&self) -> bool {
        self.template.has_gate(rollcall_api::names::TICKET_GATE)
    }

    /// The field that requests the ticket, or else the gate, or else the labels.
    fn place(&self) -> Field<'a> {
        let annotations = ANNOTATIONS.map(|key| self.template.metadata.get("annotations").get(key));
        // In the older spelling, one annotation may just be "true", and another one holds the name.
        let is_name = |field: &Field| !["", "true"].contains(&field.text().trim());
        let asked = annotations.into_iter().find(is_name);
        let gates = self.template.gates();
        asked.or_else(|| gates.into_iter().next()).unwrap_or_else(|| self.template.metadata.get("labels"))
    }
}

/// Whether the schedule of an Order is valid but never fires.
fn never_comes(order: &Object) -> bool {
    let strategy = order.field("spec.strategy");
    matches!(firing(&strategy.get("schedule"), &strategy.get("timeZone")), Firing::Never)
}
