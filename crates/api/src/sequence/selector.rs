//! Label selectors, in the shape that Kubernetes has everywhere, but with what it checks elsewhere checked here too.

use super::limits;
use super::rules;
use crate::crd::map_of;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The labels that a pod must have. All terms must hold; there must be at least one.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = rules::selector()))]
pub struct LabelSelector {
    /// Labels that the pod must have, with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "match_labels")]
    pub match_labels: BTreeMap<String, String>,

    /// Further conditions on the labels of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::SELECTOR_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<Requirement>,
}

/// One condition on a label.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::requirement()))]
pub struct Requirement {
    /// The key of the label.
    #[schemars(
        length(max = limits::QUALIFIED_NAME),
        regex(pattern = limits::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = rules::label_key())
    )]
    pub key: String,

    /// In: the label has one of the values. NotIn: it has none of them, or there is no such label. Exists: there is
    /// such a label. DoesNotExist: there is none.
    pub operator: SelectorOperator,

    /// The values for In and NotIn, at least one; none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::SELECTOR_VALUES),
        inner(length(max = limits::LABEL), regex(pattern = limits::LABEL_VALUE_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

fn match_labels(_: &mut SchemaGenerator) -> Schema {
    map_of(limits::SELECTOR_TERMS, label_value(), rules::label_keys())
}

/// The schema of the value of a label.
pub(super) fn label_value() -> Schema {
    json_schema!({ "type": "string", "maxLength": limits::LABEL, "pattern": limits::LABEL_VALUE_PATTERN })
}
