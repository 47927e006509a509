//! Compares an object in the cluster with the manifest that this program installs. The API server fills in defaults, so the
//! object may have more fields. Lists are compared entry by entry.

use serde_json::Value;

/// Number of characters shown of a value.
const SHOWN: usize = 60;

/// A difference between two objects: its place, such as `spec.a[0].b`, and a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub place: String,
    pub how: String,
}

/// Returns the fields of `ours` that `theirs` lacks or has with another value.
pub fn differences(ours: &Value, theirs: &Value, place: &str) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(ours, theirs, place.to_owned(), false, &mut found);
    found
}

/// Like [`differences`], and also returns fields that only `theirs` has. For values without defaults.
pub fn strictly(ours: &Value, theirs: &Value, place: &str) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(ours, theirs, place.to_owned(), true, &mut found);
    found
}

/// Describes differences, such as `3 differences, the first at spec.a: "x" instead of "y"`.
pub fn in_words(differences: &[Difference]) -> String {
    let Some(Difference { place, how }) = differences.first() else { return "no difference".into() };
    match differences.len() {
        1 => format!("at {place}: {how}"),
        more => format!("{more} differences, the first at {place}: {how}"),
    }
}

fn compare(ours: &Value, theirs: &Value, place: String, strict: bool, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Value::Object(mine), Value::Object(other)) => {
            for (key, value) in mine {
                compare(
                    value,
                    other.get(key).unwrap_or(&Value::Null),
                    format!("{place}.{key}"),
                    strict,
                    found,
                );
            }
            let more =
                other.iter().filter(|(key, value)| strict && !mine.contains_key(*key) && !empty(value));
            for (key, value) in more {
                let how = format!("{} is unexpected", shown(value));
                found.push(Difference { place: format!("{place}.{key}"), how });
            }
        }
        (Value::Array(mine), Value::Array(other)) if mine.len() == other.len() => {
            for (position, (value, there)) in mine.iter().zip(other).enumerate() {
                compare(value, there, format!("{place}[{position}]"), strict, found);
            }
        }
        (Value::Array(mine), Value::Array(other)) => {
            let how = format!("{} entries instead of {}", other.len(), mine.len());
            found.push(Difference { place, how });
        }
        (mine, other) if mine == other || empty(mine) && empty(other) => {}
        (mine, other) if empty(other) => {
            found.push(Difference { place, how: format!("{} is missing", shown(mine)) });
        }
        (mine, other) => {
            let how = format!("{} instead of {}", shown(other), shown(mine));
            found.push(Difference { place, how });
        }
    }
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compare_specs(ours: Value, theirs: Value, strict: bool) -> Vec<String> {
        let compare = if strict { strictly } else { differences };
        let found = compare(&ours, &theirs, "spec");
        found.into_iter().map(|Difference { place, how }| format!("{place}: {how}")).collect()
    }

    #[test]
    fn defaults_are_no_difference() {
        let ours = json!({"a": 1, "selector": {}, "list": [{"x": "y"}]});
        let theirs = json!({"a": 1, "b": 2, "list": [{"x": "y", "z": true}]});
        assert_eq!(compare_specs(ours.clone(), theirs.clone(), false), Vec::<String>::new());
        let strict = ["spec.list[0].z: true is unexpected", "spec.b: 2 is unexpected"];
        assert_eq!(compare_specs(ours, theirs, true), strict);
    }

    #[test]
    fn what_is_changed_missing_or_more_is_said_with_its_place() {
        let ours = json!({"a": 1, "b": "text", "list": [1, 2], "long": "x".repeat(100)});
        let theirs = json!({"a": 2, "list": [1], "long": "x"});
        let long = format!("spec.long: \"x\" instead of \"{}…", "x".repeat(SHOWN - 1));
        let expected = [
            "spec.a: 2 instead of 1",
            "spec.b: \"text\" is missing",
            "spec.list: 1 entries instead of 2",
            &long,
        ];
        assert_eq!(compare_specs(ours.clone(), theirs.clone(), false), expected);
        let text = in_words(&differences(&ours, &theirs, "spec"));
        assert_eq!(text, "4 differences, the first at spec.a: 2 instead of 1");
    }
}
