//! Validation equivalent to that of the API server, in Rust: for `rollcall` before it applies an object, and for
//! objects that were created while an older definition with fewer rules was installed.

use crate::check::{self, Breach, Problem};
use crate::definition::Custom;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// Why a spec is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSpec {
    /// `spec.podGroups[1].timeout`.
    pub field: String,
    /// The invalid value, as JSON; `None` for lists and objects, and if it is missing.
    pub value: Option<String>,
    /// The expected value, in the words of the API server where it has a message of its own.
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
    fn from(problem: Problem) -> Self {
        let value = match (&problem.breach, &problem.value) {
            (Breach::Missing, _) | (_, Value::Object(_) | Value::Array(_)) => None,
            (_, scalar) => Some(shorten(scalar.to_string())),
        };
        let (field, expected) = (problem.field, problem.breach.to_string());
        // A rule for a whole list has the index in its message, because a field path cannot contain one.
        match expected.split_once(": ") {
            Some((place, rest)) if place.strip_prefix(&field).is_some_and(|tail| tail.starts_with('[')) => {
                Self { field: place.to_owned(), value, expected: rest.to_owned() }
            }
            _ => Self { field, value, expected },
        }
    }
}

/// Maximum length of a quoted value in a message, so that the message fits on a line of a status.
const QUOTED: usize = 80;

fn shorten(text: String) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…\"", &text[..end]),
        None => text,
    }
}

/// Parses and validates a `spec`, which may be any JSON value. Drops nulls and fills in defaults, then checks every
/// rule of the definition.
pub fn parse<Spec: DeserializeOwned>(of: Custom, spec: &Value) -> Result<Spec, InvalidSpec> {
    let mut spec = spec.clone();
    check::normalize(of.spec(), &mut spec);
    check::check(of.spec(), &spec, None, "spec")?;
    serde_json::from_value(spec).map_err(|error| InvalidSpec {
        field: "spec".into(),
        value: None,
        expected: format!("cannot be read: {error}"),
    })
}

/// Checks a spec against every rule of the definition.
pub fn validate<Spec: Serialize>(of: Custom, spec: &Spec) -> Result<(), InvalidSpec> {
    let value = serde_json::to_value(spec).map_err(|error| InvalidSpec {
        field: "spec".into(),
        value: None,
        expected: format!("cannot be written: {error}"),
    })?;
    Ok(check::check(of.spec(), &value, None, "spec")?)
}

/// The paths of the fields of a `spec` that the definition does not contain. The API server drops them with a warning.
pub fn unknown_fields(of: Custom, spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check::unknown_fields(of.spec(), spec, "spec", &mut found);
    found
}
