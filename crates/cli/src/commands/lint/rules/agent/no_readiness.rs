use super::awaited_agents;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC504",
    severity: Severity::Note,
    title: "an awaited DaemonSet without a readiness probe",
    why: "Other pods wait until the pods of this DaemonSet are ready. Without a readiness or startup probe a pod is ready as \
          soon as its containers run, so the wait has almost no effect. (A group can also wait for a property of the node: \
          `nodeReady`.)",
    hint: "readinessProbe:\n  exec: {command: [test, -S, /csi/csi.sock]}\n  periodSeconds: 5",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in awaited_agents(all) {
        let probed = |container: &Field| {
            ["readinessProbe", "startupProbe"].iter().any(|probe| !container.get(probe).is_missing())
        };
        if !template.all_containers().iter().any(probed) && !asks_the_node(all, &template) {
            let name = &template.object.name;
            found.about(
                template.object,
                format!("other pods wait for DaemonSet {name}, which has no readiness or startup probe"),
            );
        }
    }
}

/// Whether a group of this template also waits for a property of the node (`nodeReady`).
fn asks_the_node(all: &ManifestFacts, template: &PodTemplate) -> bool {
    let claims = all.claims();
    claims.each().any(|(sequence, position, claimed)| {
        std::ptr::eq(claimed.object, template.object) && sequence.spec.groups[position].node_ready.is_some()
    })
}
