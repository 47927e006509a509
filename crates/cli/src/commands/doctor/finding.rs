//! The findings of checks.

use crate::outcome::Outcome;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No problem.
    Ok,
    /// Works, but could be improved or is worth knowing.
    Note,
    /// Could not be checked.
    Unknown,
    /// Does not work, or will fail later.
    Problem,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Unknown => "unknown",
            Level::Problem => "problem",
        }
    }
}

/// The checks, in the order of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    Server,
    Definition,
    Controller,
    Permissions,
    Limits,
    Admission,
    Certificates,
    Sequences,
    Reservations,
    Leftovers,
}

impl Check {
    pub fn as_str(self) -> &'static str {
        match self {
            Check::Server => "server",
            Check::Definition => "definition",
            Check::Controller => "controller",
            Check::Permissions => "permissions",
            Check::Limits => "limits",
            Check::Admission => "admission",
            Check::Certificates => "certificates",
            Check::Sequences => "sequences",
            Check::Reservations => "reservations",
            Check::Leftovers => "leftovers",
        }
    }

    pub fn ok(self, text: impl Into<String>) -> DoctorFinding {
        DoctorFinding { level: Level::Ok, check: self, text: text.into(), fix: None }
    }

    pub fn note(self, text: impl Into<String>) -> DoctorFinding {
        DoctorFinding { level: Level::Note, ..self.ok(text) }
    }

    pub fn problem(self, text: impl Into<String>) -> DoctorFinding {
        DoctorFinding { level: Level::Problem, ..self.ok(text) }
    }

    /// `why` is a reason such as "not allowed to list nodes".
    pub fn unknown(self, what: &str, why: &str) -> DoctorFinding {
        DoctorFinding { level: Level::Unknown, ..self.ok(format!("{what}: {why}")) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    pub level: Level,
    pub check: Check,
    pub text: String,
    /// A command that repairs the problem, or one that shows details if it needs a manual repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl DoctorFinding {
    pub fn fix(self, command: impl Into<String>) -> DoctorFinding {
        DoctorFinding { fix: Some(command.into()), ..self }
    }
}

pub fn count(findings: &[DoctorFinding], level: Level) -> usize {
    findings.iter().filter(|finding| finding.level == level).count()
}

/// Returns the exit status for the worst finding. A failed check is not a success.
pub fn outcome(findings: &[DoctorFinding]) -> Outcome {
    match findings.iter().map(|finding| finding.level).max() {
        Some(Level::Problem) => Outcome::Failed,
        Some(Level::Unknown) => Outcome::Impossible,
        Some(Level::Note | Level::Ok) | None => Outcome::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_how_it_ends() {
        let (ok, note) = (Check::Server.ok(""), Check::Server.note(""));
        let (unknown, problem) = (Check::Server.unknown("", ""), Check::Server.problem(""));
        assert_eq!(outcome(&[ok.clone(), note.clone()]), Outcome::Done);
        assert_eq!(outcome(&[ok.clone(), unknown.clone(), note]), Outcome::Impossible);
        assert_eq!(outcome(&[problem, unknown, ok]), Outcome::Failed);
    }
}
