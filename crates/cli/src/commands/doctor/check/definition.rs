//! The CRD: there, in force, and the one that this program knows.

use super::Case;
use crate::commands::doctor::compare::{Difference, differences, in_words, strictly};
use crate::commands::doctor::fetched::{DEFINITION, Fetched};
use crate::commands::doctor::finding::{Check, Finding};
use crate::commands::install::{Mode, id, objects};
use rollcall_api::names;
use serde_json::Value;

pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let fix = || case.command_line.restore(&case.installed, &[DEFINITION]);
    let name = DEFINITION.split_once('/').map_or("", |(_, name)| name);
    let there = match case.seen.object(DEFINITION) {
        Fetched::Found(there) => there,
        Fetched::Absent => {
            let text = format!("CRD {name} is missing: the cluster does not know PodSequences");
            return vec![Check::Definition.problem(text).fix(fix())];
        }
        Fetched::Forbidden(why) => return vec![Check::Definition.unknown(&format!("CRD {name}"), why)],
    };
    if there["metadata"]["deletionTimestamp"].is_string() {
        let text = format!("CRD {name} is being deleted, and all PodSequences with it");
        return vec![
            Check::Definition.problem(text).fix(case.command_line.kubectl(format!("get crd {name} -o yaml"))),
        ];
    }
    let found = against_ours(there);
    if !found.is_empty() {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("CRD {name} is not that of rollcall {version}: {}", in_words(&found));
        return vec![case.differs(Check::Definition, text, fix())];
    }
    if !is_established(there) {
        let text = format!("CRD {name} is not established");
        return vec![
            Check::Definition.problem(text).fix(case.command_line.kubectl(format!("describe crd {name}"))),
        ];
    }
    let version = names::SEQUENCE_VERSION;
    vec![Check::Definition.ok(format!("CRD {name} serves {version}, as this program knows it"))]
}

fn against_ours(there: &Value) -> Vec<Difference> {
    let manifests = objects(Mode::Lite, None, names::OWN_NAMESPACE);
    let ours = manifests.into_iter().find(|object| id(object) == DEFINITION).unwrap_or_default();
    let mut found = differences(&ours["spec"], &there["spec"], "spec");
    let versions = |object: &Value| object["spec"]["versions"].as_array().cloned().unwrap_or_default();
    for (position, (ours, theirs)) in versions(&ours).iter().zip(versions(there)).enumerate() {
        let place = format!("spec.versions[{position}].schema");
        let more = strictly(&ours["schema"], &theirs["schema"], &place);
        found.extend(more.into_iter().filter(|more| !found.contains(more)).collect::<Vec<_>>());
    }
    found
}

fn is_established(there: &Value) -> bool {
    let conditions = there["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
