use super::gate_misspelt::near_miss;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC106",
    severity: Severity::Warning,
    title: "a member without the scheduling gate",
    why: "The group waits for another group, but the template has no scheduling gate, so its pods start at once. The \
          controller can only report it afterwards (`OutOfOrder`). In Full mode the webhook adds the gate in namespaces with \
          the label `podsequence-enabled=true`. If the files contain a Namespace with that label, this rule does not apply to \
          its pods.",
    hint: "spec:\n  schedulingGates:\n  - name: podsequence.example.com/sequence-gate",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let claims = all.claims();
    for (sequence, position, template) in claims.each() {
        let group = &sequence.spec.groups[position];
        let gate = &*sequence.spec.gate;
        let held = template.has_gate(gate) || gets_gate_at_admission(all, &template.object.namespace);
        let misspelt = template.gates().iter().any(|name| near_miss(name.text(), gate));
        // A live pod without the gate may have had it: the controller may have released the pod already.
        let running = all.live && template.kind == Kind::Pod;
        if group.after.is_empty() || held || misspelt || running {
            continue;
        }
        let before: Vec<String> =
            group.after.iter().map(|before| format!("{:?}", sequence.spec.groups[*before].title)).collect();
        found
            .at_key(
                &template.spec,
                format!(
                    "the pods of {} have no scheduling gate, so they do not wait for group {}",
                    template.object.full_name(),
                    before.join(" and ")
                ),
            )
            .hint(format!("schedulingGates:\n- name: {gate}"));
    }
}
