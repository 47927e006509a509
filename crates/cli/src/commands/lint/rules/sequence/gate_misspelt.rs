use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;
use rollcall_core::gates;

pub const RULE: Rule = Rule {
    code: "RC107",
    severity: Severity::Error,
    title: "a misspelt sequence gate",
    why: "A sequence removes only the gate that it manages: `schedulingGateName`, or the default one. A gate with another \
          name is foreign and stays, so the pod is held indefinitely.",
    hint: "schedulingGates:\n- name: podsequence.example.com/sequence-gate",
    about_absence: false,
    check,
};

/// Minimum Jaro-Winkler similarity of a name and its misspelling.
const ALIKE: f64 = 0.9;

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    let managed = |gate: &str| claims.sequences.iter().any(|sequence| *sequence.spec.gate == *gate);
    for (sequence, _, template) in claims.each() {
        let gate = &*sequence.spec.gate;
        for name in template.gates() {
            if near_miss(name.text(), gate) && !managed(name.text()) {
                let whose = &sequence.object.name;
                found
                    .at(
                        &name,
                        format!("no PodSequence removes this gate; PodSequence {whose} manages {gate}"),
                    )
                    .hint(format!("schedulingGates:\n- name: {gate}"));
            }
        }
    }
}

/// Whether `name` looks like a misspelling of the sequence's gate.
pub fn near_miss(name: &str, gate: &str) -> bool {
    let ours = name.starts_with(names::PREFIX) && gates::feature(name).is_none();
    name != gate && (ours || strsim::jaro_winkler(name, gate) >= ALIKE)
}
