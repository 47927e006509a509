use super::{ReservingObject, reserving_objects, seekers};
use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;
use rollcall_core::reservation::spec::RequestedTicket;

pub const RULE: Rule = Rule {
    code: "RC606",
    severity: Severity::Warning,
    title: "a request for a missing ticket or Order",
    why: "The pod requests a ticket or an Order by name or label. The files contain Orders or Tickets, but none that matches; \
          only those in the namespace of the pod count. The pods run without reserved capacity (event `NoTicket`).",
    hint: "metadata:\n  annotations:\n    korder.dev/order-request: storage",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let rooms = reserving_objects(all);
    // Objects with an invalid spec count as well.
    let known = |kind: Kind| all.of_kind(kind);
    if known(Kind::Order).chain(known(Kind::Ticket)).next().is_none() {
        return;
    }
    for seeker in seekers(all, &rooms) {
        let namespace = &seeker.template.object.namespace;
        let there = |kind: Kind| all.in_namespace(kind, namespace).map(|object| object.name.as_str());
        let (what, named) = match &seeker.wanted {
            RequestedTicket::Order(name) if !there(Kind::Order).any(|order| order == &**name) => {
                (format!("Order {name}"), suggestion(name, there(Kind::Order)))
            }
            RequestedTicket::Ticket(name) if !there(Kind::Ticket).any(|ticket| ticket == &**name) => {
                (format!("ticket {name}"), suggestion(name, there(Kind::Ticket)))
            }
            RequestedTicket::Label { key, value } => {
                (format!("ticket with the label {key}={value}"), String::new())
            }
            RequestedTicket::Order(_)
            | RequestedTicket::Ticket(_)
            | RequestedTicket::Any
            | RequestedTicket::Unclear(_) => continue,
        };
        let served = |room: &ReservingObject| room.serves(&seeker);
        if !rooms.iter().any(served) {
            found.at(&seeker.place(), format!("{what} not found in namespace {namespace}{named}"));
        }
    }
}
