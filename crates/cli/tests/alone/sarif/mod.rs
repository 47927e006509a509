//! Validates a SARIF log against the schema of the standard (`sarif-schema-2.1.0.json`, as published by OASIS). It supports
//! only the keywords that this schema uses; a complete JSON Schema validator would add 37 packages for one test.

use serde_json::Value;

const SCHEMA: &str = include_str!("sarif-schema-2.1.0.json");
/// Keywords that do not affect validity, or only describe the format of a text.
const WORDS: [&str; 8] =
    ["$schema", "$id", "title", "description", "default", "format", "definitions", "pattern"];

pub fn problems(log: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let mut found = Vec::new();
    check(&schema, &schema, log, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$ref" => {
                let place = wanted.as_str().and_then(|place| place.strip_prefix('#')).expect("in this file");
                check(root, root.pointer(place).expect("it exists"), value, path, found);
                true
            }
            "type" => is_of(value, wanted),
            "enum" => wanted.as_array().is_some_and(|words| words.contains(value)),
            "required" => wanted
                .as_array()
                .into_iter()
                .flatten()
                .all(|name| value.get(name.as_str().unwrap_or_default()).is_some()),
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
            "minItems" => {
                value.as_array().is_none_or(|items| items.len() as u64 >= wanted.as_u64().unwrap_or_default())
            }
            "uniqueItems" => value
                .as_array()
                .is_none_or(|items| items.iter().enumerate().all(|(at, item)| !items[..at].contains(item))),
            "properties" => {
                for (name, schema) in wanted.as_object().into_iter().flatten() {
                    let inner = value.get(name);
                    inner
                        .into_iter()
                        .for_each(|inner| check(root, schema, inner, &format!("{path}.{name}"), found));
                }
                true
            }
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name.as_str()).is_some();
                let others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                match wanted {
                    Value::Bool(allowed) => *allowed || others.count() == 0,
                    schema => {
                        others.for_each(|(name, inner)| {
                            check(root, schema, inner, &format!("{path}.{name}"), found)
                        });
                        true
                    }
                }
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, item, &format!("{path}[{at}]"), found);
                }
                true
            }
            "anyOf" => fitting(root, wanted, value) > 0,
            "oneOf" => fitting(root, wanted, value) == 1,
            word => {
                assert!(WORDS.contains(&word), "the schema contains the unsupported keyword {word}");
                true
            }
        };
        if !holds {
            found.push(format!("{path}: {keyword} {wanted}: {value}"));
        }
    }
}

/// Counts the schemas that the value satisfies.
fn fitting(root: &Value, schemas: &Value, value: &Value) -> usize {
    let fits = |schema: &&Value| {
        let mut found = Vec::new();
        check(root, schema, value, "", &mut found);
        found.is_empty()
    };
    schemas.as_array().into_iter().flatten().filter(fits).count()
}

fn is_of(value: &Value, kind: &Value) -> bool {
    let one = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(one),
        kind => kind.as_str().is_some_and(one),
    }
}

#[test]
fn the_judge_can_say_no() {
    let found = problems(
        &serde_json::json!({ "version": "2.1.0", "runs": [{ "tool": { "driver": {} }, "result": 1 }] }),
    );
    assert_eq!(found.len(), 2, "{found:?}");
}
