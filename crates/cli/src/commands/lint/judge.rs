//! Applies the rules to manifests: drops allowed findings and sorts the others by file and line.

use super::allow::Comments;
use super::manifests::Manifests;
use super::rule::{Findings, LintFinding, PointsAt, Severity};
use super::rules;
use crate::commands::simulate::source_spans::SourceSpan;
use std::collections::BTreeSet;

/// Limit of reported findings; further ones are only counted.
const MOST_REPORTED: usize = 10_000;

pub struct Judgement {
    pub findings: Vec<Located>,
    /// Number of findings beyond the limit.
    pub left_out: usize,
    /// Notes about comments that allow unknown rules.
    pub notes: Vec<String>,
    pub objects: usize,
}

/// A finding with its place in the source text.
pub struct Located {
    pub finding: LintFinding,
    pub place: Option<Place>,
}

pub struct Place {
    pub source: usize,
    pub file: String,
    pub span: SourceSpan,
    /// In characters, at least one.
    pub width: usize,
}

impl Judgement {
    pub fn from_manifests(manifests: &Manifests, allowed: &BTreeSet<&'static str>) -> Judgement {
        let rules: Vec<_> = rules::ALL.iter().copied().filter(|rule| !allowed.contains(rule.code)).collect();
        let comments: Vec<Comments> =
            manifests.sources.iter().map(|source| Comments::parse(source.spans.text())).collect();
        let found = without_echoes(Findings::collect(&rules, manifests));
        let mut findings: Vec<Located> =
            found.into_iter().map(|finding| located(manifests, finding)).collect();
        findings.retain(|located| match &located.place {
            Some(place) => !comments[place.source].allow(located.finding.rule.code, place.span.line),
            None => true,
        });
        findings.sort_by_key(|located| {
            let place = located.place.as_ref();
            let place = place.map(|place| (place.source, place.span.line, place.span.column));
            (
                place,
                located.finding.namespace.clone(),
                located.finding.object.clone(),
                located.finding.rule.code,
            )
        });
        let left_out = findings.len().saturating_sub(MOST_REPORTED);
        findings.truncate(MOST_REPORTED);
        let mut notes = Vec::new();
        for (source, comments) in manifests.sources.iter().zip(&comments) {
            for (line, code) in &comments.unknown {
                notes.push(format!("{}:{line}: a comment allows {code}, an unknown rule", source.name));
            }
        }
        Judgement { findings, left_out, notes, objects: manifests.objects.len() }
    }

    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|located| located.finding.rule.severity == severity).count()
    }
}

/// Drops findings of general rules (RC0xx) about fields that also have a finding of a more specific rule.
fn without_echoes(found: Vec<LintFinding>) -> Vec<LintFinding> {
    let place =
        |finding: &LintFinding| (finding.namespace.clone(), finding.object.clone(), finding.field.clone());
    let special: BTreeSet<_> =
        found.iter().filter(|finding| !rules::is_general(finding.rule)).map(place).collect();
    let keep = |finding: &LintFinding| !rules::is_general(finding.rule) || !special.contains(&place(finding));
    found.into_iter().filter(keep).collect()
}

fn located(manifests: &Manifests, finding: LintFinding) -> Located {
    let place = finding.origin.as_ref().map(|(source, path)| {
        let from = &manifests.sources[*source];
        let span = match finding.points_at {
            PointsAt::Value => from.spans.find(path),
            PointsAt::Key => from.spans.find_key(path),
        };
        let span = span.unwrap_or(SourceSpan::START);
        let word = from.spans.text().get(span.range.clone()).unwrap_or_default();
        let width = word.chars().count().max(1);
        Place { source: *source, file: from.name.to_owned(), span, width }
    });
    Located { finding, place }
}
