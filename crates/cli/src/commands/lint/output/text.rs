//! Compiler-style text output: message, place, source line and hint.

use super::super::clean::clean;
use super::super::judge::{Judgement, Located, Place};
use super::super::manifests::Manifests;
use super::super::rule::Severity;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// Number of characters shown of a long line, before and after the place of a finding. It is more than a terminal shows, but
/// limits the output for a file that consists of one huge line.
const BEFORE: usize = 2000;
const AFTER: usize = 200;

pub fn text(manifests: &Manifests, judgement: &Judgement) -> String {
    let mut text = String::new();
    for located in &judgement.findings {
        text += &finding_text(manifests, located);
        text += "\n\n";
    }
    text + &summary(judgement) + "\n"
}

fn finding_text(manifests: &Manifests, located: &Located) -> String {
    let Located { finding, place } = located;
    let level = match finding.rule.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level.primary_title(finding.message.as_str()).id(finding.rule.code);
    let hint = Level::HELP.with_name("hint").message(finding.hint.as_str());
    match place {
        Some(place) => {
            let excerpt = Excerpt::at(manifests, place);
            let annotation = AnnotationKind::Primary.span(excerpt.range.clone());
            let snippet = Snippet::source(excerpt.text.as_str())
                .line_start(place.span.line)
                .fold(false)
                .annotation(annotation);
            let group = Group::with_title(title);
            let group = match excerpt.cut {
                // The column in the excerpt differs from the one in the file.
                true => {
                    let origin = Origin::path(clean(&place.file)).line(place.span.line);
                    group.element(origin.char_column(place.span.column)).element(snippet)
                }
                false => group.element(snippet.path(clean(&place.file))),
            };
            Renderer::styled().render(&[group.element(hint)])
        }
        None => {
            let whose = match finding.namespace.as_str() {
                "" => finding.object.clone(),
                namespace => format!("{} in namespace {namespace}", finding.object),
            };
            let place = Level::NOTE.with_name("at").message(format!("{whose}: {}", finding.field));
            Renderer::styled().render(&[Group::with_title(title).element(place).element(hint)])
        }
    }
}

/// The source line of a finding, shortened if it is very long.
struct Excerpt {
    text: String,
    range: std::ops::Range<usize>,
    /// Whether the beginning of the line is cut off.
    cut: bool,
}

impl Excerpt {
    fn at(manifests: &Manifests, place: &Place) -> Excerpt {
        let (begin, line) = manifests.sources[place.source].spans.line(place.span.line);
        let from = place.span.range.start.clamp(begin, begin + line.len()) - begin;
        let to = place.span.range.end.clamp(begin + from, begin + line.len()) - begin;
        let (before, word, after) = (&line[..from], &line[from..to], &line[to..]);
        let whole = before.trim_start_matches('\u{feff}');
        let before = tail(whole, BEFORE);
        let cut = before.len() < whole.len();
        let (before, word, after) = (shown(&before), shown(&head(word, AFTER)), shown(&head(after, AFTER)));
        let range = before.len()..before.len() + word.len();
        Excerpt { text: before + &word + &after, range, cut }
    }
}

/// Cleans the text and replaces tabs by spaces, because the width of a tab varies.
fn shown(text: &str) -> String {
    clean(&text.replace('\t', " "))
}

fn head(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn tail(text: &str, most: usize) -> String {
    match text.char_indices().rev().nth(most) {
        Some((begin, char)) => format!("…{}", &text[begin + char.len_utf8()..]),
        None => text.to_owned(),
    }
}

fn summary(judgement: &Judgement) -> String {
    let counted = |severity: Severity| {
        let number = judgement.count(severity);
        let plural = if number == 1 { "" } else { "s" };
        (number > 0).then(|| format!("{number} {}{plural}", severity.word()))
    };
    let counts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(counted).collect();
    let objects = match judgement.objects {
        1 => "1 object".to_owned(),
        number => format!("{number} objects"),
    };
    let more = match judgement.left_out {
        0 => String::new(),
        number => format!("; {number} more findings are not shown"),
    };
    match counts.is_empty() {
        true => format!("no problems found in {objects}"),
        false => format!("{} in {objects}{more}", counts.join(", ")),
    }
}
