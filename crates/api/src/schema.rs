//! The schema of a custom resource, read once, so that judging by it is no search through JSON.

use crate::forms::{Form, form};
use crate::rule::{Rule, rule};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Schema {
    /// Such as `object`; absent where anything goes.
    pub kind: Option<String>,
    pub int_or_string: bool,
    /// The values that there are.
    pub words: Option<Vec<Value>>,
    pub required: Vec<String>,
    pub properties: Option<BTreeMap<String, Schema>>,
    /// Of the values of a map.
    pub additional: Option<Box<Schema>>,
    /// Of the elements of a list.
    pub items: Option<Box<Schema>>,
    /// Of a list that holds nothing twice: the fields by which its elements differ; none if they are compared as a whole.
    pub unique_by: Option<Vec<String>>,
    pub default: Option<Value>,
    pub form: Option<&'static Form>,
    pub is_time: bool,
    /// Elements, entries or characters.
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub rules: Vec<&'static Rule>,
}

impl Schema {
    /// What of an `openAPIV3Schema` the judgement needs. A pattern or a rule that only the API server knew would let bad objects
    /// through here, so there is none: a test reads every definition.
    pub fn of(schema: &Value) -> Schema {
        let text = |keyword: &str| schema[keyword].as_str().map(str::to_owned);
        let list = |keyword: &str| schema[keyword].as_array().into_iter().flatten();
        let texts = |keyword: &str| -> Vec<String> {
            list(keyword).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let below = |keyword: &str| schema.get(keyword).map(|schema| Box::new(Schema::of(schema)));
        let bound = |keywords: [&str; 3]| keywords.iter().find_map(|keyword| schema[*keyword].as_f64());
        Schema {
            kind: text("type"),
            int_or_string: schema.get("x-kubernetes-int-or-string").is_some(),
            words: schema["enum"].as_array().cloned(),
            required: texts("required"),
            properties: schema["properties"].as_object().map(|properties| {
                properties.iter().map(|(name, schema)| (name.clone(), Schema::of(schema))).collect()
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

    /// The schema of a field that is named here.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.as_ref()?.get(name)
    }

    /// The schema of a field, named here or one of a map.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.property(name).or(self.additional.as_deref())
    }
}
