use super::seen;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC501",
    severity: Severity::Warning,
    title: "a waiting container that does not see later mounts",
    why: "The container waits for a file on its node. It sees volumes that the agent mounts there later only with \
          `mountPropagation: HostToContainer`. Without it the wait never ends.",
    hint: "volumeMounts:\n- name: host\n  mountPath: /mnt/dump\n  readOnly: true\n  mountPropagation: HostToContainer",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        for (field, container) in seen(&template) {
            for file in container.waits_for() {
                if file.host.is_some() && !file.propagated {
                    let mounts = field.get("volumeMounts");
                    found.at_key(
                        &mounts,
                        format!(
                            "container {} does not see {} if it is mounted after the container starts",
                            container.name, file.path
                        ),
                    );
                }
            }
        }
    }
}
