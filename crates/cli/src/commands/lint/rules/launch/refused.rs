use super::{place, readings, variable};
use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC401",
    severity: Severity::Error,
    title: "a launch order that the webhook rejects",
    why: "A pod that requests a launch order must not start without one, so the webhook rejects requests that it cannot \
          interpret. Examples: a priority that uses `valueFrom` or is not an integer from -2147483647 to 2147483647; both \
          spellings in one pod; a user-defined barrier variable; more than 64 containers. A workload with such a template \
          gets no pods.",
    hint: "env:\n- name: KRUISE_CONTAINER_LAUNCH_PRIORITY\n  value: \"1\"",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    for (template, reading) in readings(all) {
        let Err(problem) = reading else { continue };
        let container = problem.container.and_then(|number| template.containers().into_iter().nth(number));
        let at = container.as_ref().and_then(variable).unwrap_or_else(|| place(&template));
        found.at(&at, problem.message);
    }
}
