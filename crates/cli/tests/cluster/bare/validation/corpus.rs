//! The corpus of test cases, as files in a folder for each feature.
//!
//! Three short forms stand for long values, so that a list of a thousand groups stays readable:
//! - in a list, `{$repeat: N, $each: ITEM}`: N items, with `%` replaced by 0, 1, 2 …;
//! - for a map, `{$repeat: N, $entries: {KEY: VALUE}}`: likewise for entries;
//! - for a string, `{$repeat: N, $text: T}`: T repeated N times, between `$before` and `$after`.

use rollcall_api::definition::Custom;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

pub const SEQUENCE: &str = "sequence";
pub const RESERVATION: &str = "reservation";

/// A spec that violates exactly one rule, and the same spec without the error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the file.
    #[serde(skip)]
    pub name: String,
    #[serde(default = "pod_sequence")]
    kind: String,
    pub bad: Value,
    /// The single cause in the API server's answer.
    pub field: String,
    pub message: String,
    /// Rollcall's own error message.
    pub rollcall: String,
    pub good: Value,
}

fn pod_sequence() -> String {
    Custom::PodSequence.kind().to_owned()
}

impl Case {
    pub fn custom(&self) -> Custom {
        custom(&self.kind)
    }
}

pub fn custom(kind: &str) -> Custom {
    let mut all = Custom::ALL.iter().copied();
    all.find(|custom| custom.kind() == kind).unwrap_or_else(|| panic!("{kind} is not a kind of Rollcall"))
}

/// Returns the cases of `cases/FEATURE/invalid`, in order.
pub fn invalid(feature: &str) -> Vec<Case> {
    let cases = files(&format!("{feature}/invalid")).into_iter().map(|(name, text)| {
        let mut case: Case = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        case.name = name;
        case.bad = expand(&case.bad);
        case.good = expand(&case.good);
        case
    });
    cases.collect()
}

/// Returns the complete objects of `cases/FEATURE/valid`.
pub fn valid(feature: &str) -> Vec<(String, Value)> {
    let objects = files(&format!("{feature}/valid")).into_iter().map(|(name, text)| {
        let object = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, object)
    });
    objects.collect()
}

/// Builds an object with this spec.
pub fn object(custom: Custom, name: &str, spec: Value) -> Value {
    let definition = custom.crd().spec;
    json!({
        "apiVersion": format!("{}/{}", definition.group, definition.versions[0].name),
        "kind": custom.kind(),
        "metadata": { "name": format!("case-{name}"), "namespace": "default" },
        "spec": spec,
    })
}

fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let read = |file: &std::path::PathBuf| {
        (file.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(file).unwrap())
    };
    files.iter().map(read).collect()
}

fn expand(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().flat_map(expand_item).collect(),
        Value::Object(fields) => match (fields.get("$text"), fields.get("$entries")) {
            (Some(text), _) => {
                let part = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
                let middle = text.as_str().unwrap().repeat(times(fields));
                format!("{}{middle}{}", part("$before"), part("$after")).into()
            }
            (None, Some(entries)) => {
                let all = (0..times(fields)).flat_map(|index| match number(entries, index) {
                    Value::Object(entries) => entries,
                    other => panic!("{other} is not a map of entries"),
                });
                Value::Object(all.collect())
            }
            (None, None) => fields.iter().map(|(name, value)| (name.clone(), expand(value))).collect(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn expand_item(item: &Value) -> Vec<Value> {
    match item.as_object().and_then(|fields| Some((fields, fields.get("$each")?))) {
        Some((fields, each)) => (0..times(fields)).map(|index| number(each, index)).collect(),
        None => vec![expand(item)],
    }
}

fn times(fields: &Map<String, Value>) -> usize {
    fields["$repeat"].as_u64().unwrap() as usize
}

/// Replaces `%` in a value with the index.
fn number(value: &Value, index: usize) -> Value {
    serde_json::from_str(&value.to_string().replace('%', &index.to_string())).unwrap()
}
