//! Options in the query of a request.

use super::refusal::{Refusal, Wrong};
use super::route::Query;
use http::Method;
use serde_json::json;

/// The name of a method's options.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::DELETE => "DeleteOptions",
        _ => "PatchOptions",
    }
}

/// Whether a write is a dry run.
pub fn dry_run(method: &Method, query: &Query) -> Result<bool, Refusal> {
    let mut wrong = Vec::new();
    let dry_run = query.get("dryRun");
    if !matches!(dry_run, "" | "All") {
        wrong.push(Wrong::not_supported("dryRun", &json!([dry_run]), &["All"]));
    }
    let validation = query.get("fieldValidation");
    if !matches!(validation, "" | "Ignore" | "Warn" | "Strict") {
        let supported = ["", "Ignore", "Strict", "Warn"];
        wrong.push(Wrong::not_supported("fieldValidation", &validation.into(), &supported));
    }
    match wrong.is_empty() || *method == Method::GET {
        true => Ok(dry_run == "All"),
        false => Err(refusal(name(method), &wrong)),
    }
}

/// The rejection of options, which the API server treats as objects with their own group.
pub fn refusal(name: &str, wrong: &[Wrong]) -> Refusal {
    Refusal::invalid_as(name, "meta.k8s.io", "", wrong)
}

/// Checks the options of a list or a watch.
pub fn check_list(query: &Query) -> Result<(), Refusal> {
    let (version, of) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    let (watch, initial) = (query.is_set("watch"), query.get("sendInitialEvents"));
    let mut wrong = Vec::new();
    let mut forbid = |field: &str, why: &str| wrong.push(Wrong::forbidden(field, why));
    if watch {
        if !initial.is_empty() && of != "NotOlderThan" {
            forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if initial.is_empty() && !of.is_empty() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            forbid("resourceVersionMatch", why);
        }
    } else {
        if !of.is_empty() && version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            forbid("resourceVersionMatch", why);
        }
        if !of.is_empty() && !query.get("continue").is_empty() {
            forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
        }
        if !initial.is_empty() {
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(refusal("ListOptions", &wrong)),
    }
}
