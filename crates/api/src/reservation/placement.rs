//! Where the room of a ticket may be. The shapes are those of a pod, with bounds: all of it goes into the guardian as it stands.
//!
//! What compares the labels of the pod itself (`matchLabelKeys`) is left out: a guardian has labels of its own and none of the
//! pods that it keeps the room for.

use super::limits;
use super::rules;
use super::words::{
    FieldOperator, NodeField, NodeOperator, NodePolicy, TaintEffect, TolerationOperator, WhenUnsatisfiable,
};
use crate::selector::LabelSelector;
use crate::{forms, shared_rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Near what, and far from what.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// On which nodes, by their labels and names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,

    /// Near which pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,

    /// Far from which pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// On which nodes.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeAffinity {
    /// What a node must have. In daemonSet mode this also says which nodes get a ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<NodeTerms>,

    /// What a node should have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::NODE_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub preferred_during_scheduling_ignored_during_execution: Vec<Preference>,
}

/// Terms of which one must hold.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeTerms {
    /// The terms. One of them must hold.
    #[schemars(length(min = 1, max = limits::NODE_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_selector_terms: Vec<NodeTerm>,
}

/// Conditions that must all hold. A term without any matches no node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeTerm {
    /// Conditions on the labels of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::NODE_REQUIREMENTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<NodeRequirement>,

    /// Conditions on the name of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::NODE_REQUIREMENTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_fields: Vec<FieldRequirement>,
}

/// A term that should hold.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Preference {
    /// How much it counts, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,

    /// What the node should have.
    pub preference: NodeTerm,
}

/// One condition on a label of a node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::node_requirement()))]
pub struct NodeRequirement {
    /// The key of the label.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub key: String,

    /// In, NotIn, Exists and DoesNotExist as for other labels. Gt, Lt: the label is a number above or below the value.
    pub operator: NodeOperator,

    /// At least one for In and NotIn, one number for Gt and Lt, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::NODE_VALUES),
        inner(length(max = forms::LABEL), regex(pattern = forms::LABEL_VALUE_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// One condition on the name of a node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FieldRequirement {
    /// Always metadata.name; there is no other field.
    pub key: NodeField,

    /// In: it is this node. NotIn: it is another one.
    pub operator: FieldOperator,

    /// The name of one node.
    #[schemars(
        length(min = 1, max = 1),
        inner(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// Near which pods, or far from which.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinity {
    /// What must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::POD_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub required_during_scheduling_ignored_during_execution: Vec<PodTerm>,

    /// What should hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::POD_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub preferred_during_scheduling_ignored_during_execution: Vec<WeightedPodTerm>,
}

/// Pods, and what being near them means.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodTerm {
    /// The label of nodes that says what is near: nodes with the same value are.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub topology_key: String,

    /// The labels of the pods. No pods if it is left out, all if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,

    /// The namespaces of the pods. That of the ticket if this and namespaceSelector are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::NAMESPACES),
        inner(length(max = forms::LABEL), regex(pattern = forms::DNS_LABEL_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub namespaces: Vec<String>,

    /// The labels of the namespaces of the pods. All namespaces if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// A term that should hold.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WeightedPodTerm {
    /// How much it counts, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,

    /// What should hold.
    pub pod_affinity_term: PodTerm,
}

/// Taints that do not matter.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::toleration()))]
pub struct Toleration {
    /// The key of the taint. All keys if it is left out; then operator must be Exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub key: Option<String>,

    /// Equal: the taint has this value. Exists: whatever its value is. Equal if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TolerationOperator")]
    pub operator: Option<TolerationOperator>,

    /// The value of the taint; none for Exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::LABEL), regex(pattern = forms::LABEL_VALUE_PATTERN))]
    pub value: Option<String>,

    /// The effect of the taint. All effects if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaintEffect")]
    pub effect: Option<TaintEffect>,

    /// With effect NoExecute: how long the taint does not matter. For ever if it is left out. With the keys
    /// node.kubernetes.io/not-ready and node.kubernetes.io/unreachable it says how long the ticket of a node that is not Ready
    /// stays. At most a year.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = limits::SECONDS))]
    pub toleration_seconds: Option<i64>,
}

/// How evenly tickets are spread.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spread()))]
pub struct Spread {
    /// By how many the fullest part may exceed the emptiest. 1 to 1000.
    #[schemars(range(min = 1, max = limits::SKEW))]
    pub max_skew: u32,

    /// The label of nodes that says what a part is: nodes with the same value are one.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub topology_key: String,

    /// What happens if it cannot be even. DoNotSchedule: the ticket waits. ScheduleAnyway: it is reserved where it is least uneven.
    pub when_unsatisfiable: WhenUnsatisfiable,

    /// The pods that are counted. The guardians of the same order if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,

    /// With DoNotSchedule: at least so many parts are counted, whether there are nodes in them or not. 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::SKEW))]
    pub min_domains: Option<u32>,

    /// Whether nodes that nodeSelector and affinity exclude are left out of the count. Honor if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodePolicy")]
    pub node_affinity_policy: Option<NodePolicy>,

    /// Whether nodes with taints that are not tolerated are left out of the count. Ignore if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodePolicy")]
    pub node_taints_policy: Option<NodePolicy>,
}
