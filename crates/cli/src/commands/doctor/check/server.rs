//! The API server: there, and new enough.

use super::Case;
use crate::commands::doctor::fetched::Fetched;
use crate::commands::doctor::finding::{Check, Finding};

/// The oldest that is supported: the rules of the CRD are not understood before.
const OLDEST: u32 = 33;
/// From here on the API server can give pods their gates by itself.
pub const POLICIES: u32 = 36;

pub fn check(case: &Case<'_>) -> Vec<Finding> {
    let server = &case.seen.server;
    vec![match &case.seen.version {
        Fetched::Found(version) if version.minor < OLDEST => Check::Server.problem(format!(
            "Kubernetes {} at {server}: 1.{OLDEST} or later is needed (the rules of the CRD are not understood before)",
            version.text
        )),
        Fetched::Found(version) if version.minor < POLICIES => Check::Server.ok(format!(
            "Kubernetes {} at {server}; admission by the webhook (policies need 1.{POLICIES})",
            version.text
        )),
        Fetched::Found(version) => Check::Server.ok(format!("Kubernetes {} at {server}", version.text)),
        Fetched::Absent => Check::Server.unknown("version of Kubernetes", "the API server does not say it"),
        Fetched::Forbidden(why) => Check::Server.unknown("version of Kubernetes", why),
    }]
}
