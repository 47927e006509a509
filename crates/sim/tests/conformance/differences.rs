//! The expected differences. Each of them must occur, and no others may occur.

use super::compare::Line;
use super::side::fits;
use serde::Deserialize;

/// Limit of expected differences. With more, the embedded cluster would no longer resemble Kubernetes.
pub const AT_MOST: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Globs of requests, or of objects of scenarios.
    at: Vec<String>,
    /// Globs of fields.
    path: Vec<String>,
    /// Why the difference is acceptable.
    pub reason: String,
}

impl Difference {
    fn explains(&self, line: &Line) -> bool {
        let one_of = |globs: &[String], text: &str| globs.iter().any(|glob| fits(glob, text));
        one_of(&self.at, &line.at) && one_of(&self.path, &line.path)
    }

    /// The globs that match none of the explained lines.
    fn unused(&self, lines: &[Line]) -> Vec<&str> {
        let explained: Vec<&Line> = lines.iter().filter(|line| self.explains(line)).collect();
        let at = self.at.iter().filter(|glob| !explained.iter().any(|line| fits(glob, &line.at)));
        let path = self.path.iter().filter(|glob| !explained.iter().any(|line| fits(glob, &line.path)));
        at.chain(path).map(String::as_str).collect()
    }
}

pub fn load() -> Vec<Difference> {
    let text = include_str!("differences.yaml");
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("differences.yaml: {error}"))
}

/// The lines without an explanation.
pub fn unexplained<'a>(differences: &[Difference], lines: &'a [Line]) -> Vec<&'a Line> {
    lines.iter().filter(|line| !differences.iter().any(|one| one.explains(line))).collect()
}

/// Expected differences that no longer occur, entirely or in part: their reasons and unused globs.
pub fn outlived<'a>(differences: &'a [Difference], lines: &[Line]) -> Vec<(&'a str, Vec<&'a str>)> {
    let unused = differences.iter().map(|one| (one.reason.as_str(), one.unused(lines)));
    unused.filter(|(_, globs)| !globs.is_empty()).collect()
}
