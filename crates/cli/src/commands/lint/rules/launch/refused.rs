use super::{place, readings, variable};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC401",
    severity: Severity::Error,
    title: "a launch order that is refused",
    why: "A pod that asks for an order must not start without one, so the webhook refuses what it cannot understand: a priority that is \
          no integer from -2147483647 to 2147483647 or comes from elsewhere (`valueFrom`), both spellings in one pod, a barrier \
          variable of one's own, more than 64 containers. A workload with such a template makes no pods.",
    hint: "env:\n- name: KRUISE_CONTAINER_LAUNCH_PRIORITY\n  value: \"1\"",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    for (template, reading) in readings(all) {
        let Err(problem) = reading else { continue };
        let container = problem.container.and_then(|number| template.containers().into_iter().nth(number));
        let at = container.as_ref().and_then(variable).unwrap_or_else(|| place(&template));
        found.at(&at, problem.message);
    }
}
