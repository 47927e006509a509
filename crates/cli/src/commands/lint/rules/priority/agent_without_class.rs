use crate::commands::lint::rules::agent::awaited_agents;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC303",
    severity: Severity::Note,
    title: "an agent without a priority",
    why: "Others wait for this DaemonSet on their node. On a full node its pod is not placed while pods of its own priority are there; with a \
          higher class it preempts them. (Priority does not order the start: the pod of an agent is not scheduled before others \
          because of it, when there is room for both.)",
    hint: "template:\n  spec:\n    priorityClassName: system-node-critical",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in awaited_agents(all) {
        if template.spec.get("priorityClassName").text().is_empty() {
            let name = &template.object.name;
            found.about(
                template.object,
                format!("others wait for DaemonSet {name}, which has no priority on a full node"),
            );
        }
    }
}
