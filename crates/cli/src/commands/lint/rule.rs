//! What a rule is, and how it says what it has found.

use super::clean::clean;
use super::field::Field;
use super::manifests::{Manifests, Object};
use super::view::Scene;
use crate::commands::simulate::source_spans::PathSegment;
use serde::Serialize;

/// In the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot work, or not as it is written.
    Error,
    /// It will work otherwise than it looks, or fail one day.
    Warning,
    /// Worth knowing; it may be meant.
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

/// One rule: a file of its own, which holds only what nobody else knows.
#[derive(Debug)]
pub struct Rule {
    /// `RC101`; the first digit is the group.
    pub code: &'static str,
    pub severity: Severity,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// Why it matters, with the facts of Kubernetes behind it.
    pub why: &'static str,
    /// What to write instead; lines that can be copied.
    pub hint: &'static str,
    /// About what was left out: an API server fills that in, so on a cluster there is nothing to find.
    pub about_absence: bool,
    pub check: fn(&Scene, &mut Findings),
}

/// What rules have found so far.
pub struct Findings {
    rule: &'static Rule,
    found: Vec<Finding>,
}

#[derive(Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub message: String,
    pub hint: String,
    /// `StatefulSet/db`
    pub object: String,
    pub namespace: String,
    /// `spec.replicas`, for people.
    pub field: String,
    /// Which source, and the path in it.
    pub origin: Option<(usize, Vec<PathSegment>)>,
    pub points_at: PointsAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointsAt {
    Key,
    Value,
}

impl Findings {
    /// Everything that these rules find.
    pub fn of(rules: &[&'static Rule], manifests: &Manifests) -> Vec<Finding> {
        let scene = Scene::new(manifests);
        let mut all = Vec::new();
        for rule in rules.iter().filter(|rule| !(manifests.live && rule.about_absence)) {
            let mut findings = Findings { rule, found: Vec::new() };
            (rule.check)(&scene, &mut findings);
            all.append(&mut findings.found);
        }
        all
    }

    /// Something about a value.
    pub fn at(&mut self, field: &Field, message: impl AsRef<str>) -> &mut Finding {
        self.add(field, PointsAt::Value, message.as_ref())
    }

    /// Something about a field as such: that it is there, or what is missing in it.
    pub fn at_key(&mut self, field: &Field, message: impl AsRef<str>) -> &mut Finding {
        self.add(field, PointsAt::Key, message.as_ref())
    }

    /// Something about an object as a whole.
    pub fn about(&mut self, object: &Object, message: impl AsRef<str>) -> &mut Finding {
        self.add(&object.title(), PointsAt::Value, message.as_ref())
    }

    fn add(&mut self, field: &Field, points_at: PointsAt, message: &str) -> &mut Finding {
        let object = field.object;
        let origin = object.origin.as_ref().map(|(source, path)| {
            (*source, path.iter().cloned().chain(field.path().iter().cloned()).collect())
        });
        self.found.push(Finding {
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

impl Finding {
    /// A hint that fits this very finding.
    pub fn hint(&mut self, hint: impl AsRef<str>) {
        self.hint = clean_lines(hint.as_ref());
    }
}

/// Line by line: a hint may have several.
fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}
