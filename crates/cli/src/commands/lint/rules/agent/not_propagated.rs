use super::seen;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC501",
    severity: Severity::Warning,
    title: "a waiter that does not see later mounts",
    why: "The container waits for a file on its node. A volume that the agent mounts there after this container has started is seen \
          inside only with `mountPropagation: HostToContainer`. Without it the wait never ends.",
    hint: "volumeMounts:\n- name: host\n  mountPath: /mnt/dump\n  readOnly: true\n  mountPropagation: HostToContainer",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        for (field, container) in seen(&template) {
            for file in container.waits_for() {
                if file.host.is_some() && !file.propagated {
                    let mounts = field.get("volumeMounts");
                    found.at_key(
                        &mounts,
                        format!(
                            "container {} does not see {} if it is mounted later",
                            container.name, file.path
                        ),
                    );
                }
            }
        }
    }
}
