//! What the server refuses.

use super::refusal::Wrong;
use crate::kinds::Kind;
use serde_json::Value;

pub fn created(_kind: Kind, _object: &Value) -> Vec<Wrong> {
    Vec::new()
}

pub fn updated(_kind: Kind, _old: &Value, _new: &Value, _subresource: &str) -> Vec<Wrong> {
    Vec::new()
}
