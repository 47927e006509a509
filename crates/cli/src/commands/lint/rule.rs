//! The definitions of a rule and its findings.

use super::clean::clean;
use super::field::Field;
use super::manifests::{Manifests, Object};
use super::view::ManifestFacts;
use crate::commands::simulate::source_spans::PathSegment;
use serde::Serialize;

/// Severity of a rule; the most severe comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object is rejected, or cannot work as written.
    Error,
    /// The object behaves differently from how it reads, or will fail later.
    Warning,
    /// Worth knowing, but possibly intended.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// A rule, defined in a file of its own.
#[derive(Debug)]
pub struct Rule {
    /// `RC101`; the first digit is the group.
    pub code: &'static str,
    pub severity: Severity,
    /// The problem, in a few words.
    pub title: &'static str,
    /// Why the problem matters, and the Kubernetes behaviour behind it.
    pub why: &'static str,
    /// The fix, as lines to copy.
    pub hint: &'static str,
    /// Whether the rule is about omitted fields. It is skipped for live objects, because the API server fills in defaults.
    pub about_absence: bool,
    pub check: fn(&ManifestFacts, &mut Findings),
}

/// Collects the findings of one rule.
pub struct Findings {
    rule: &'static Rule,
    found: Vec<LintFinding>,
}

#[derive(Debug)]
pub struct LintFinding {
    pub rule: &'static Rule,
    pub message: String,
    pub hint: String,
    /// Kind and name, such as `StatefulSet/db`.
    pub object: String,
    pub namespace: String,
    /// Path of the field for display, such as `spec.replicas`.
    pub field: String,
    /// Index of the source and the path in it; `None` for live objects.
    pub origin: Option<(usize, Vec<PathSegment>)>,
    pub points_at: PointsAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointsAt {
    Key,
    Value,
}

impl Findings {
    /// Returns the findings of `rules`.
    pub fn collect(rules: &[&'static Rule], manifests: &Manifests) -> Vec<LintFinding> {
        let facts = ManifestFacts::new(manifests);
        let mut all = Vec::new();
        for rule in rules.iter().filter(|rule| !(manifests.live && rule.about_absence)) {
            let mut findings = Findings { rule, found: Vec::new() };
            (rule.check)(&facts, &mut findings);
            all.append(&mut findings.found);
        }
        all
    }

    /// Adds a finding that points at a value.
    pub fn at(&mut self, field: &Field, message: impl AsRef<str>) -> &mut LintFinding {
        self.add(field, PointsAt::Value, message.as_ref())
    }

    /// Adds a finding that points at the key of a field: the field should not exist, or something is missing in it.
    pub fn at_key(&mut self, field: &Field, message: impl AsRef<str>) -> &mut LintFinding {
        self.add(field, PointsAt::Key, message.as_ref())
    }

    /// Adds a finding about an object as a whole.
    pub fn about(&mut self, object: &Object, message: impl AsRef<str>) -> &mut LintFinding {
        self.add(&object.title(), PointsAt::Value, message.as_ref())
    }

    fn add(&mut self, field: &Field, points_at: PointsAt, message: &str) -> &mut LintFinding {
        let object = field.object;
        let origin = object.origin.as_ref().map(|(source, path)| {
            (*source, path.iter().cloned().chain(field.path().iter().cloned()).collect())
        });
        self.found.push(LintFinding {
            rule: self.rule,
            message: clean(message),
            hint: self.rule.hint.to_owned(),
            object: clean(&object.full_name()),
            namespace: clean(&object.namespace),
            field: clean(&field.shown()),
            origin,
            points_at,
        });
        self.found.last_mut().expect("one was pushed")
    }
}

impl LintFinding {
    /// Replaces the hint of the rule by one for this finding.
    pub fn hint(&mut self, hint: impl AsRef<str>) {
        self.hint = clean_lines(hint.as_ref());
    }
}

/// Cleans each line of a hint.
fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}
