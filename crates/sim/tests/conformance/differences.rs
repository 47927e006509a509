//! The differences that are meant: they have to be there, and no others.

use super::compare::Line;
use super::side::fits;
use serde::Deserialize;

/// More would mean that the embedded cluster is another thing than Kubernetes.
pub const AT_MOST: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Where, each a glob: the request or the object of a scenario.
    at: Vec<String>,
    /// Which fields, each a glob.
    path: Vec<String>,
    /// Why that is as it should be.
    pub reason: String,
}

impl Difference {
    fn explains(&self, line: &Line) -> bool {
        let one_of = |globs: &[String], text: &str| globs.iter().any(|glob| fits(glob, text));
        one_of(&self.at, &line.at) && one_of(&self.path, &line.path)
    }

    /// Its globs that fit no line that it explains.
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

/// The lines that no difference explains.
pub fn unexplained<'a>(differences: &[Difference], lines: &'a [Line]) -> Vec<&'a Line> {
    lines.iter().filter(|line| !differences.iter().any(|one| one.explains(line))).collect()
}

/// The differences that are not there any more, in whole or in part: their reasons, and what fits nothing.
pub fn outlived<'a>(differences: &'a [Difference], lines: &[Line]) -> Vec<(&'a str, Vec<&'a str>)> {
    let unused = differences.iter().map(|one| (one.reason.as_str(), one.unused(lines)));
    unused.filter(|(_, globs)| !globs.is_empty()).collect()
}
