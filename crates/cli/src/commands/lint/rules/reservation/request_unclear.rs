use super::seekers;
use crate::commands::lint::rules::prelude::*;
use rollcall_core::reservation::names;
use rollcall_core::reservation::spec::RequestedTicket;

pub const RULE: Rule = Rule {
    code: "RC609",
    severity: Severity::Error,
    title: "an invalid ticket request",
    why: "A pod requests a ticket by its name, by `name:`, by `selector:` with one label and its value, or by `group:`; or it \
          requests any ticket of an Order. Any other request gets no ticket: the pod runs without reserved capacity, and an \
          event reports it.",
    hint: "metadata:\n  annotations:\n    korder.dev/ticket-request: \"selector:zone=a\"",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for seeker in seekers(all, &[]) {
        let RequestedTicket::Unclear(why) = &seeker.wanted else { continue };
        let annotations = seeker.template.metadata.get("annotations");
        let request = annotations.get(names::TICKET_REQUEST);
        let place = if request.text().is_empty() { annotations.get(names::REQUIRED) } else { request };
        found.at(&place, why);
    }
}
