//! Defaults of `PodSequence`, taken from its definition.

use rollcall_api::check;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The schema of the whole object.
pub fn sequence_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let mut crd = serde_json::to_value(rollcall_api::sequence::crd()).unwrap_or_default();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
    });
    &SCHEMA
}

pub fn fill(object: &mut Value) {
    for part in ["spec", "status"] {
        if let Some(value) = object.get_mut(part) {
            let schema = &sequence_schema()["properties"][part];
            prune(schema, value);
            check::normalize(schema, value);
        }
    }
    // The rest of the object has the form of every other.
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    super::shape::shape("ObjectMeta", &mut object["metadata"]);
    let known = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata" | "spec" | "status");
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, value| known(name) && !value.is_null());
    }
}

/// Drops what the definition does not know.
fn prune(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema["properties"].as_object() {
                fields.retain(|name, _| properties.contains_key(name));
                fields.iter_mut().for_each(|(name, value)| prune(&properties[name], value));
            } else if let Some(each) = schema.get("additionalProperties") {
                values(fields).for_each(|value| prune(each, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune(&schema["items"], item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn values(fields: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    fields.iter_mut().map(|(_, value)| value)
}
