use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC302",
    severity: Severity::Error,
    title: "two default PriorityClasses",
    why: "Only one class can have `globalDefault: true`; the API server rejects the second one.",
    hint: "globalDefault: false",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let mut defaults =
        all.of_kind(Kind::PriorityClass).filter(|class| class.field("globalDefault").is_true());
    let Some(first) = defaults.next() else { return };
    for class in defaults.filter(|class| class.name != first.name) {
        found.at(
            &class.field("globalDefault"),
            format!(
                "PriorityClass {} is already the default, so the API server rejects {}",
                first.name, class.name
            ),
        );
    }
}
