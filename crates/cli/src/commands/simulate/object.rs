//! Checks of the fields that every Kubernetes object has, before the object is used.

use serde_json::{Map, Value};

/// An error in an object, and the path of the field.
#[derive(Debug)]
pub struct ObjectProblem {
    pub what: String,
    pub expected: String,
    pub at: Vec<String>,
}

fn problem(what: impl Into<String>, expected: impl Into<String>, at: &[&str]) -> ObjectProblem {
    ObjectProblem {
        what: what.into(),
        expected: expected.into(),
        at: at.iter().map(|key| key.to_string()).collect(),
    }
}

/// Checks that the value can be an object or a list of objects.
pub fn check(value: &Value) -> Result<(), ObjectProblem> {
    let Value::Object(object) = value else {
        let what = format!("{} is not a Kubernetes object", describe_value(value));
        return Err(problem(what, "expected apiVersion, kind and metadata", &[]));
    };
    text(object, "apiVersion", "such as v1 or apps/v1")?;
    let kind = text(object, "kind", "such as Pod or Deployment")?;
    if is_list(object) {
        return match &object.get("items") {
            None | Some(Value::Null | Value::Array(_)) => Ok(()),
            Some(other) => {
                Err(problem(format!("items is {}", describe_value(other)), "expected a list", &["items"]))
            }
        };
    }
    let metadata = match object.get("metadata") {
        Some(Value::Object(metadata)) => metadata,
        None | Some(Value::Null) => {
            return Err(problem(format!("the {kind} has no metadata"), "expected metadata with a name", &[]));
        }
        Some(other) => {
            let what = format!("metadata is {}", describe_value(other));
            return Err(problem(what, "expected metadata with a name", &["metadata"]));
        }
    };
    check_metadata(kind, metadata)
}

fn check_metadata(kind: &str, metadata: &Map<String, Value>) -> Result<(), ObjectProblem> {
    for field in ["name", "generateName", "namespace"] {
        match metadata.get(field) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let what = format!("metadata.{field} is {}", describe_value(other));
                return Err(problem(what, "expected a string; quote it", &["metadata", field]));
            }
        }
    }
    let given = |field| metadata.get(field).and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if !given("name") && !given("generateName") {
        return Err(problem(format!("the {kind} has no name"), "expected metadata.name", &["metadata"]));
    }
    for field in ["labels", "annotations"] {
        match metadata.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                // YAML reads `country: no` as a boolean, which the API server rejects.
                let wrong = entries.iter().find(|(_, value)| !value.is_string() && !value.is_null());
                if let Some((key, value)) = wrong {
                    let what = format!("metadata.{field}: {key} is {}", describe_value(value));
                    return Err(problem(what, "expected a string; quote it", &["metadata", field, key]));
                }
            }
            Some(other) => {
                let what = format!("metadata.{field} is {}", describe_value(other));
                return Err(problem(what, "expected a mapping of keys to strings", &["metadata", field]));
            }
        }
    }
    Ok(())
}

fn text<'a>(object: &'a Map<String, Value>, field: &str, example: &str) -> Result<&'a str, ObjectProblem> {
    match object.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None => Err(problem(format!("no {field}"), format!("expected {field}, {example}"), &[])),
        Some(other) => Err(problem(
            format!("{field} is {}", describe_value(other)),
            format!("expected a string {example}"),
            &[field],
        )),
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::String(text) if text.is_empty() => "empty".into(),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a mapping".into(),
    }
}

/// Whether the object is a `List`, or a typed list such as the `PodList` that the API server returns.
fn is_list(object: &Map<String, Value>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "List" || (kind.ends_with("List") && object.contains_key("items"))
}

/// The objects of a list; `None` if the value is not a list. In a `PodList`, items without a kind get the kind Pod.
pub fn items(value: &Value) -> Option<Vec<Value>> {
    let object = value.as_object().filter(|object| is_list(object))?;
    let kind = object.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let mut items = object.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.entry("kind").or_insert_with(|| kind.into());
            item.entry("apiVersion").or_insert_with(|| object["apiVersion"].clone());
        }
    }
    Some(items)
}
