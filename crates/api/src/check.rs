//! Checks a JSON value against the schema of a custom resource, as the API server does: it first drops nulls and fills
//! in defaults, then checks the structure, and checks the rules only if the structure is valid.
//!
//! The rules (CEL, `x-kubernetes-validations`) are not interpreted. Each has the same condition in Rust beside it, as a
//! [`Rule`], and the tests compare the two on a real API server.

use crate::forms::Form;
use crate::rule::Rule;
use crate::schema::Schema;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// The first violation found in a value.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The path of the value: `spec.podGroups[1].timeout`.
    pub field: String,
    /// The invalid value; null if it is missing.
    pub value: Value,
    pub breach: Breach,
}

/// The constraint that a value violates. `Display` prints what is expected: `must be …`.
#[derive(Clone, Debug)]
pub enum Breach {
    Missing,
    /// The type in JSON schema; `integer or string` if both are allowed.
    NotOfType(String),
    /// The allowed values, as JSON.
    NotOneOf(Vec<String>),
    TooMany {
        count: usize,
        most: f64,
        of: Counted,
    },
    TooFew {
        count: usize,
        least: f64,
        of: Counted,
    },
    TooSmall(f64),
    TooLarge(f64),
    Twice,
    NoTime,
    OtherForm(&'static Form),
    /// The rule, and its message.
    Rule(&'static Rule, String),
}

/// The unit of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Items,
    Entries,
    Characters,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Counted::Items => "items",
            Counted::Entries => "entries",
            Counted::Characters => "characters",
        })
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Missing => f.write_str("must be given"),
            Breach::NotOfType(kind) => write!(f, "must be of type {kind}"),
            Breach::NotOneOf(words) => write!(f, "must be one of {}", words.join(", ")),
            Breach::TooMany { count, most, of } => write!(f, "must have at most {most} {of}, not {count}"),
            Breach::TooFew { count, least, of } => write!(f, "must have at least {least} {of}, not {count}"),
            Breach::TooSmall(min) => write!(f, "must be at least {min}"),
            Breach::TooLarge(max) => write!(f, "must be at most {max}"),
            Breach::Twice => f.write_str("must not be listed twice"),
            Breach::NoTime => f.write_str("must be a time such as 2026-11-15T23:00:00Z"),
            Breach::OtherForm(form) => f.write_str(form.expected),
            Breach::Rule(_, said) => f.write_str(said),
        }
    }
}

