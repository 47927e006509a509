use crate::commands::lint::rules::prelude::*;
use rollcall_api::names::{KORDER_PREFIX, TICKET_GATE};

pub const RULE: Rule = Rule {
    code: "RC612",
    severity: Severity::Error,
    title: "a gate that looks like the one of tickets",
    why: "Of the gates with this prefix there is one, `korder.dev/ticket-gate`. Nobody removes another one, so the pods are held for ever.",
    hint: "schedulingGates:\n- name: korder.dev/ticket-gate",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        for gate in template.gates().iter().filter(|gate| misspelt(gate)) {
            found.at(gate, format!("nobody removes this gate: that of tickets is {TICKET_GATE}"));
        }
    }
}

/// Whether a gate was meant to be the one of tickets.
pub fn misspelt(gate: &Field) -> bool {
    gate.text().starts_with(KORDER_PREFIX) && gate.text() != TICKET_GATE
}
