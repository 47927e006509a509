//! Label selectors: validation and matching.

use super::{invalid_each, items, metadata, names, text};
use crate::server::refusal::Wrong;
use serde_json::{Map, Value};

pub fn check(selector: &Value, field: &str, found: &mut Vec<Wrong>) {
    metadata::labels(&selector["matchLabels"], &format!("{field}.matchLabels"), found);
    for (at, requirement) in items(selector, "matchExpressions").enumerate() {
        let field = format!("{field}.matchExpressions[{at}]");
        let values = items(requirement, "values").count();
        operator(requirement, &field, values, found);
        let key = text(requirement, "key");
        invalid_each(found, &format!("{field}.key"), key, names::qualified(key));
        for (at, value) in items(requirement, "values").filter_map(Value::as_str).enumerate() {
            invalid_each(found, &format!("{field}.values[{at}]"), value, names::label_value(value));
        }
    }
}

fn operator(requirement: &Value, field: &str, values: usize, found: &mut Vec<Wrong>) {
    match text(requirement, "operator") {
        "In" | "NotIn" if values == 0 => {
            let words = "must be specified when `operator` is 'In' or 'NotIn'";
            found.push(Wrong::required(format!("{field}.values"), words));
        }
        "Exists" | "DoesNotExist" if values > 0 => {
            let words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            found.push(Wrong::forbidden(format!("{field}.values"), words));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let words = "not a valid selector operator";
            found.push(Wrong::invalid(format!("{field}.operator"), &other.into(), words));
        }
    }
}

/// Whether the selector is valid.
pub fn is_sound(selector: &Value) -> bool {
    let mut found = Vec::new();
    check(selector, "", &mut found);
    found.is_empty()
}

pub fn is_empty(selector: &Value) -> bool {
    selector["matchLabels"].as_object().is_none_or(Map::is_empty)
        && items(selector, "matchExpressions").next().is_none()
}

/// Whether the selector matches these labels. A missing selector matches nothing, an empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let mut pairs = selector["matchLabels"].as_object().into_iter().flatten();
    pairs.all(|(key, value)| labels.get(key) == Some(value))
        && items(selector, "matchExpressions").all(|requirement| meets(requirement, labels))
}

fn meets(requirement: &Value, labels: &Value) -> bool {
    let label = labels.get(text(requirement, "key"));
    let listed = label.is_some_and(|label| items(requirement, "values").any(|value| value == label));
    match text(requirement, "operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// The selector with its fields in the order of the API server's type.
pub fn shown(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    super::in_order(selector, &["matchLabels", "matchExpressions"])
}
