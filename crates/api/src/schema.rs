//! The schema of a custom resource, parsed once, so that checks do not search through JSON.

use crate::forms::{Form, form};
use crate::rule::{Rule, rule};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Schema {
    /// The type, such as `object`; `None` if any type is allowed.
    pub kind: Option<String>,
    pub int_or_string: bool,
    /// The allowed values.
    pub words: Option<Vec<Value>>,
    pub required: Vec<String>,
    pub properties: Option<BTreeMap<String, Schema>>,
    /// The schema of the values of a map.
    pub additional: Option<Box<Schema>>,
    /// The schema of the elements of a list.
    pub items: Option<Box<Schema>>,
    /// Set for a list with unique elements: the fields that identify an element; empty if elements are compared as a
    /// whole.
    pub unique_by: Option<Vec<String>>,
    pub default: Option<Value>,
    pub form: Option<&'static Form>,
    pub is_time: bool,
    /// Bounds of the number of elements, entries or characters.
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub rules: Vec<&'static Rule>,
}

impl Schema {
    /// Parses the parts of an `openAPIV3Schema` that validation needs. Panics if a pattern or a rule has no Rust
    /// equivalent, because our checks would then accept invalid objects; a test parses every definition.
    pub fn from_json(schema: &Value) -> Schema {
        let text = |keyword: &str| schema[keyword].as_str().map(str::to_owned);
        let list = |keyword: &str| schema[keyword].as_array().into_iter().flatten();
        let texts = |keyword: &str| -> Vec<String> {
            list(keyword).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let below = |keyword: &str| schema.get(keyword).map(|schema| Box::new(Schema::from_json(schema)));
        let bound = |keywords: [&str; 3]| keywords.iter().find_map(|keyword| schema[*keyword].as_f64());
        Schema {
            kind: text("type"),
            int_or_string: schema.get("x-kubernetes-int-or-string").is_some(),
            words: schema["enum"].as_array().cloned(),
            required: texts("required"),
            properties: schema["properties"].as_object().map(|properties| {
                properties.iter().map(|(name, schema)| (name.clone(), Schema::from_json(schema))).collect()
            }),
            additional: below("additionalProperties"),
            items: below("items"),
            unique_by: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => Some(Vec::new()),
                Some("map") => Some(texts("x-kubernetes-list-map-keys")),
                _ => None,
            },
            default: schema.get("default").cloned(),
            form: schema["pattern"]
                .as_str()
                .map(|pattern| form(pattern).expect("every pattern is in forms.rs")),
            is_time: schema["format"] == "date-time",
            at_least: bound(["minItems", "minProperties", "minLength"]),
            at_most: bound(["maxItems", "maxProperties", "maxLength"]),
            minimum: schema["minimum"].as_f64(),
            maximum: schema["maximum"].as_f64(),
            rules: list("x-kubernetes-validations")
                .map(|written| rule(written).expect("every rule is in a table of rules"))
                .collect(),
        }
    }

    /// The schema of a field in `properties`.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.as_ref()?.get(name)
    }

    /// The schema of a field in `properties` or of an entry of a map.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.property(name).or(self.additional.as_deref())
    }
}
