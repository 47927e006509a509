//! The CRDs: whether they exist, are established, and match this program.

use super::Case;
use crate::commands::doctor::compare::{Difference, differences, in_words, strictly};
use crate::commands::doctor::fetched::{DEFINITION, DEFINITIONS_OF_RESERVATIONS, Fetched};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::{self, Mode, objects};
use rollcall_api::names;
use serde_json::Value;

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let mut findings = vec![match case.seen.object(DEFINITION) {
        Fetched::Absent => {
            let text = format!("CRD {} is missing: PodSequences are not available", name(DEFINITION));
            Check::Definition.problem(text).fix(restore(case, &[DEFINITION]))
        }
        fetched => check_present(case, DEFINITION, fetched, "PodSequences"),
    }];
    findings.extend(of_reservations(case));
    findings
}

/// Checks the CRDs of reservations. Without them only reservations are unavailable. Lite mode does not use them.
fn of_reservations(case: &Case<'_>) -> Vec<DoctorFinding> {
    if case.installed.mode == Mode::Lite {
        return Vec::new();
    }
    let (absent, found): (Vec<&str>, Vec<&str>) = DEFINITIONS_OF_RESERVATIONS
        .into_iter()
        .partition(|id| matches!(case.seen.object(id), Fetched::Absent));
    let names: Vec<&str> = absent.iter().map(|id| name(id)).collect();
    let mut findings = Vec::new();
    match (absent.as_slice(), found.is_empty()) {
        ([], _) => {}
        (_, true) => {
            let text = format!("reservations are not available: CRDs {} are missing", names.join(" and "));
            findings.push(Check::Definition.note(text).fix(restore(case, &absent)));
        }
        (_, false) => {
            let text = format!("CRD {} is missing: no capacity is reserved without it", names.join(" and "));
            findings.push(Check::Definition.problem(text).fix(restore(case, &absent)));
        }
    }
    let what = |id: &str| if id.contains("orders.") { "Orders" } else { "Tickets" };
    findings.extend(found.into_iter().map(|id| check_present(case, id, case.seen.object(id), what(id))));
    findings
}

fn name(id: &str) -> &str {
    id.split_once('/').map_or("", |(_, name)| name)
}

fn restore(case: &Case<'_>, ids: &[&str]) -> String {
    case.command_line.restore(&case.installed, ids)
}

/// Checks a CRD that is not absent.
fn check_present(case: &Case<'_>, id: &str, fetched: &Fetched<Value>, objects: &str) -> DoctorFinding {
    let name = name(id);
    let there = match fetched {
        Fetched::Found(there) => there,
        Fetched::Absent => return Check::Definition.problem(format!("CRD {name} is missing")),
        Fetched::Forbidden(why) => return Check::Definition.unknown(&format!("CRD {name}"), why),
    };
    if there["metadata"]["deletionTimestamp"].is_string() {
        let text = format!("CRD {name} is being deleted, and all {objects} with it");
        let look = case.command_line.kubectl(format!("get crd {name} -o yaml"));
        return Check::Definition.problem(text).fix(look);
    }
    let found = against_ours(id, there);
    if !found.is_empty() {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("CRD {name} differs from that of rollcall {version}: {}", in_words(&found));
        return case.differs(Check::Definition, text, restore(case, &[id]));
    }
    if !is_established(there) {
        let text = format!("CRD {name} is not established");
        return Check::Definition
            .problem(text)
            .fix(case.command_line.kubectl(format!("describe crd {name}")));
    }
    let version = names::SEQUENCE_VERSION;
    Check::Definition.ok(format!("CRD {name} serves {version} and matches this program"))
}

fn against_ours(id: &str, there: &Value) -> Vec<Difference> {
    let manifests = objects(Mode::Full, None, names::OWN_NAMESPACE);
    let ours = manifests.into_iter().find(|object| install::id(object) == id).unwrap_or_default();
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
