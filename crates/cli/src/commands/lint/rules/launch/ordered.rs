use super::ORDERED;
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC402",
    severity: Severity::Warning,
    title: "a launch order that is not understood",
    why: "The label or annotation `apps.kruise.io/container-launch-priority` has one value that means something: `Ordered`. With any other \
          one the containers start together.",
    hint: "metadata:\n  labels:\n    apps.kruise.io/container-launch-priority: Ordered",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for template in templates(all) {
        for place in ["labels", "annotations"].map(|map| template.metadata.get(map).get(ORDERED)) {
            if !place.is_missing() && place.text() != "Ordered" {
                found.at(&place, format!("\"{}\" means nothing here; only Ordered does", place.text()));
            }
        }
    }
}
