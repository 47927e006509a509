//! Judges a JSON value by the schema of a custom resource, as the API server does: first nulls are dropped and
//! defaults filled in, then the structure is checked, and only if that is sound, the rules.
//!
//! The rules (CEL, `x-kubernetes-validations`) are not interpreted: whoever wrote one wrote the same condition in
//! Rust beside it, as a [`Rule`], and the test corpus holds the two against each other on a real API server.

use crate::schema::Schema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Display;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is: `spec.podGroups[1].timeout`.
    pub field: String,
    /// What is there, as JSON, if it is a scalar.
    pub value: Option<String>,
    /// What was expected: `must be …`.
    pub expected: String,
}

/// A validation rule of a custom resource, in CEL for the API server and in Rust for everybody else.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    pub rule: String,
    /// What the API server says if `message_expression` is absent or cannot be evaluated.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_expression: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The same condition on the same value; the error is what the API server would say.
    #[serde(skip)]
    pub check: fn(&Value) -> Result<(), String>,
}

impl Rule {
    pub fn new(
        rule: impl Into<String>,
        message: impl Into<String>,
        check: fn(&Value) -> Result<(), String>,
    ) -> Self {
        Self {
            rule: rule.into(),
            message: message.into(),
            message_expression: None,
            field_path: None,
            reason: None,
            check,
        }
    }

    pub fn expression(self, expression: impl Into<String>) -> Self {
        Self { message_expression: Some(expression.into()), ..self }
    }

    /// The field that the rule is about, below the one that it stands on: `.start`.
    pub fn at(self, field_path: &'static str) -> Self {
        Self { field_path: Some(field_path), ..self }
    }

    pub fn reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

/// The forms (`pattern`) and rules of a schema, by their text.
pub trait Judge {
    /// Whether `text` has the form `pattern`, and how that form is called; `None` if the pattern is not known.
    fn pattern(&self, pattern: &str, text: &str) -> Option<Result<(), String>>;

    /// The Rust side of the rule whose CEL text is `rule`.
    fn rule(&self, rule: &str) -> Option<&Rule>;
}

/// Drops nulls and fills in defaults, as the API server does before it looks at anything.
pub fn normalize(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let Some(properties) = &schema.properties else { return };
            fields.retain(|_, value| !value.is_null());
            for (name, property) in properties {
                if let Some(default) = &property.default
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                properties.get(name).into_iter().for_each(|property| normalize(property, value));
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

/// The first thing that is wrong with `value`, which is at `path`.
pub fn check(schema: &Schema, value: &Value, path: &str, judge: &dyn Judge) -> Result<(), Problem> {
    // Hardly anything is wrong, so only what is wrong gets a path, on the way back.
    let found = structure(schema, value, judge).and_then(|()| rules(schema, value, judge));
    found.map_err(|problem| problem.below(path))
}

impl Problem {
    /// The same, seen from the outside of where it was found: `[1].timeout`, below `.podGroups`.
    fn below(self, path: impl Display) -> Problem {
        Problem { field: format!("{path}{}", self.field), ..self }
    }
}

/// The fields of `value` that the schema does not know; the API server would drop them.
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

fn structure(schema: &Schema, value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    kind(schema, value)?;
    if let Some(words) = schema.words.as_ref().filter(|words| !words.contains(value)) {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return problem(value, format!("must be one of {}", words.join(", ")));
    }
    match value {
        Value::Object(fields) => object(schema, fields, value, judge),
        Value::Array(items) => array(schema, items, value, judge),
        Value::String(text) => string(schema, text, value, judge),
        Value::Number(number) => range(schema, number.as_f64(), value),
        Value::Bool(_) | Value::Null => Ok(()),
    }
}

fn kind(schema: &Schema, value: &Value) -> Result<(), Problem> {
    if schema.int_or_string {
        return match value.is_i64() || value.is_u64() || value.is_string() {
            true => Ok(()),
            false => problem(value, "must be of type integer or string".into()),
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
    if fits { Ok(()) } else { problem(value, format!("must be of type {kind}")) }
}

fn object(
    schema: &Schema,
    fields: &Map<String, Value>,
    value: &Value,
    judge: &dyn Judge,
) -> Result<(), Problem> {
    if let Some(name) = schema.required.iter().find(|name| !fields.contains_key(*name)) {
        let field = format!(".{name}");
        return Err(Problem { field, value: None, expected: "must be given".into() });
    }
    count(schema, fields.len(), "entries", value)?;
    for_each_child(schema, value, |schema, value| structure(schema, value, judge))
}

fn array(schema: &Schema, items: &[Value], value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    count(schema, items.len(), "items", value)?;
    for_each_child(schema, value, |schema, value| structure(schema, value, judge))?;
    if schema.is_set {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if !seen.insert(item.to_string()) {
                let twice = problem(item, "must not be listed twice".into());
                return twice.map_err(|problem| problem.below(format_args!("[{index}]")));
            }
        }
    }
    Ok(())
}

fn string(schema: &Schema, text: &str, value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    count(schema, text.chars().count(), "characters", value)?;
    let Some(pattern) = &schema.pattern else { return Ok(()) };
    match judge.pattern(pattern, text) {
        Some(Err(expected)) => problem(value, expected),
        Some(Ok(())) | None => Ok(()),
    }
}

fn count(schema: &Schema, size: usize, of: &str, value: &Value) -> Result<(), Problem> {
    if let Some(max) = schema.at_most
        && size as f64 > max
    {
        return problem(value, format!("must have at most {max} {of}, not {size}"));
    }
    if let Some(min) = schema.at_least
        && (size as f64) < min
    {
        return problem(value, format!("must have at least {min} {of}, not {size}"));
    }
    Ok(())
}

fn range(schema: &Schema, number: Option<f64>, value: &Value) -> Result<(), Problem> {
    match (number, schema.minimum, schema.maximum) {
        (Some(number), Some(min), _) if number < min => problem(value, format!("must be at least {min}")),
        (Some(number), _, Some(max)) if number > max => problem(value, format!("must be at most {max}")),
        _ => Ok(()),
    }
}

fn rules(schema: &Schema, value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    for rule in schema.rules.iter().filter_map(|text| judge.rule(text)) {
        if let Err(expected) = (rule.check)(value) {
            let broken = problem(value, expected);
            return broken.map_err(|problem| problem.below(rule.field_path.unwrap_or_default()));
        }
    }
    for_each_child(schema, value, |schema, value| rules(schema, value, judge))
}

fn for_each_child(
    schema: &Schema,
    value: &Value,
    mut visit: impl FnMut(&Schema, &Value) -> Result<(), Problem>,
) -> Result<(), Problem> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = schema.field(name) {
                    visit(schema, value).map_err(|problem| problem.below(format_args!(".{name}")))?;
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return Ok(()) };
            for (index, item) in items.iter().enumerate() {
                visit(schema, item).map_err(|problem| problem.below(format_args!("[{index}]")))?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn problem(value: &Value, expected: String) -> Result<(), Problem> {
    let shown = (!value.is_object() && !value.is_array()).then(|| shorten(value.to_string()));
    Err(Problem { field: String::new(), value: shown, expected })
}

/// How much of a value a message quotes: enough to recognise it, and a status has a line for it.
const QUOTED: usize = 80;

fn shorten(text: String) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…\"", &text[..end]),
        None => text,
    }
}
