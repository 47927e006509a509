//! The judgement of the API server, in Rust: for `rollcall` before it applies something, and for objects that got
//! past an API server which knew fewer rules.

use super::definition::spec_schema;
use super::limits;
use super::rules;
use super::spec::PodSequenceSpec;
use crate::check::{self, Judge, Problem, Rule};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// Why a spec cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSpec {
    /// `spec.podGroups[1].timeout`.
    pub field: String,
    /// What is there, as JSON; `None` for lists and objects, and for what is missing.
    pub value: Option<String>,
    /// What was expected, in the words of the API server where it has any of its own.
    pub expected: String,
}

impl std::error::Error for InvalidSpec {}

/// `spec.podGroups[1].timeout: "soon" must be a duration such as …`
impl fmt::Display for InvalidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {} {}", self.field, value, self.expected),
            None => write!(f, "{}: {}", self.field, self.expected),
        }
    }
}

impl From<Problem> for InvalidSpec {
    fn from(Problem { field, value, expected }: Problem) -> Self {
        // A rule over the whole list names the place in its message, because a field path has no index in it.
        match expected.split_once(": ") {
            Some((place, rest)) if place.strip_prefix(&field).is_some_and(|tail| tail.starts_with('[')) => {
                Self { field: place.to_owned(), value, expected: rest.to_owned() }
            }
            _ => Self { field, value, expected },
        }
    }
}

/// Reads the `spec` of a `PodSequence`, whatever is in it: nulls are dropped and defaults filled in, then every rule
/// of the definition is checked.
pub fn parse_spec(spec: &Value) -> Result<PodSequenceSpec, InvalidSpec> {
    let mut spec = spec.clone();
    check::normalize(spec_schema(), &mut spec);
    check::check(spec_schema(), &spec, "spec", &Rules)?;
    serde_json::from_value(spec).map_err(|error| InvalidSpec {
        field: "spec".into(),
        value: None,
        expected: format!("cannot be read: {error}"),
    })
}

/// Checks every rule of the definition.
pub fn validate(spec: &PodSequenceSpec) -> Result<(), InvalidSpec> {
    let value = serde_json::to_value(spec).map_err(|error| InvalidSpec {
        field: "spec".into(),
        value: None,
        expected: format!("cannot be written: {error}"),
    })?;
    Ok(check::check(spec_schema(), &value, "spec", &Rules)?)
}

/// The fields of a `spec` that there are not, with their paths. The API server drops them with a warning.
pub fn unknown_fields(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check::unknown_fields(spec_schema(), spec, "spec", &mut found);
    found
}

struct Rules;

impl Judge for Rules {
    fn pattern(&self, pattern: &str, text: &str) -> Option<Result<(), String>> {
        let (fits, expected) = match pattern {
            limits::SUBDOMAIN_PATTERN => {
                (is_subdomain(text), "must be a name of lower-case letters, digits, '-' and '.'")
            }
            limits::DNS_LABEL_PATTERN => {
                (is_dns_label(text), "must be a name of lower-case letters, digits and '-'")
            }
            limits::LABEL_VALUE_PATTERN => {
                (text.is_empty() || is_name(text), "must be a label value: letters, digits, '-', '_' and '.'")
            }
            limits::QUALIFIED_NAME_PATTERN => {
                (is_qualified_name(text), "must be a name such as example.com/name")
            }
            limits::GROUP_NAME_PATTERN => (
                is_group_name(text),
                "must be a name without control characters and without blanks at its ends",
            ),
            _ => return None,
        };
        Some(if fits { Ok(()) } else { Err(expected.to_owned()) })
    }

    fn rule(&self, rule: &str) -> Option<&Rule> {
        static ALL: LazyLock<BTreeMap<String, Rule>> =
            LazyLock::new(|| rules::all().into_iter().map(|rule| (rule.rule.clone(), rule)).collect());
        ALL.get(rule)
    }
}

/// [`limits::SUBDOMAIN_PATTERN`]
fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// [`limits::DNS_LABEL_PATTERN`]
fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Letters and digits, with `-`, `_` and `.` between them.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && ends(text.bytes().next()) && ends(text.bytes().last())
}

/// [`limits::QUALIFIED_NAME_PATTERN`]
pub(super) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && name.len() <= limits::LABEL && is_name(name),
        None => text.len() <= limits::LABEL && is_name(text),
    }
}

/// [`limits::GROUP_NAME_PATTERN`]
fn is_group_name(text: &str) -> bool {
    let control = |c: char| c <= '\x1f' || c == '\x7f';
    !text.is_empty() && !text.contains(control) && !text.starts_with(' ') && !text.ends_with(' ')
}
