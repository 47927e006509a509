use crate::commands::lint::rules::prelude::*;
use rollcall_api::names;
use rollcall_core::gates;

pub const RULE: Rule = Rule {
    code: "RC107",
    severity: Severity::Error,
    title: "another gate than the sequence's",
    why: "A sequence removes the one gate that it manages (`schedulingGateName`, or the usual one). A gate of another name is \
          somebody else's and stays, so the pod is held for ever.",
    hint: "schedulingGates:\n- name: podsequence.example.com/sequence-gate",
    about_absence: false,
    check,
};

/// How alike two names are (Jaro-Winkler) that differ by a slip of the finger.
const ALIKE: f64 = 0.9;

fn check(all: &Scene, found: &mut Findings) {
    let claims = all.claims();
    let managed = |gate: &str| claims.sequences.iter().any(|sequence| *sequence.spec.gate == *gate);
    for (sequence, _, template) in claims.each() {
        let gate = &*sequence.spec.gate;
        for name in template.gates() {
            if near_miss(name.text(), gate) && !managed(name.text()) {
                let whose = &sequence.object.name;
                found
                    .at(&name, format!("nobody removes this gate: that of PodSequence {whose} is {gate}"))
                    .hint(format!("schedulingGates:\n- name: {gate}"));
            }
        }
    }
}

/// Whether a gate looks like one that was meant to be the sequence's.
pub fn near_miss(name: &str, gate: &str) -> bool {
    let ours = name.starts_with(names::PREFIX) && gates::feature(name).is_none();
    name != gate && (ours || strsim::jaro_winkler(name, gate) >= ALIKE)
}
