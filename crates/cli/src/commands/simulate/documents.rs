//! Parses the text of one source into objects, or into an error that shows the position.
//!
//! JSON is a subset of YAML and is parsed as such, so both formats get the same checks and messages.

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

/// Maximum nesting of lists; a list of lists is already unusual.
const DEEPEST_LIST: usize = 8;
/// Maximum nesting of values, equal to the limit of serde_json; the deepest CRDs in use have about 60 levels.
const DEEPEST: usize = 128;

/// An error: the problem, its position, and the expected content.
pub struct DocumentProblem {
    pub what: String,
    pub expected: String,
    pub place: SourceSpan,
    pub help: Option<String>,
}

/// YAML options equal to those of Kubernetes (YAML 1.1, where `0755` is 493 and `yes` is true), except that duplicate keys are
/// errors.
pub fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            // A source has at most 64 MiB. These limits stop sources that grow further when aliases are expanded.
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

/// An object and its position in the source.
pub struct Placed {
    pub value: Value,
    /// Path from the document to the object.
    pub path: Vec<PathSegment>,
    pub place: SourceSpan,
}

/// Parses the objects of one source; unpacks lists and skips empty documents.
pub fn objects(file: &str, text: &str) -> Result<Vec<Given>> {
    let placed = placed(file, &SourceSpans::new(text), "simulate")?.into_iter();
    let given = |Placed { value, path: _, place }| Given {
        value,
        origin: Origin { file: file.to_owned(), line: place.line },
    };
    Ok(placed.map(given).collect())
}

/// Like [`objects`], with the path of each object. `command` is the subcommand that a hint suggests.
pub fn placed(file: &str, spans: &SourceSpans, command: &str) -> Result<Vec<Placed>> {
    let text = spans.text();
    let source = DocumentSource { file, text, spans, command };
    let documents: Vec<Spanned<Value>> = serde_saphyr::from_multiple_with_options(text, options())
        .map_err(|error| source.problem(source.syntax(&error)))?;
    let mut objects = Vec::new();
    for (number, document) in documents.into_iter().enumerate() {
        let (place, value) = (spans.at(document.referenced), document.value);
        source.take(value, &mut vec![PathSegment::Document(number)], place, &mut objects)?;
    }
    Ok(objects)
}

struct DocumentSource<'a> {
    file: &'a str,
    text: &'a str,
    spans: &'a SourceSpans<'a>,
    command: &'a str,
}

impl DocumentSource<'_> {
    fn take(
        &self,
        value: Value,
        path: &mut Vec<PathSegment>,
        place: SourceSpan,
        objects: &mut Vec<Placed>,
    ) -> Result<()> {
        let refuse = |problem: super::object::ObjectProblem| {
            let super::object::ObjectProblem { what, expected, at } = problem;
            let segments: Vec<PathSegment> =
                path.iter().cloned().chain(at.into_iter().map(PathSegment::Key)).collect();
            let place = self.spans.find(&segments).unwrap_or_else(|| place.clone());
            self.problem(DocumentProblem { what, expected, place, help: None })
        };
        super::object::check(&value).map_err(refuse)?;
        let Some(items) = super::object::items(&value) else {
            objects.push(Placed { value, path: path.clone(), place });
            return Ok(());
        };
        if path.len() > 2 * DEEPEST_LIST {
            let expected = format!("expected at most {DEEPEST_LIST}");
            return Err(self.problem(DocumentProblem {
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

    /// Formats an error like a compiler: title, source line with the position marked, and the expected content.
    fn problem(&self, problem: DocumentProblem) -> anyhow::Error {
        let DocumentProblem { what, expected, place, help } = problem;
        // The library escapes the text of the source, but not the file name or `expected`.
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

    /// Describes a parser error in words that need no knowledge of the parser.
    fn syntax(&self, error: &Error) -> DocumentProblem {
        let text = self.text;
        let place = error.location().map_or(SourceSpan::START, |location| self.spans.at(location));
        let (what, expected) = match error {
            Error::DuplicateMappingKey { key, .. } => {
                let key = key.as_deref().map_or(String::new(), |key| format!(" {key:?}"));
                (format!("duplicate key{key}"), "expected each key once".into())
            }
            Error::Unexpected { expected, .. } if *expected == "string scalar" => {
                ("a key is not a string".into(), "expected a string as key".into())
            }
            Error::NullIntoString { .. } => {
                ("a key is null".into(), "expected a string as key; quote it".into())
            }
            Error::NonFiniteFloat { .. } => {
                ("a number is not finite".into(), "expected a finite number, or a quoted string".into())
            }
            Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
                ("too many nested levels".into(), format!("expected at most {DEEPEST} levels"))
            }
            Error::Budget { .. } => (
                "the source exceeds the size limits".into(),
                "expected fewer documents, values or aliases".into(),
            ),
            _ => ("invalid YAML".into(), without_place(error)),
        };
        let line = text.lines().nth(place.line - 1).unwrap_or_default();
        let help = if line.contains("{{") {
            Some(format!(
                "this looks like a template: helm template CHART | {} {} -",
                crate::cli::program(),
                self.command
            ))
        } else if line.contains('\t') && !text.trim_start().starts_with('{') {
            Some("YAML is indented with spaces, never with tabs".into())
        } else if text.trim_start().starts_with('{') && without_place(error).contains("<document start>") {
            Some("put several objects of one source into a List, or separate them with ---".into())
        } else {
            None
        };
        DocumentProblem { what, expected, place, help }
    }
}

/// Counts documents as people do: each `---` at the start of a line begins a new document, unless only blanks and comments
/// precede it.
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

/// Removes the position from the end of the message, because the error shows it separately.
fn without_place(error: &Error) -> String {
    let text = error.without_snippet().to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
