//! JSON patches (RFC 6902) that only add.

use serde_json::{Value, json};

/// The operations of a patch; none of them if there is nothing to do.
pub type Patch = Vec<Value>;

pub fn add(path: &str, value: Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

/// Adds to the end of a list, or makes it where there is none.
pub fn append(list: &str, exists: bool, items: Vec<Value>) -> Patch {
    match exists {
        _ if items.is_empty() => Patch::new(),
        true => items.into_iter().map(|item| add(&format!("{list}/-"), item)).collect(),
        false => vec![add(list, items.into())],
    }
}

/// A key as a part of a path.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
