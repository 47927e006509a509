use super::{place, readings};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC402",
    severity: Severity::Warning,
    title: "a launch order without effect",
    why: "Priorities order the containers of one pod. This pod has only one container, or all its containers have the same \
          priority (0 by default), so they start as usual. To order pods, use a PodSequence.",
    hint: "# to order pods:\nkind: PodSequence",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (template, reading) in readings(all) {
        let nothing = reading.is_ok_and(|reading| reading.order.is_none() && reading.warnings.is_empty());
        if nothing {
            let message = match template.containers().len() {
                1 => "has only one container: its launch order has no effect",
                _ => "gives all its containers the same priority: its launch order has no effect",
            };
            found.at(&place(&template), format!("{} {message}", template.object.full_name()));
        }
    }
}
