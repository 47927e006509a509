//! Rules on `PodSequence`. They are those of its definition, checked by `rollcall_api`; here the verdict is only put into
//! the API server's words. Of several things that are wrong the first is named.

use crate::server::refusal::{Wrong, WrongKind};
use rollcall_api::check::{self, Judge, Problem, Rule};
use rollcall_api::sequence::{InvalidSpec, parse_spec, schema};
use serde_json::Value;

/// What the API server adds when it could not look at the rules because the structure is wrong.
const NOT_CHECKED: &str = "null: some validation rules were not checked because the object was invalid; correct the \
                           existing errors to complete validation";

pub fn check(object: &Value, found: &mut Vec<Wrong>) {
    match object.get("spec") {
        None => structural(Wrong::required("spec", ""), found),
        Some(spec) => {
            if let Err(InvalidSpec { field, value, expected }) = parse_spec(spec) {
                say(object, Problem { field, value, expected }, found);
            }
        }
    }
}

/// The status has no rules besides its structure.
pub fn check_status(object: &Value, found: &mut Vec<Wrong>) {
    if let (Some(schema), Some(status)) = (schema().property("status"), object.get("status"))
        && let Err(problem) = check::check(schema, status, "status", &StructureOnly)
    {
        say(object, problem, found);
    }
}

struct StructureOnly;

impl Judge for StructureOnly {
    fn pattern(&self, _: &str, _: &str) -> Option<Result<(), String>> {
        None
    }

    fn rule(&self, _: &str) -> Option<&Rule> {
        None
    }
}

fn say(object: &Value, problem: Problem, found: &mut Vec<Wrong>) {
    let Problem { field, value, expected } = problem;
    let schema = at(schema(), &field, |schema, name| match name {
        Some(name) => schema.field(name),
        None => schema.items.as_deref(),
    });
    let actual = at(object, &field, |value, name| match name {
        Some(name) => value.get(name),
        None => None,
    });
    let shown = value.unwrap_or_default();
    if expected == "must be given" {
        structural(Wrong::required(field, ""), found);
    } else if let Some(words) = expected.strip_prefix("must be one of ") {
        let detail = format!("{shown}: supported values: {words}");
        structural(Wrong { field, kind: WrongKind::NotSupported, detail }, found);
    } else if expected.starts_with("must be of type ") {
        let kind = kind_of(&shown, actual);
        // A status is looked at on its own.
        let place = field.strip_prefix("status.").unwrap_or(&field);
        let detail = format!("\"{kind}\": {place} in body {expected}: \"{kind}\"");
        structural(Wrong { field, kind: WrongKind::TypeInvalid, detail }, found);
    } else if expected == "must not be listed twice" {
        found.push(Wrong { field, kind: WrongKind::Duplicate, detail: shown });
    } else if let Some((least, count)) = too_few(&expected) {
        let detail = format!("{count}: {field} in body should have at least {least} items");
        found.push(Wrong { field, kind: WrongKind::Invalid, detail });
    } else if let Some(pattern) = schema.and_then(|schema| schema.pattern.as_ref()) {
        let detail = format!("{shown}: {field} in body should match '{pattern}'");
        found.push(Wrong { field, kind: WrongKind::Invalid, detail });
    } else if let Some(group) = field.strip_suffix(".dependsOn").filter(|_| shown.is_empty()) {
        // A rule on the whole list, which names the place itself.
        let list = group.split('[').next().unwrap_or_default().to_owned();
        let detail = format!("{field}: {expected}");
        found.push(Wrong { field: list, kind: WrongKind::Invalid, detail });
    } else {
        let detail = if shown.is_empty() { expected } else { format!("{shown}: {expected}") };
        found.push(Wrong { field, kind: WrongKind::Invalid, detail });
    }
}

fn structural(wrong: Wrong, found: &mut Vec<Wrong>) {
    found.push(wrong);
    found.push(Wrong { field: "<nil>".into(), kind: WrongKind::Invalid, detail: NOT_CHECKED.into() });
}

/// `must have at least 1 items, not 0`
fn too_few(expected: &str) -> Option<(&str, &str)> {
    expected.strip_prefix("must have at least ")?.split_once(" items, not ")
}

/// As JSON schema calls it.
fn kind_of(shown: &str, actual: Option<&Value>) -> &'static str {
    match (shown.bytes().next(), actual) {
        (Some(b'"'), _) => "string",
        (Some(b't' | b'f'), _) => "boolean",
        (Some(b'n'), _) => "null",
        (Some(_), _) if shown.contains('.') => "number",
        (Some(_), _) => "integer",
        (None, Some(Value::Array(_))) => "array",
        (None, _) => "object",
    }
}

/// Follows a path such as `spec.podGroups[1].pods`; a step without a name goes into a list.
fn at<'a, T>(root: &'a T, path: &str, step: impl Fn(&'a T, Option<&str>) -> Option<&'a T>) -> Option<&'a T> {
    let mut here = root;
    for part in path.split('.') {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        here = step(here, Some(name))?;
        for _ in indices.matches(']') {
            here = step(here, None)?;
        }
    }
    Some(here)
}
