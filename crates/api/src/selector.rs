//! Label selectors in the usual form of Kubernetes. Their schema also contains the checks that Kubernetes makes
//! elsewhere.

use crate::crd::map_of;
use crate::forms;
use crate::shared_rules as rules;
use rollcall_core::selector as core;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of labels in `matchLabels` or `nodeSelector`, and of expressions in `matchExpressions`.
pub const TERMS: usize = 32;
/// Maximum number of values of one expression.
pub const VALUES: usize = 100;

/// The labels that a pod must have. All terms must hold.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels that the pod must have, with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub match_labels: BTreeMap<String, String>,

    /// Further conditions on the labels of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<Requirement>,
}

/// One condition on a label.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::requirement()))]
pub struct Requirement {
    /// The key of the label.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = rules::label_key())
    )]
    pub key: String,

    /// In: the label has one of the values. NotIn: the label has none of the values, or does not exist. Exists: the
    /// label exists. DoesNotExist: the label does not exist.
    pub operator: SelectorOperator,

    /// The values for In and NotIn, at least one. Must be empty for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = VALUES),
        inner(length(max = forms::LABEL), regex(pattern = forms::LABEL_VALUE_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// The comparison of a label with values.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// The schema of a map of labels.
pub fn labels(_: &mut SchemaGenerator) -> Schema {
    map_of(TERMS, label_value(), rules::label_keys())
}

fn label_value() -> Schema {
    json_schema!({ "type": "string", "maxLength": forms::LABEL, "pattern": forms::LABEL_VALUE_PATTERN })
}

/// Converts a Kubernetes selector to a selector of the core.
pub fn selector_facts(selector: &LabelSelector) -> core::Selector {
    let LabelSelector { match_labels, match_expressions } = selector;
    let pairs = match_labels.iter().map(|(key, value)| core::Requirement {
        key: key.as_str().into(),
        operator: core::Operator::In(vec![value.as_str().into()]),
    });
    let expressions = match_expressions.iter().map(|requirement| {
        let values = requirement.values.iter().map(|value| value.as_str().into()).collect();
        let operator = match requirement.operator {
            SelectorOperator::In => core::Operator::In(values),
            SelectorOperator::NotIn => core::Operator::NotIn(values),
            SelectorOperator::Exists => core::Operator::Exists,
            SelectorOperator::DoesNotExist => core::Operator::DoesNotExist,
        };
        core::Requirement { key: requirement.key.as_str().into(), operator }
    });
    core::Selector { requirements: pairs.chain(expressions).collect() }
}
