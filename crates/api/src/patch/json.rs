//! The operations of JSON patches (RFC 6902).

use serde_json::{Value, json};

/// The operations of one patch; empty if there is nothing to change.
pub type Operations = Vec<Value>;

pub fn test(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "test", "path": path, "value": value.into() })
}

pub fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "add", "path": path, "value": value.into() })
}

pub fn replace(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "replace", "path": path, "value": value.into() })
}

pub fn remove(path: &str) -> Value {
    json!({ "op": "remove", "path": path })
}

/// Appends to a list, or creates the list if it does not exist.
pub fn append(list: &str, exists: bool, items: Vec<Value>) -> Operations {
    match exists {
        _ if items.is_empty() => Operations::new(),
        true => items.into_iter().map(|item| add(&format!("{list}/-"), item)).collect(),
        false => vec![add(list, items)],
    }
}

/// Escapes a key as a part of a path.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
