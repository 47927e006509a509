use super::{place, readings};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC402",
    severity: Severity::Warning,
    title: "a launch order with nothing to order",
    why: "Priorities order the containers of one pod. This pod has one container, or all of them have the same priority (those that say \
          nothing have 0), so they start as without it. For an order among pods there are sequences.",
    hint: "# an order among pods:\nkind: PodSequence",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for (template, reading) in readings(all) {
        let nothing = reading.is_ok_and(|reading| reading.order.is_none() && reading.warnings.is_empty());
        if nothing {
            let message = match template.containers().len() {
                1 => "has one container: there is nothing to order",
                _ => "gives all its containers the same priority: there is nothing to order",
            };
            found.at(&place(&template), format!("{} {message}", template.object.full_name()));
        }
    }
}
