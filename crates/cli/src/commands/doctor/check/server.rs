//! The version of the API server.

use super::Case;
use crate::commands::doctor::fetched::Fetched;
use crate::commands::doctor::finding::{Check, DoctorFinding};

/// Oldest supported minor version; earlier ones do not support the validation rules of the CRD.
const OLDEST: u32 = 33;
/// First minor version with policies that can add gates to pods without a webhook.
pub const POLICIES: u32 = 36;

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let server = &case.seen.server;
    vec![match &case.seen.version {
        Fetched::Found(version) if version.minor < OLDEST => Check::Server.problem(format!(
            "Kubernetes {} at {server}: 1.{OLDEST} or later is required (earlier versions do not support the validation rules of the CRD)",
            version.text
        )),
        Fetched::Found(version) if version.minor < POLICIES => Check::Server.ok(format!(
            "Kubernetes {} at {server}; admission requires the webhook (policies require 1.{POLICIES})",
            version.text
        )),
        Fetched::Found(version) => Check::Server.ok(format!("Kubernetes {} at {server}", version.text)),
        Fetched::Absent => Check::Server.unknown("version of Kubernetes", "the API server does not report it"),
        Fetched::Forbidden(why) => Check::Server.unknown("version of Kubernetes", why),
    }]
}
