use crate::commands::lint::rules::prelude::*;
use rollcall_sim::server::{defaults, rules};

pub const RULE: Rule = Rule {
    code: "RC001",
    severity: Severity::Error,
    title: "an object that the API server rejects",
    why: "The object violates the validation rules of its kind: a missing required field, an invalid value, a selector that \
          does not match the template. The validation and its messages are those of the API server embedded in `rollcall \
          simulate`.",
    hint: "# to validate against a real cluster:\n# kubectl apply --dry-run=server -f FILE",
    about_absence: false,
    check,
};

/// Placeholder for the suffix that the API server generates from `generateName`.
const GENERATED: &str = "xxxxx";
const UID: &str = "00000000-0000-0000-0000-000000000000";

fn check(all: &ManifestFacts, found: &mut Findings) {
    // Live objects have passed validation already.
    for object in all.objects.iter().filter(|_| !all.live) {
        let Some(kind) = object.kind else { continue };
        if let Some(refusal) = defaults::undecodable(kind, &object.value) {
            found.about(object, refusal.message);
            continue;
        }
        let mut value = object.value.clone();
        if kind.info().namespaced {
            value["metadata"]["namespace"] = object.namespace.as_str().into();
        }
        if object.field("metadata.name").text().is_empty() {
            value["metadata"]["name"] = format!("{}{GENERATED}", object.name).into();
        }
        defaults::fill(kind, &mut value);
        // A Job derives its pod selector from its uid.
        value["metadata"]["uid"] = UID.into();
        defaults::initial_status(kind, &mut value);
        for wrong in rules::created(kind, &value) {
            // The specs of Rollcall's own kinds are checked by RC101 and RC601.
            if kind.custom().is_none() || wrong.field.starts_with("metadata") {
                found.at(&object.root().along(&wrong.field), wrong.to_string());
            }
        }
    }
}
