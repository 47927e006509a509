//! Placement of a ticket. The fields are those of a pod, with bounds, and are copied to the guardian unchanged.
//!
//! Fields that refer to the labels of the pod itself (`matchLabelKeys`) are not supported. A guardian does not have the labels of
//! the pods that will claim the ticket.

use super::limits;
use super::rules;
use super::words::{
    FieldOperator, NodeField, NodeOperator, NodePolicy, TaintEffect, TolerationOperator, WhenUnsatisfiable,
};
use crate::selector::LabelSelector;
use crate::{forms, shared_rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Node and pod affinity of a ticket, with the same meaning as for a pod.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Node affinity: rules on the labels and names of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,

    /// Pod affinity: pods near which the capacity is reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,

    /// Pod anti-affinity: pods near which the capacity is not reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// Node affinity: required and preferred rules.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeAffinity {
    /// Rules that a node must satisfy. With daemonSet, they also determine which nodes get a ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<NodeTerms>,

    /// Rules that a node should satisfy. The scheduler prefers the nodes with the highest sum of weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::NODE_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub preferred_during_scheduling_ignored_during_execution: Vec<Preference>,
}

/// A list of node selector terms. At least one of them must match.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeTerms {
    /// Node selector terms. A node matches if at least one term matches.
    #[schemars(length(min = 1, max = limits::NODE_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_selector_terms: Vec<NodeTerm>,
}

/// Requirements that must all be satisfied. An empty term matches no node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeTerm {
    /// Requirements on the labels of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::NODE_REQUIREMENTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<NodeRequirement>,

    /// Requirements on the name of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::NODE_REQUIREMENTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_fields: Vec<FieldRequirement>,
}

/// A preferred node selector term with its weight.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Preference {
    /// Weight of the term, from 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,

    /// Node selector term that a node should match.
    pub preference: NodeTerm,
}

/// A requirement on a label of a node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::node_requirement()))]
pub struct NodeRequirement {
    /// Key of the label.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub key: String,

    /// Operator: In, NotIn, Exists, DoesNotExist, Gt or Lt. Gt and Lt compare the label as an integer with the value.
    pub operator: NodeOperator,

    /// Values to compare with: at least one for In and NotIn, one integer for Gt and Lt, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::NODE_VALUES),
        inner(length(max = forms::LABEL), regex(pattern = forms::LABEL_VALUE_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// A requirement on the name of a node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FieldRequirement {
    /// Field of the node. Always metadata.name.
    pub key: NodeField,

    /// In: the node has this name. NotIn: the node has another name.
    pub operator: FieldOperator,

    /// Name of one node.
    #[schemars(
        length(min = 1, max = 1),
        inner(length(max = forms::SUBDOMAIN), regex(pattern = forms::SUBDOMAIN_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub values: Vec<String>,
}

/// Pod affinity or anti-affinity: required and preferred terms.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinity {
    /// Terms that must be satisfied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::POD_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub required_during_scheduling_ignored_during_execution: Vec<PodTerm>,

    /// Terms that should be satisfied. The scheduler prefers the nodes with the highest sum of weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::POD_TERMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub preferred_during_scheduling_ignored_during_execution: Vec<WeightedPodTerm>,
}

/// A set of pods, and the topology that defines what is near them.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodTerm {
    /// Label key of nodes. Nodes with the same value of this label belong to the same topology domain.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub topology_key: String,

    /// Selector of pods by label. If omitted, it selects no pods; if empty, all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,

    /// Namespaces of the pods. If namespaces and namespaceSelector are both omitted, the namespace of the ticket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::NAMESPACES),
        inner(length(max = forms::LABEL), regex(pattern = forms::DNS_LABEL_PATTERN)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub namespaces: Vec<String>,

    /// Selector of namespaces by label. If empty, it selects all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// A preferred pod affinity term with its weight.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WeightedPodTerm {
    /// Weight of the term, from 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: u32,

    /// Pod affinity term that should be satisfied.
    pub pod_affinity_term: PodTerm,
}

/// A toleration: taints of a node that the ticket tolerates.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::toleration()))]
pub struct Toleration {
    /// Key of the taint. If omitted, all keys match, and the operator must be Exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub key: Option<String>,

    /// Equal: the taint must have the value of this toleration. Exists: any value matches. Defaults to Equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TolerationOperator")]
    pub operator: Option<TolerationOperator>,

    /// Value of the taint. Must be empty if the operator is Exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = forms::LABEL), regex(pattern = forms::LABEL_VALUE_PATTERN))]
    pub value: Option<String>,

    /// Effect of the taint. If omitted, all effects match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaintEffect")]
    pub effect: Option<TaintEffect>,

    /// Number of seconds that the taint is tolerated, from 0 to 31536000 (a year). Requires the effect NoExecute. If
    /// omitted, the taint is tolerated indefinitely. With the key node.kubernetes.io/not-ready or node.kubernetes.io/unreachable,
    /// this is how long the ticket of a node that is not Ready is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = limits::SECONDS))]
    pub toleration_seconds: Option<i64>,
}

/// A topology spread constraint: how evenly tickets are spread over topology domains.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spread()))]
pub struct Spread {
    /// Maximum permitted difference between the numbers of pods in any two topology domains. From 1 to 1000.
    #[schemars(range(min = 1, max = limits::SKEW))]
    pub max_skew: u32,

    /// Label key of nodes. Nodes with the same value of this label form one topology domain.
    #[schemars(
        length(max = forms::QUALIFIED_NAME),
        regex(pattern = forms::QUALIFIED_NAME_PATTERN),
        extend("x-kubernetes-validations" = shared_rules::label_key())
    )]
    pub topology_key: String,

    /// Handling of a ticket that would violate the constraint. DoNotSchedule: the ticket stays Pending. ScheduleAnyway: the
    /// capacity is reserved where the skew is smallest.
    pub when_unsatisfiable: WhenUnsatisfiable,

    /// Selector of the pods that are counted. If omitted, the guardians of the same Order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,

    /// Minimum number of eligible topology domains, from 1 to 1000. Requires DoNotSchedule. If fewer domains have eligible nodes,
    /// the missing domains count as domains without pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::SKEW))]
    pub min_domains: Option<u32>,

    /// Honor: nodes that nodeSelector or the node affinity exclude are not counted. Ignore: all nodes are counted. Defaults to
    /// Honor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodePolicy")]
    pub node_affinity_policy: Option<NodePolicy>,

    /// Honor: nodes with taints that are not tolerated are not counted. Ignore: all nodes are counted. Defaults to Ignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodePolicy")]
    pub node_taints_policy: Option<NodePolicy>,
}
