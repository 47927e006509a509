use super::gate_misspelt::near_miss;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC106",
    severity: Severity::Warning,
    title: "a member that nothing holds",
    why: "Its group waits for another one, but the template has no scheduling gate, so its pods start at once. The controller can \
          only say so afterwards (`OutOfOrder`). In Full mode pods get the gate when they are created, in namespaces with the \
          label `podsequence-enabled=true`; a Namespace with that label among the files turns this rule off.",
    hint: "spec:\n  schedulingGates:\n  - name: podsequence.example.com/sequence-gate",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let claims = all.claims();
    for (sequence, position, template) in claims.each() {
        let group = &sequence.spec.groups[position];
        let gate = &*sequence.spec.gate;
        let held = template.has_gate(gate) || gets_gate_at_admission(all, &template.object.namespace);
        let misspelt = template.gates().iter().any(|name| near_miss(name.text(), gate));
        // Released by the controller already, or bound: a gate would be gone.
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
                    "nothing holds the pods of {} until {} is complete: they lack the gate",
                    template.object.full_name(),
                    before.join(" and ")
                ),
            )
            .hint(format!("schedulingGates:\n- name: {gate}"));
    }
}
