//! JSON output.

use super::super::clean::clean;
use super::super::judge::{Judgement, Located};
use super::super::rule::Severity;
use serde::Serialize;

#[derive(Serialize)]
pub struct Report<'a> {
    findings: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    code: &'a str,
    severity: Severity,
    message: &'a str,
    hint: &'a str,
    /// `None` for live objects, like `line` and `column`.
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    object: &'a str,
    namespace: &'a str,
    field: &'a str,
}

pub fn report(judgement: &Judgement) -> Report<'_> {
    Report { findings: judgement.findings.iter().map(entry).collect() }
}

fn entry(Located { finding, place }: &Located) -> Entry<'_> {
    let place = place.as_ref();
    Entry {
        code: finding.rule.code,
        severity: finding.rule.severity,
        message: &finding.message,
        hint: &finding.hint,
        file: place.map(|place| clean(&place.file)),
        line: place.map(|place| place.span.line),
        column: place.map(|place| place.span.column),
        object: &finding.object,
        namespace: &finding.namespace,
        field: &finding.field,
    }
}
