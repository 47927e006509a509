//! The checks: [`ClusterView`] → findings. Pure, one file per check.

mod admission;
mod certificates;
mod controller;
mod definition;
mod held;
mod leftovers;
mod limits;
mod permissions;
mod reservations;
mod sequences;
mod server;
mod webhook;

use super::command_line::CommandLine;
use super::fetched::{ClusterView, Installed};
use super::finding::{Check, DoctorFinding};

/// Input of every check.
struct Case<'a> {
    seen: &'a ClusterView,
    installed: Installed,
    command_line: &'a CommandLine,
}

/// All findings, in the order of the checks.
pub fn all(seen: &ClusterView, command_line: &CommandLine) -> Vec<DoctorFinding> {
    let case = Case { seen, installed: seen.installed(), command_line };
    let checks: [fn(&Case<'_>) -> Vec<DoctorFinding>; 11] = [
        server::check,
        definition::check,
        controller::check,
        permissions::check,
        limits::check,
        admission::check,
        webhook::check,
        certificates::check,
        sequences::check,
        reservations::check,
        leftovers::check,
    ];
    checks.iter().flat_map(|check| check(&case)).collect()
}

impl Case<'_> {
    /// Finding about an object that differs from the one that this program installs. If the controller is newer than this
    /// program, the difference is expected, and restoring the object would be wrong.
    fn differs(&self, check: Check, text: String, fix: String) -> DoctorFinding {
        match self.seen.newer() {
            Some(newer) => {
                check.note(format!("{text}; the controller is newer, so check with rollcall {newer}"))
            }
            None => check.problem(text).fix(fix),
        }
    }
}

/// Joins the first few names, followed by the number of the others.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 3;
    match names.len() {
        0..=SHOWN => names.join(", "),
        more => format!("{} and {} more", names[..SHOWN].join(", "), more - SHOWN),
    }
}

/// `1 pod`, `2 pods`.
fn number(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
