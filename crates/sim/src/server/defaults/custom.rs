//! Defaults of custom resources, from their definitions.

use rollcall_api::check;
use rollcall_api::definition::Custom;
use rollcall_api::schema::Schema;
use serde_json::{Value, json};

pub fn fill(custom: Custom, object: &mut Value) {
    fill_part(custom, object, "spec");
    fill_part(custom, object, "status");
    // The other fields have the same form as in all kinds.
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    super::shape::shape("ObjectMeta", &mut object["metadata"]);
    let known = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata" | "spec" | "status");
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, value| known(name) && !value.is_null());
    }
}

/// Like [`fill`], for `spec` or `status` only.
pub fn fill_part(custom: Custom, object: &mut Value, part: &str) {
    if let (Some(schema), Some(value)) = (custom.schema().property(part), object.get_mut(part)) {
        prune(schema, value);
        check::normalize(schema, value);
    }
}

/// Drops fields that are not in the definition.
fn prune(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = &schema.properties {
                fields.retain(|name, value| {
                    let known = properties.get(name);
                    known.into_iter().for_each(|schema| prune(schema, value));
                    known.is_some()
                });
            } else if let Some(each) = &schema.additional {
                fields.iter_mut().for_each(|(_, value)| prune(each, value));
            }
        }
        Value::Array(items) => {
            if let Some(each) = &schema.items {
                items.iter_mut().for_each(|item| prune(each, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
