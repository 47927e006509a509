use crate::commands::lint::rules::prelude::*;
use std::collections::BTreeMap;

pub const RULE: Rule = Rule {
    code: "RC003",
    severity: Severity::Warning,
    title: "a duplicate object",
    why: "When both are applied, the later one overwrites the earlier one field by field. Which one is later depends on the \
          order of the files.",
    hint: "metadata:\n  name: another-name",
    about_absence: false,
    check,
};

fn check(all: &ManifestFacts, found: &mut Findings) {
    let mut seen: BTreeMap<(&str, &str, &str, &str), &Object> = BTreeMap::new();
    for object in &all.objects {
        // With `generateName` each creation makes a new object.
        if object.field("metadata.name").text().is_empty() {
            continue;
        }
        let (group, _) = object.field("apiVersion").text().split_once('/').unwrap_or_default();
        let key = (group, object.field("kind").text(), object.namespace.as_str(), object.name.as_str());
        if seen.insert(key, object).is_some() {
            found.about(object, format!("{} is defined more than once", object.full_name()));
        }
    }
}
