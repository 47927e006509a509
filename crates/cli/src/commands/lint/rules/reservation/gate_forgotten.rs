use super::gate_misspelt::misspelt;
use super::{reserving_objects, seekers};
use crate::commands::lint::rules::prelude::*;
use rollcall_core::reservation::spec::RequestedTicket;

pub const RULE: Rule = Rule {
    code: "RC608",
    severity: Severity::Warning,
    title: "a pod that does not wait for its ticket",
    why: "Capacity is reserved for its pods, but the template has no ticket gate, so the scheduler places them at once. The \
          guardian then still occupies the capacity that is meant for them. In Full mode the webhook adds the gate in \
          namespaces with the label `podsequence-enabled=true`. If the files contain a Namespace with that label, this rule \
          does not apply to its pods. In kube-system the template must have the gate.",
    hint: "spec:\n  schedulingGates:\n  - name: korder.dev/ticket-gate",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let rooms = reserving_objects(all);
    for seeker in seekers(all, &rooms) {
        let object = seeker.template.object;
        // A live pod without the gate has been released already.
        let running = all.live && seeker.template.kind == Kind::Pod;
        let misspelt = seeker.template.gates().iter().any(misspelt);
        let held = seeker.is_held() || misspelt || gets_gate_at_admission(all, &object.namespace);
        if held || running || matches!(seeker.wanted, RequestedTicket::Unclear(_)) {
            continue;
        }
        let whose = object.full_name();
        found.at_key(
            &seeker.template.spec,
            format!("the pods of {whose} have no ticket gate, so they do not wait for the capacity reserved for them"),
        );
    }
}
