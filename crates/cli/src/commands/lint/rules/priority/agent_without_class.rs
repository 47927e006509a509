use crate::commands::lint::rules::agent::awaited_agents;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC303",
    severity: Severity::Note,
    title: "an agent without a priority class",
    why: "Other pods wait for this DaemonSet on their node. On a full node its pod is not scheduled while the other pods have \
          the same priority; with a higher class it preempts them. (Priority does not order starts: if a node has capacity \
          for both, the agent's pod need not be scheduled first.)",
    hint: "template:\n  spec:\n    priorityClassName: system-node-critical",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in awaited_agents(all) {
        if template.spec.get("priorityClassName").text().is_empty() {
            let name = &template.object.name;
            found.about(
                template.object,
                format!("other pods wait for DaemonSet {name}, which has no priorityClassName"),
            );
        }
    }
}
