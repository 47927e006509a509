use crate::commands::lint::rules::prelude::*;
use std::collections::BTreeMap;

pub const RULE: Rule = Rule {
    code: "RC003",
    severity: Severity::Warning,
    title: "the same object twice",
    why: "Applied one after the other, the later one wins, field by field. Which one that is depends on the order of the files.",
    hint: "metadata:\n  name: another-name",
    about_absence: false,
    check,
};

fn check(all: &Scene, found: &mut Findings) {
    let mut seen: BTreeMap<(&str, &str, &str, &str), &Object> = BTreeMap::new();
    for object in &all.objects {
        // Each creation from `generateName` is another object.
        if object.field("metadata.name").text().is_empty() {
            continue;
        }
        let (group, _) = object.field("apiVersion").text().split_once('/').unwrap_or_default();
        let key = (group, object.field("kind").text(), object.namespace.as_str(), object.name.as_str());
        if seen.insert(key, object).is_some() {
            found.about(object, format!("{} is there a second time", object.full_name()));
        }
    }
}
