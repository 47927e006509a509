use super::{place, readings, variable};
use crate::commands::lint::rules::prelude::*;
use rollcall_core::launch::ranks::ORDERED_KEY;

pub const RULE: Rule = Rule {
    code: "RC403",
    severity: Severity::Warning,
    title: "a launch order that is partly ignored",
    why: "The label or annotation `apps.kruise.io/container-launch-priority` has one valid value, `Ordered`; with it, the \
          priorities of containers are ignored. Init containers start one after another as listed, before all other \
          containers, regardless of their priority.",
    hint: "metadata:\n  labels:\n    apps.kruise.io/container-launch-priority: Ordered",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (template, reading) in readings(all) {
        for warning in reading.into_iter().flat_map(|reading| reading.warnings) {
            let init = template.spec.get("initContainers").items();
            let init = init.iter().find_map(variable).filter(|_| !warning.starts_with(ORDERED_KEY));
            found.at(&init.unwrap_or_else(|| place(&template)), warning);
        }
    }
}
