use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC216",
    severity: Severity::Note,
    title: "a StatefulSet without a memory limit",
    why: "A database uses as much memory as it can get. Without a limit the node runs out of memory, and the kubelet evicts \
          pods by their requests and priorities, even unrelated ones. A memory limit confines the problem to its container.",
    hint: "resources:\n  requests: {cpu: 500m, memory: 1Gi}\n  limits: {memory: 1Gi}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates_of(all, Kind::StatefulSet) {
        let pod = template.spec.down("resources.limits.memory");
        for container in template.containers() {
            if pod.is_missing() && container.down("resources.limits.memory").is_missing() {
                let name = container.get("name");
                found.at(
                    &name,
                    format!(
                        "container {} of {} has no memory limit",
                        name.text(),
                        template.object.full_name()
                    ),
                );
            }
        }
    }
}
