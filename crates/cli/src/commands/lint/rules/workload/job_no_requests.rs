use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC236",
    severity: Severity::Note,
    title: "a Job without resource requests",
    why: "The scheduler places pods by their requests. Pods without requests fit on any node, so a Job with many of them can \
          overload one node and starve its other pods. They are also the first to be evicted.",
    hint: "resources:\n  requests: {cpu: 250m, memory: 256Mi}",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all).iter().filter(|template| template.job().is_some()) {
        let pod = template.spec.down("resources.requests");
        for container in template.containers() {
            let resources = container.get("resources");
            if pod.is_missing()
                && resources.get("requests").is_missing()
                && resources.get("limits").is_missing()
            {
                let name = container.get("name");
                found.at(
                    &name,
                    format!(
                        "container {} of {} has no resource requests",
                        name.text(),
                        template.object.full_name()
                    ),
                );
            }
        }
    }
}
