use super::{rooms, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;
use rollcall_core::reservation::spec::Wanted;

pub const RULE: Rule = Rule {
    code: "RC607",
    severity: Severity::Warning,
    title: "a pod that waits for room which nobody keeps",
    why: "The template has the gate of tickets, but asks for no ticket, and no Order of the files selects its pods. Unless an Order elsewhere \
          does, the controller lets them run without reserved room, and without a controller in Full mode they are held for ever.",
    hint: "metadata:\n  annotations:\n    korder.dev/order-request: storage",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let rooms = rooms(all);
    // An Order that cannot be understood may be the one that is meant.
    let unread = |object: &&Object| !rooms.iter().any(|room| std::ptr::eq(room.object, *object));
    for seeker in seekers(all, &rooms) {
        let gates = seeker.template.gates();
        let gate = gates.iter().find(|gate| gate.text() == names::TICKET_GATE);
        let served = rooms.iter().any(|room| room.serves(&seeker));
        let namespace = &seeker.template.object.namespace;
        let unsure = all.in_namespace(Kind::Order, namespace).any(|order| unread(&order));
        if let Some(gate) = gate.filter(|_| seeker.wanted == Wanted::Any && !served && !unsure) {
            let whose = seeker.template.object.full_name();
            found.at(
                gate,
                format!("the pods of {whose} wait for a ticket, ask for none, and no Order selects them"),
            );
        }
    }
}