/// Drops nulls and fills in defaults, as the API server does before validation.
pub fn normalize(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            for (name, property) in schema.properties.iter().flatten() {
                if let Some(default) = &property.default
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                schema.field(name).into_iter().for_each(|schema| normalize(schema, value));
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| normalize(schema, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Finds the first violation in `value` at `path`. `old` is the value that it replaces, if any.
pub fn check(schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Result<(), Problem> {
    // Most values are valid, so the path is built only for a violation, while returning from the recursion.
    let found = structure(schema, value).and_then(|()| rules(schema, value, old));
    found.map_err(|problem| problem.below(path))
}

impl Problem {
    /// Prefixes the path of the problem: `[1].timeout` below `.podGroups`.
    fn below(self, path: impl Display) -> Problem {
        Problem { field: format!("{path}{}", self.field), ..self }
    }
}

/// Collects the fields of `value` that the schema does not contain; the API server drops them.
pub fn unknown_fields(schema: &Schema, value: &Value, path: &str, found: &mut Vec<String>) {
    if let (Some(fields), Some(properties)) = (value.as_object(), &schema.properties) {
        for (name, value) in fields {
            match properties.get(name) {
                Some(property) => unknown_fields(property, value, &format!("{path}.{name}"), found),
                None => found.push(format!("{path}.{name}")),
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), &schema.items) {
        for (index, item) in items.iter().enumerate() {
            unknown_fields(schema, item, &format!("{path}[{index}]"), found);
        }
    }
}

fn structure(schema: &Schema, value: &Value) -> Result<(), Problem> {
    kind(schema, value)?;
    if let Some(words) = schema.words.as_ref().filter(|words| !words.contains(value)) {
        return problem(value, Breach::NotOneOf(words.iter().map(Value::to_string).collect()));
    }
    match value {
        Value::Object(fields) => object(schema, fields, value),
        Value::Array(items) => array(schema, items, value),
        Value::String(text) => string(schema, text, value),
        Value::Number(number) => range(schema, number.as_f64(), value),
        Value::Bool(_) | Value::Null => Ok(()),
    }
}

fn kind(schema: &Schema, value: &Value) -> Result<(), Problem> {
    if schema.int_or_string {
        return match value.is_i64() || value.is_u64() || value.is_string() {
            true => Ok(()),
            false => problem(value, Breach::NotOfType("integer or string".into())),
        };
    }
    let Some(kind) = schema.kind.as_deref() else { return Ok(()) };
    let fits = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => true,
    };
    if fits { Ok(()) } else { problem(value, Breach::NotOfType(kind.to_owned())) }
}

fn object(schema: &Schema, fields: &Map<String, Value>, value: &Value) -> Result<(), Problem> {
    if let Some(name) = schema.required.iter().find(|name| !fields.contains_key(*name)) {
        return problem(&Value::Null, Breach::Missing)
            .map_err(|problem| problem.below(format_args!(".{name}")));
    }
    count(schema, fields.len(), Counted::Entries, value)?;
    for_each_child(schema, value, None, |schema, value, _| structure(schema, value))
}

fn array(schema: &Schema, items: &[Value], value: &Value) -> Result<(), Problem> {
    count(schema, items.len(), Counted::Items, value)?;
    for_each_child(schema, value, None, |schema, value, _| structure(schema, value))?;
    if let Some(keys) = &schema.unique_by {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = identity(item, keys);
            if !seen.insert(identity.to_string()) {
                let twice = problem(&identity, Breach::Twice);
                return twice.map_err(|problem| problem.below(format_args!("[{index}]")));
            }
        }
    }
    Ok(())
}

/// The part of a list element that must be unique: these fields, or the whole element if `keys` is empty.
fn identity(item: &Value, keys: &[String]) -> Value {
    match keys {
        [] => item.clone(),
        keys => keys.iter().map(|key| (key.clone(), item[key.as_str()].clone())).collect(),
    }
}

fn string(schema: &Schema, text: &str, value: &Value) -> Result<(), Problem> {
    count(schema, text.chars().count(), Counted::Characters, value)?;
    if schema.is_time && text.parse::<Timestamp>().is_err() {
        return problem(value, Breach::NoTime);
    }
    match schema.form.filter(|form| !(form.fits)(text)) {
        Some(form) => problem(value, Breach::OtherForm(form)),
        None => Ok(()),
    }
}

fn count(schema: &Schema, count: usize, of: Counted, value: &Value) -> Result<(), Problem> {
    match (schema.at_least, schema.at_most) {
        (_, Some(most)) if count as f64 > most => problem(value, Breach::TooMany { count, most, of }),
        (Some(least), _) if (count as f64) < least => problem(value, Breach::TooFew { count, least, of }),
        _ => Ok(()),
    }
}

fn range(schema: &Schema, number: Option<f64>, value: &Value) -> Result<(), Problem> {
    match (number, schema.minimum, schema.maximum) {
        (Some(number), Some(min), _) if number < min => problem(value, Breach::TooSmall(min)),
        (Some(number), _, Some(max)) if number > max => problem(value, Breach::TooLarge(max)),
        _ => Ok(()),
    }
}

fn rules(schema: &Schema, value: &Value, old: Option<&Value>) -> Result<(), Problem> {
    for rule in &schema.rules {
        if let Err(said) = rule.check(value, old) {
            let broken = problem(value, Breach::Rule(rule, said));
            return broken.map_err(|problem| problem.below(rule.field_path.unwrap_or_default()));
        }
    }
    for_each_child(schema, value, old, rules)
}

/// Visits the children of `value`, each with its old value. List elements have no old value, because lists in our
/// resources are replaced as a whole.
fn for_each_child(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    mut visit: impl FnMut(&Schema, &Value, Option<&Value>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    match value {
        Value::Object(fields) => {
            let of_map = schema.additional.is_some();
            for (name, value) in fields {
                if let Some(schema) = schema.field(name) {
                    let old = old.and_then(|old| old.get(name));
                    visit(schema, value, old).map_err(|problem| match (of_map, &problem.breach) {
                        // The API server prints the path of a violated rule in this form.
                        (true, Breach::Rule(..)) => problem.below(format_args!("[{name}]")),
                        _ => problem.below(format_args!(".{name}")),
                    })?;
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return Ok(()) };
            for (index, item) in items.iter().enumerate() {
                visit(schema, item, None).map_err(|problem| problem.below(format_args!("[{index}]")))?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn problem(value: &Value, breach: Breach) -> Result<(), Problem> {
    Err(Problem { field: String::new(), value: value.clone(), breach })
}
