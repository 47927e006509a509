use super::gate_misspelt::misspelt;
use super::{rooms, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_core::reservation::spec::Wanted;

pub const RULE: Rule = Rule {
    code: "RC608",
    severity: Severity::Warning,
    title: "a pod that does not wait for its room",
    why: "Room is kept for its pods, but the template has no gate, so the scheduler places them at once: the guardian keeps their room from \
          them, too. In Full mode pods get the gate when they are created, in namespaces with the label `podsequence-enabled=true`; \
          a Namespace with that label among the files turns this rule off. In kube-system the template must have it.",
    hint: "spec:\n  schedulingGates:\n  - name: korder.dev/ticket-gate",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let rooms = rooms(all);
    for seeker in seekers(all, &rooms) {
        let object = seeker.template.object;
        // A pod of a cluster has been let go already.
        let running = all.live && seeker.template.kind == Kind::Pod;
        let misspelt = seeker.template.gates().iter().any(misspelt);
        let held = seeker.is_held() || misspelt || gets_gate_at_admission(all, &object.namespace);
        if held || running || matches!(seeker.wanted, Wanted::Unclear(_)) {
            continue;
        }
        let whose = object.full_name();
        found.at_key(
            &seeker.template.spec,
            format!("the pods of {whose} do not wait for the room that is kept for them: they lack the gate"),
        );
    }
}
