use super::rank;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC403",
    severity: Severity::Warning,
    title: "a rank on an init container",
    why: "Init containers start one after the other, in the order in which they are written, and before all others. A rank on one of them \
          is ignored.",
    hint: "initContainers:\n- name: first\n- name: second  # starts when the first is done",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        for container in template.spec.get("initContainers").items() {
            if let Some(place) = rank(&container) {
                let name = container.get("name").text();
                found.at(&place, format!("init container {name} starts by its position, whatever its rank"));
            }
        }
    }
}
