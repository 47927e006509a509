//! Adapts a derived definition to the API server and to `kubectl explain`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::{Schema, json_schema};
use serde::Serialize;
use serde_json::Value;

/// The schema of a map from strings to `value` with at most `max` entries.
pub fn map_of(max: usize, value: Schema, rules: impl Serialize) -> Schema {
    let rules = serde_json::to_value(rules).expect("rules are plain data");
    json_schema!({
        "type": "object",
        "maxProperties": max,
        "additionalProperties": value,
        "x-kubernetes-validations": rules,
    })
}

/// Rewrites parts of the derived schema that Kubernetes tolerates but that are inconvenient for users:
/// - Removes `nullable`. A null in a manifest then means "not set", also for `has()` in CEL, as in the built-in kinds.
/// - Joins the source lines of descriptions to paragraphs.
/// - Replaces integer formats that Kubernetes does not know, and about which it warns.
pub fn tidy(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a definition is plain data");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        tidy_schema(&mut version["schema"]["openAPIV3Schema"]);
    }
    serde_json::from_value(value).expect("tidying keeps it a definition")
}

fn tidy_schema(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("nullable");
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = paragraphs(description);
    }
    if let Some(Value::Array(words)) = fields.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(format) = fields.get_mut("format") {
        match format.as_str() {
            Some("uint32" | "uint8" | "uint16") => {
                *format = "int32".into();
                // The lower bound of an unsigned type; zero is the only bound that the derive adds by itself.
                fields.entry("minimum").or_insert(0.into());
            }
            Some("uint64") => *format = "int64".into(),
            _ => {}
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(child) = fields.get_mut(name) {
            tidy_schema(child);
        }
    }
    for child in
        fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|p| p.values_mut())
    {
        tidy_schema(child);
    }
}

fn paragraphs(text: &str) -> String {
    let joined =
        text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.collect::<Vec<_>>().join("\n\n")
}
