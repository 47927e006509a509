//! GitHub Actions workflow commands, which GitHub shows as annotations in a pull request.

use super::super::clean::clean;
use super::super::judge::{Judgement, Located};
use super::super::rule::Severity;

pub fn text(judgement: &Judgement) -> String {
    judgement.findings.iter().map(line).collect()
}

fn line(Located { finding, place }: &Located) -> String {
    let command = match finding.rule.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let place = match place {
        Some(place) => {
            format!(
                "file={},line={},col={},",
                property(&clean(&place.file)),
                place.span.line,
                place.span.column
            )
        }
        None => String::new(),
    };
    let title = property(&format!("{} {}", finding.rule.code, finding.object));
    let message = escaped(&format!("{}\nhint: {}", finding.message, finding.hint));
    format!("::{command} {place}title={title}::{message}\n")
}

/// Escapes data like `@actions/core`.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes properties like `@actions/core`.
fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}
