use crate::commands::lint::rules::prelude::*;
use rollcall_api::names::{KORDER_PREFIX, TICKET_GATE};

pub const RULE: Rule = Rule {
    code: "RC612",
    severity: Severity::Error,
    title: "a misspelt ticket gate",
    why: "The only gate with this prefix is `korder.dev/ticket-gate`. No controller removes any other one, so the pods are \
          held indefinitely.",
    hint: "schedulingGates:\n- name: korder.dev/ticket-gate",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        for gate in template.gates().iter().filter(|gate| misspelt(gate)) {
            found.at(gate, format!("no controller removes this gate; the ticket gate is {TICKET_GATE}"));
        }
    }
}

/// Whether a gate looks like a misspelling of the ticket gate.
pub fn misspelt(gate: &Field) -> bool {
    gate.text().starts_with(KORDER_PREFIX) && gate.text() != TICKET_GATE
}
