//! The text of one source into objects, or into an error that shows the place.
//!
//! JSON is read as what it also is, YAML: so both get the same checks and the same messages.

use super::source_spans::{PathSegment, SourceSpan, SourceSpans};
use crate::output::DrawnError;
use crate::shown;
use crate::shown::Show;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anyhow::Result;
use rollcall_sim::plan::{Given, Origin};
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Options, Spanned};

/// Lists within lists; a list of lists is already unusual.
const DEEPEST_LIST: usize = 8;
/// serde_json's own limit; the deepest CRDs in use have about 60.
const DEEPEST: usize = 128;

/// What is wrong, where, and what was expected there.
pub struct Problem {
    pub what: String,
    pub expected: String,
    pub place: SourceSpan,
    pub help: Option<String>,
}

/// As Kubernetes reads YAML (1.1, where `0755` is 493 and `yes` is true) and without what it silently drops.
pub fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            // A source has 64 MiB at most; these keep out what grows beyond that by aliases.
            max_documents: 1_000_000,
            max_nodes: 20_000_000,
            max_events: 50_000_000,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        strict_booleans: false,
        emit_comments: false,
        with_snippet: false,
    }
}

/// An object, and where in its source it is.
pub struct Placed {
    pub value: Value,
    /// From the document to the object.
    pub path: Vec<PathSegment>,
    pub place: SourceSpan,
}

/// The objects of one source: lists unpacked, empty documents left out.
pub fn objects(file: &str, text: &str) -> Result<Vec<Given>> {
    let placed = placed(file, &SourceSpans::of(text), "simulate")?.into_iter();
    let given = |Placed { value, path: _, place }| Given {
        value,
        origin: Origin { file: file.to_owned(), line: place.line },
    };
    Ok(placed.map(given).collect())
}

/// The same with their paths. `command` is the one of ours that a hint names.
pub fn placed(file: &str, spans: &SourceSpans, command: &str) -> Result<Vec<Placed>> {
    let text = spans.text();
    let source = Source { file, text, spans, command };
    let documents: Vec<Spanned<Value>> = serde_saphyr::from_multiple_with_options(text, options())
        .map_err(|error| source.problem(source.syntax(&error)))?;
    let mut objects = Vec::new();
    for (number, document) in documents.into_iter().enumerate() {
        let (place, value) = (spans.at(document.referenced), document.value);
        source.take(value, &mut vec![PathSegment::Document(number)], place, &mut objects)?;
    }
    Ok(objects)
}

struct Source<'a> {
    file: &'a str,
    text: &'a str,
    spans: &'a SourceSpans<'a>,
    command: &'a str,
}

impl Source<'_> {
    fn take(
        &self,
        value: Value,
        path: &mut Vec<PathSegment>,
        place: SourceSpan,
        objects: &mut Vec<Placed>,
    ) -> Result<()> {
        let refuse = |problem: super::object::Problem| {
            let super::object::Problem { what, expected, at } = problem;
            let segments: Vec<PathSegment> =
                path.iter().cloned().chain(at.into_iter().map(PathSegment::Key)).collect();
            let place = self.spans.find(&segments).unwrap_or_else(|| place.clone());
            self.problem(Problem { what, expected, place, help: None })
        };
        super::object::check(&value).map_err(refuse)?;
        let Some(items) = super::object::items(&value) else {
            objects.push(Placed { value, path: path.clone(), place });
            return Ok(());
        };
        if path.len() > 2 * DEEPEST_LIST {
            let expected = format!("expected at most {DEEPEST_LIST}");
            return Err(self.problem(Problem {
                what: "too many lists within lists".into(),
                expected,
                place,
                help: None,
            }));
        }
        for (number, item) in items.into_iter().enumerate() {
            path.extend([PathSegment::Key("items".into()), PathSegment::Item(number)]);
            let place = self.spans.find(path).unwrap_or_else(|| place.clone());
            self.take(item, path, place, objects)?;
            path.truncate(path.len() - 2);
        }
        Ok(())
    }

    /// As compilers show it: what, where, the line, what was expected.
    fn problem(&self, problem: Problem) -> anyhow::Error {
        let Problem { what, expected, place, help } = problem;
        // The library takes care of the text of the source, and of nothing else.
        let (file, expected) = (self.file.shown(), expected.shown());
        let document = document_number(self.text, place.line);
        let title = shown!("{} (document {} of {})", what, document, file);
        let annotation = AnnotationKind::Primary.span(place.range).label(expected.as_str());
        let snippet = Snippet::source(self.text).path(file.as_str()).annotation(annotation);
        let group = Level::ERROR.no_name().primary_title(title.as_str()).element(snippet);
        let group = match help {
            Some(help) => group.element(Level::HELP.with_name("hint").message(help)),
            None => group,
        };
        DrawnError(Renderer::styled().render(&[group])).into()
    }

    /// What the parser says, in words for somebody who does not know the parser.
    fn syntax(&self, error: &Error) -> Problem {
        let text = self.text;
        let place = error.location().map_or(SourceSpan::START, |location| self.spans.at(location));
        let (what, expected) = match error {
            Error::DuplicateMappingKey { key, .. } => {
                let key = key.as_deref().map_or(String::new(), |key| format!(" {key:?}"));
                (format!("the key{key} is there twice"), "expected each key once".into())
            }
            Error::Unexpected { expected, .. } if *expected == "string scalar" => {
                ("a key is no text".into(), "expected a text as key".into())
            }
            Error::NullIntoString { .. } => {
                ("a key is null".into(), "expected a text as key; quote it".into())
            }
            Error::NonFiniteFloat { .. } => {
                ("a number is not finite".into(), "expected a number or, quoted, a text".into())
            }
            Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
                ("too deep".into(), format!("expected at most {DEEPEST} levels"))
            }
            Error::Budget { .. } => (
                "more than is read of one source".into(),
                "expected no more documents, values or aliases here".into(),
            ),
            _ => ("no valid YAML".into(), without_place(error)),
        };
        let line = text.lines().nth(place.line - 1).unwrap_or_default();
        let help = if line.contains("{{") {
            Some(format!(
                "this looks like a template: helm template CHART | {} {} -",
                crate::cli::program(),
                self.command
            ))
        } else if line.contains('\t') && !text.trim_start().starts_with('{') {
            Some("YAML is indented by blanks, never by tabs".into())
        } else if text.trim_start().starts_with('{') && without_place(error).contains("<document start>") {
            Some("several objects in one source go into a List, or with --- between them".into())
        } else {
            None
        };
        Problem { what, expected, place, help }
    }
}

/// As a person counts them: `---` at the start of a line begins the next one, but for one before everything else.
fn document_number(text: &str, line: usize) -> usize {
    let (mut number, mut something) = (1, false);
    for line in text.lines().take(line) {
        let marker =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if marker && something {
            number += 1;
        }
        let blank = line.trim().is_empty() || line.starts_with(['#', '%']);
        something |= marker || !blank;
    }
    number
}

/// The message without its last words: the place is shown.
fn without_place(error: &Error) -> String {
    let text = error.without_snippet().to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
