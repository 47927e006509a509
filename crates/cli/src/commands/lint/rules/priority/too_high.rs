use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC301",
    severity: Severity::Error,
    title: "a PriorityClass value above the limit for users",
    why: "Values above 1,000,000,000 are reserved for the system: the API server rejects them for any class whose name does \
          not begin with `system-`. For agents that nodes require, use `system-node-critical` or `system-cluster-critical`.",
    hint: "priorityClassName: system-node-critical\n# or, for a class of your own:\nvalue: 1000000",
    about_absence: false,
    check,
};

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

fn check(all: &ManifestFacts, found: &mut Findings) {
    for class in all.of_kind(Kind::PriorityClass).filter(|class| !class.name.starts_with("system-")) {
        let value = class.field("value");
        if value.value.as_i64().is_some_and(|number| number > HIGHEST_USER_PRIORITY) {
            found.at(
                &value,
                format!("the API server rejects PriorityClass {}: its value is above 1000000000", class.name),
            );
        }
    }
}
