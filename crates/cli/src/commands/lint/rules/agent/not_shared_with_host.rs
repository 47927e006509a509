use super::{rest_below, seen};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC506",
    severity: Severity::Error,
    title: "a mount that is visible only in its container",
    why: "`rollcall-node volume` mounts its source at its target. The node and other pods see that mount only if the \
          directory around the target is mounted with `mountPropagation: Bidirectional`, which requires a privileged \
          container. Otherwise pods that wait for the mount wait indefinitely.",
    hint: "securityContext: {privileged: true}\nvolumeMounts:\n- name: host-mnt\n  mountPath: /host/mnt\n  mountPropagation: Bidirectional",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for template in templates(all) {
        for (field, container) in seen(&template) {
            let mounts = field.get("volumeMounts");
            let target =
                container.args.windows(2).find(|pair| pair[0] == "--target").map(|pair| pair[1].as_str());
            let Some(target) = target.filter(|_| container.args.first().is_some_and(|word| word == "volume"))
            else {
                continue;
            };
            let items = mounts.items();
            let around =
                items.iter().filter(|mount| rest_below(target, mount.get("mountPath").text()).is_some());
            let Some(mount) = around.max_by_key(|mount| mount.get("mountPath").text().len()) else {
                continue;
            };
            if mount.get("mountPropagation").text() != "Bidirectional" {
                let path = mount.get("mountPath");
                found.at(
                    &path,
                    format!("mounts below {} are visible only in container {}", path.text(), container.name),
                );
            }
        }
    }
}
