//! Validation of custom resources. `rollcall_api` applies the rules of their definitions. This module converts the result
//! to the API server's wording, and reports only the first of several errors.

use crate::server::refusal::{Wrong, WrongKind};
use rollcall_api::check::{self, Breach, Counted, Problem};
use rollcall_api::definition::Custom;
use rollcall_api::forms::turns;
use serde_json::Value;

/// Added by the API server if structural errors prevented the evaluation of validation rules.
const NOT_CHECKED: &str = "null: some validation rules were not checked because the object was invalid; correct the \
                           existing errors to complete validation";

/// Validates the spec. `old` is the object before an update.
pub fn check(custom: Custom, old: Option<&Value>, object: &Value, found: &mut Vec<Wrong>) {
    let Some(spec) = object.get("spec") else {
        return report(Problem { field: "spec".into(), value: Value::Null, breach: Breach::Missing }, found);
    };
    let before = old.and_then(|old| old.get("spec"));
    if let Err(problem) = check::check(custom.spec(), spec, before, "spec") {
        report(problem, found);
    }
}

/// Validates the status, which has no rules besides its structure.
pub fn check_status(custom: Custom, object: &Value, found: &mut Vec<Wrong>) {
    if let (Some(schema), Some(status)) = (custom.schema().property("status"), object.get("status"))
        && let Err(problem) = check::check(schema, status, None, "status")
    {
        report(problem, found);
    }
}

fn report(problem: Problem, found: &mut Vec<Wrong>) {
    let Problem { field, value, breach } = problem;
    let is_rule = matches!(breach, Breach::Rule(..));
    let (kind, detail) = match breach {
        Breach::Missing => (WrongKind::Required, String::new()),
        Breach::NotOfType(of) => {
            let is = kind_of(&value);
            // The status is validated separately, so the path in this message omits `status.`.
            let place = field.strip_prefix("status.").unwrap_or(&field);
            let of = of.replace(" or ", ",");
            (WrongKind::TypeInvalid, format!("\"{is}\": {place} in body must be of type {of}: \"{is}\""))
        }
        Breach::NotOneOf(words) => {
            (WrongKind::NotSupported, format!("{}: supported values: {}", shown(&value), words.join(", ")))
        }
        Breach::TooMany { most, of: Counted::Characters, .. } => {
            (WrongKind::TooLong, format!("may not be more than {most} bytes"))
        }
        Breach::TooMany { count, most, .. } => {
            let items = if most == 1.0 { "item" } else { "items" };
            (WrongKind::TooMany, format!("{count}: must have at most {most} {items}"))
        }
        Breach::TooFew { count, least, of } => {
            let of = if of == Counted::Entries { "properties" } else { "items" };
            (WrongKind::Invalid, format!("{count}: {field} in body should have at least {least} {of}"))
        }
        Breach::TooSmall(min) => {
            (WrongKind::Invalid, format!("{value}: {field} in body should be greater than or equal to {min}"))
        }
        Breach::TooLarge(max) => {
            (WrongKind::Invalid, format!("{value}: {field} in body should be less than or equal to {max}"))
        }
        Breach::Twice => (WrongKind::Duplicate, shown(&value)),
        Breach::NoTime => {
            let shown = shown(&value);
            (WrongKind::Invalid, format!("{shown}: {field} in body must be of type date-time: {shown}"))
        }
        Breach::OtherForm(form) => (
            WrongKind::Invalid,
            format!("{}: {field} in body should match '{}'", shown(&value), form.pattern),
        ),
        Breach::Rule(rule, said) => match rule.reason {
            Some("FieldValueForbidden") => (WrongKind::Forbidden, said),
            Some("FieldValueRequired") => (WrongKind::Required, said),
            _ if value.is_object() || value.is_array() => (WrongKind::Invalid, said),
            _ => (WrongKind::Invalid, format!("{}: {said}", shown(&value))),
        },
    };
    found.push(Wrong { field, kind, detail });
    let blocks = [
        WrongKind::Required,
        WrongKind::TypeInvalid,
        WrongKind::NotSupported,
        WrongKind::TooLong,
        WrongKind::TooMany,
    ];
    if blocks.contains(&kind) && !is_rule {
        found.push(Wrong { field: "<nil>".into(), kind: WrongKind::Invalid, detail: NOT_CHECKED.into() });
    }
}

/// The type in terms of JSON schema.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value quoted as in Go: characters that are not printable are escaped.
fn shown(value: &Value) -> String {
    let quoted = |char: char| match char {
        char if char.is_control() || turns(char) => format!("\\u{:04x}", u32::from(char)),
        char => char.into(),
    };
    value.to_string().chars().map(quoted).collect()
}
