use super::gate_misspelt::near_miss;
use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;

pub const RULE: Rule = Rule {
    code: "RC108",
    severity: Severity::Warning,
    title: "a gated pod that belongs to no sequence",
    why: "The template has the gate of a sequence, but no group of the sequences in the files selects its pods. Unless a \
          sequence elsewhere selects them, they are held indefinitely.",
    hint: "podGroups:\n- name: Web\n  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (place, template) in claims.templates.iter().enumerate() {
        let claimed = claims.claims.iter().any(|(_, _, claimed)| *claimed == place);
        // The annotation names a sequence that is not in the files or has an invalid spec.
        let said = template.annotation(names::POD_SEQUENCE_NAME);
        if claimed || !said.is_empty() {
            continue;
        }
        for gate in template.gates() {
            let ours = |sequence: &Sequence| {
                gate.text() == &*sequence.spec.gate || near_miss(gate.text(), &sequence.spec.gate)
            };
            if gate.text() == names::SEQUENCE_GATE || claims.sequences.iter().any(ours) {
                let whose = template.object.full_name();
                found.at(
                    &gate,
                    format!("the pods of {whose} have a sequence gate, but no group selects them, so they are never released"),
                );
            }
        }
    }
}
