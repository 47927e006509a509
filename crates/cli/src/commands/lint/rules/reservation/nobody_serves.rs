use super::{reserving_objects, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;
use rollcall_core::reservation::spec::RequestedTicket;

pub const RULE: Rule = Rule {
    code: "RC607",
    severity: Severity::Warning,
    title: "a ticket gate without a matching Order or request",
    why: "The template has the ticket gate but requests no ticket, and no Order in the files selects its pods. Unless an \
          Order elsewhere selects them, the controller releases them without reserved capacity. Without a controller in Full \
          mode they are held indefinitely.",
    hint: "metadata:\n  annotations:\n    korder.dev/order-request: storage",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let rooms = reserving_objects(all);
    // An Order with an invalid spec may be the one that selects the pods.
    let unread = |object: &&Object| !rooms.iter().any(|room| std::ptr::eq(room.object, *object));
    for seeker in seekers(all, &rooms) {
        let gates = seeker.template.gates();
        let gate = gates.iter().find(|gate| gate.text() == names::TICKET_GATE);
        let served = rooms.iter().any(|room| room.serves(&seeker));
        let namespace = &seeker.template.object.namespace;
        let unsure = all.in_namespace(Kind::Order, namespace).any(|order| unread(&order));
        if let Some(gate) = gate.filter(|_| seeker.wanted == RequestedTicket::Any && !served && !unsure) {
            let whose = seeker.template.object.full_name();
            found.at(
                gate,
                format!("the pods of {whose} have the ticket gate but request no ticket, and no Order selects them"),
            );
        }
    }
}
