use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC301",
    severity: Severity::Error,
    title: "a PriorityClass above what users may have",
    why: "Values above 1,000,000,000 belong to the system; the API server refuses them for any class whose name does not begin with \
          `system-`. For agents that nodes cannot do without there are `system-node-critical` and `system-cluster-critical`.",
    hint: "priorityClassName: system-node-critical\n# or a class of one's own:\nvalue: 1000000",
    about_absence: false,
    check,
};

const MOST: i64 = 1_000_000_000;

fn check(all: &Scene, found: &mut Findings) {
    for class in all.of(Kind::PriorityClass).filter(|class| !class.name.starts_with("system-")) {
        let value = class.field("value");
        if value.value.as_i64().is_some_and(|number| number > MOST) {
            found.at(
                &value,
                format!("the API server refuses PriorityClass {}: users have up to 1000000000", class.name),
            );
        }
    }
}
