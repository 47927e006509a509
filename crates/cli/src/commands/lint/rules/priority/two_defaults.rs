use crate::commands::lint::rules::prelude::*;

pub const RULE: Rule = Rule {
    code: "RC302",
    severity: Severity::Error,
    title: "two PriorityClasses that are everybody's default",
    why: "Only one class can have `globalDefault: true`; the API server refuses the second.",
    hint: "globalDefault: false",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let mut defaults = all.of(Kind::PriorityClass).filter(|class| class.field("globalDefault").is_true());
    let Some(first) = defaults.next() else { return };
    for class in defaults.filter(|class| class.name != first.name) {
        found.at(
            &class.field("globalDefault"),
            format!("PriorityClass {} is the default already, so {} is refused", first.name, class.name),
        );
    }
}
