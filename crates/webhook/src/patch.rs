//! JSON patches (RFC 6902) that only add.

use serde_json::{Value, json};

/// The operations of a patch; none of them if there is nothing to do.
pub type Patch = Vec<Value>;

pub fn add(path: &str, value: Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

/// A key as a part of a path.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
