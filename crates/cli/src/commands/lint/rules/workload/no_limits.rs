use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC216",
    severity: Severity::Note,
    title: "a StatefulSet without limits",
    why: "A database takes what memory it can get. Without a limit it is the node that runs out, and the kubelet evicts whom it finds, \
          by their requests and priorities. A limit on memory keeps the harm where it was done.",
    hint: "resources:\n  requests: {cpu: 500m, memory: 1Gi}\n  limits: {memory: 1Gi}",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates_of(all, Kind::StatefulSet) {
        let pod = template.spec.down("resources.limits.memory");
        for container in template.containers() {
            if pod.is_missing() && container.down("resources.limits.memory").is_missing() {
                let name = container.get("name");
                found.at(
                    &name,
                    format!(
                        "container {} of {} has no limit on memory",
                        name.text(),
                        template.object.full_name()
                    ),
                );
            }
        }
    }
}
