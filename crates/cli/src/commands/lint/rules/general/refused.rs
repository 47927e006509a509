use crate::commands::lint::rules::prelude::*;
use rollcall_sim::server::{defaults, rules};

pub const RULE: Rule = Rule {
    code: "RC001",
    severity: Severity::Error,
    title: "the API server refuses it",
    why: "The object breaks a rule of its own type: a field that is missing, a value that there is not, a selector that does not \
          match the template. The judgement and its words are those of the API server that `simulate` uses.",
    hint: "# the same answer from a cluster:\n# kubectl apply --dry-run=server -f FILE",
    about_absence: false,
    check,
};

/// What stands for the characters that a server would make up.
const GENERATED: &str = "xxxxx";
const UID: &str = "00000000-0000-0000-0000-000000000000";

fn check(all: &Scene, found: &mut Findings) {
    // What is in a cluster has been accepted.
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
        // By which a Job finds its pods.
        value["metadata"]["uid"] = UID.into();
        defaults::initial_status(kind, &mut value);
        for wrong in rules::created(kind, &value) {
            // What our own kinds say is judged by rules of their own.
            if kind.custom().is_none() || wrong.field.starts_with("metadata") {
                found.at(&object.root().along(&wrong.field), wrong.to_string());
            }
        }
    }
}
