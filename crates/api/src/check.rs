//! Judges a JSON value by the schema of a custom resource, as the API server does: first nulls are dropped and
//! defaults filled in, then the structure is checked, and only if that is sound, the rules.
//!
//! The rules (CEL, `x-kubernetes-validations`) are not interpreted: whoever wrote one wrote the same condition in
//! Rust beside it, as a [`Rule`], and the test corpus holds the two against each other on a real API server.

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
pub fn normalize(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                fields.retain(|_, value| !value.is_null());
                for (name, property) in properties {
                    if let Some(default) = property.get("default") {
                        fields.entry(name).or_insert_with(|| default.clone());
                    }
                    if let Some(value) = fields.get_mut(name) {
                        normalize(property, value);
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| normalize(schema, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The first thing that is wrong with `value`, which is at `path`.
pub fn check(schema: &Value, value: &Value, path: &str, judge: &dyn Judge) -> Result<(), Problem> {
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
pub fn unknown_fields(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let (Some(fields), Some(properties)) =
        (value.as_object(), schema.get("properties").and_then(Value::as_object))
    {
        for (name, value) in fields {
            match properties.get(name) {
                Some(property) => unknown_fields(property, value, &format!("{path}.{name}"), found),
                None => found.push(format!("{path}.{name}")),
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            unknown_fields(schema, item, &format!("{path}[{index}]"), found);
        }
    }
}

fn structure(schema: &Value, value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    kind(schema, value)?;
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
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

fn kind(schema: &Value, value: &Value) -> Result<(), Problem> {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return match value.is_i64() || value.is_u64() || value.is_string() {
            true => Ok(()),
            false => problem(value, "must be of type integer or string".into()),
        };
    }
    let Some(kind) = schema.get("type").and_then(Value::as_str) else { return Ok(()) };
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
    schema: &Value,
    fields: &Map<String, Value>,
    value: &Value,
    judge: &dyn Judge,
) -> Result<(), Problem> {
    for name in
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        if !fields.contains_key(name) {
            let field = format!(".{name}");
            return Err(Problem { field, value: None, expected: "must be given".into() });
        }
    }
    count(schema, "maxProperties", "minProperties", fields.len(), "entries", value)?;
    for_each_child(schema, value, |schema, value| structure(schema, value, judge))
}

fn array(schema: &Value, items: &[Value], value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    count(schema, "maxItems", "minItems", items.len(), "items", value)?;
    for_each_child(schema, value, |schema, value| structure(schema, value, judge))?;
    if schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("set") {
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

fn string(schema: &Value, text: &str, value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    count(schema, "maxLength", "minLength", text.chars().count(), "characters", value)?;
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return Ok(()) };
    match judge.pattern(pattern, text) {
        Some(Err(expected)) => problem(value, expected),
        Some(Ok(())) | None => Ok(()),
    }
}

fn count(
    schema: &Value,
    at_most: &str,
    at_least: &str,
    size: usize,
    of: &str,
    value: &Value,
) -> Result<(), Problem> {
    let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
    if let Some(max) = bound(at_most)
        && size as f64 > max
    {
        return problem(value, format!("must have at most {max} {of}, not {size}"));
    }
    if let Some(min) = bound(at_least)
        && (size as f64) < min
    {
        return problem(value, format!("must have at least {min} {of}, not {size}"));
    }
    Ok(())
}

fn range(schema: &Value, number: Option<f64>, value: &Value) -> Result<(), Problem> {
    let bound = |keyword| schema.get(keyword).and_then(Value::as_f64);
    match (number, bound("minimum"), bound("maximum")) {
        (Some(number), Some(min), _) if number < min => problem(value, format!("must be at least {min}")),
        (Some(number), _, Some(max)) if number > max => problem(value, format!("must be at most {max}")),
        _ => Ok(()),
    }
}

fn rules(schema: &Value, value: &Value, judge: &dyn Judge) -> Result<(), Problem> {
    for text in schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        let Some(rule) = text.get("rule").and_then(Value::as_str).and_then(|text| judge.rule(text)) else {
            continue;
        };
        if let Err(expected) = (rule.check)(value) {
            let broken = problem(value, expected);
            return broken.map_err(|problem| problem.below(rule.field_path.unwrap_or_default()));
        }
    }
    for_each_child(schema, value, |schema, value| rules(schema, value, judge))
}

fn for_each_child(
    schema: &Value,
    value: &Value,
    mut visit: impl FnMut(&Value, &Value) -> Result<(), Problem>,
) -> Result<(), Problem> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let known = schema.get("properties").and_then(|properties| properties.get(name));
                if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
                    visit(schema, value).map_err(|problem| problem.below(format_args!(".{name}")))?;
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return Ok(()) };
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
