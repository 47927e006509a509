use crate::commands::lint::rules::prelude::*;
use crate::similar::suggestion;

pub const RULE: Rule = Rule {
    code: "RC304",
    severity: Severity::Warning,
    title: "a priorityClassName of a missing PriorityClass",
    why: "The files contain PriorityClasses, but none of this name. The API server rejects pods that name a missing class. A \
          workload then has no pods, and reports it only in its events.",
    hint: "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: agents}\nvalue: 1000000",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let classes: Vec<&str> = all.of_kind(Kind::PriorityClass).map(|class| class.name.as_str()).collect();
    for template in templates(all).iter().filter(|_| !classes.is_empty()) {
        let name = template.spec.get("priorityClassName");
        let known =
            name.text().is_empty() || name.text().starts_with("system-") || classes.contains(&name.text());
        if !known {
            let alike = suggestion(name.text(), classes.iter().copied());
            found.at(&name, format!("PriorityClass {} not found{alike}", name.text()));
        }
    }
}
