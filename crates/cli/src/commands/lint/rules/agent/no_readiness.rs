use super::awaited_agents;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC504",
    severity: Severity::Note,
    title: "an agent that is ready before it is",
    why: "Others wait until the pods of this DaemonSet are ready. Without a readiness or startup probe a pod is ready as soon as its \
          containers run, so they wait for next to nothing. (A group can also wait for what the node shows: `nodeReady`.)",
    hint: "readinessProbe:\n  exec: {command: [test, -S, /csi/csi.sock]}\n  periodSeconds: 5",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in awaited_agents(all) {
        let probed = |container: &Field| {
            ["readinessProbe", "startupProbe"].iter().any(|probe| !container.get(probe).is_missing())
        };
        if !template.all_containers().iter().any(probed) && !asks_the_node(all, &template) {
            let name = &template.object.name;
            found.about(
                template.object,
                format!("others wait for DaemonSet {name}, which has no readiness probe"),
            );
        }
    }
}

/// Whether the group asks for more than ready pods.
fn asks_the_node(all: &Scene, template: &Template) -> bool {
    let claims = all.claims();
    claims.each().any(|(sequence, position, claimed)| {
        std::ptr::eq(claimed.object, template.object) && sequence.spec.groups[position].node_ready.is_some()
    })
}
