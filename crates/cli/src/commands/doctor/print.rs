//! Output of findings as text and JSON.

use super::finding::{DoctorFinding, Level, count};
use crate::output::{BAD, BUSY, FAINT, GOOD, STRONG, styled};
use crate::shown;
use crate::shown::{Show, Shown};
use anstyle::Style;
use serde_json::{Value, json};

/// Column widths: the longest word of each column.
const LEVEL: usize = "problem".len();
const CHECK: usize = "certificates".len();

fn style(level: Level) -> Style {
    match level {
        Level::Ok => GOOD,
        Level::Note | Level::Unknown => BUSY,
        Level::Problem => BAD,
    }
}

pub fn text(findings: &[DoctorFinding]) -> Shown {
    let mut text = Shown::default();
    for DoctorFinding { level, check, text: what, fix } in findings {
        let word = styled(style(*level), level.as_str().shown().padded(LEVEL));
        text += shown!("{}  {}  {}\n", word, check.as_str().shown().padded(CHECK), what);
        // The command is on a line of its own and never wrapped, so that it can be copied.
        if let Some(fix) = fix {
            let indent = Shown::default().padded(LEVEL);
            text += shown!("{}  {} {}\n", indent, styled(FAINT, "fix:"), styled(STRONG, fix));
        }
    }
    text + shown!("{}\n", summary(findings))
}

fn summary(findings: &[DoctorFinding]) -> String {
    let number = |level: Level, one: &str, more: &str| match count(findings, level) {
        0 => None,
        1 => Some(format!("1 {one}")),
        several => Some(format!("{several} {more}")),
    };
    let parts = [
        number(Level::Problem, "problem", "problems"),
        number(Level::Unknown, "check could not be made", "checks could not be made"),
        number(Level::Note, "note", "notes"),
        number(Level::Ok, "ok", "ok"),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

pub fn json(server: &str, findings: &[DoctorFinding]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "server": server,
        "problems": count(findings, Level::Problem),
        "unknown": count(findings, Level::Unknown),
        "notes": count(findings, Level::Note),
        "findings": findings,
    })
}
