//! Nodes, and the requirements of pods and tickets that no node satisfies.

use crate::commands::lint::field::Field;
use crate::commands::lint::manifests::{Manifests, Object};
use rollcall_api::watch::NodeObject;
use rollcall_core::node::{Node, NodeOperator, NodeRequirement, Placement, Term};
use rollcall_core::selector;
use rollcall_sim::kinds::Kind;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Nodes in the files. All are taken to be Ready, because manifests do not decide that.
pub fn nodes(all: &Manifests) -> Vec<Node> {
    let node = |object: &Object| {
        let metadata = json!({ "name": object.name, "labels": object.value["metadata"]["labels"] });
        let taints = json!({ "taints": object.value["spec"]["taints"] });
        let read: NodeObject =
            serde_json::from_value(json!({ "metadata": metadata, "spec": taints })).ok()?;
        let mut node = read.facts();
        node.conditions.insert("Ready".into());
        Some(node)
    };
    all.of_kind(Kind::Node).filter_map(node).collect()
}

/// The subject of a sentence about no node.
pub fn no_node(all: &Manifests) -> &'static str {
    if all.live { "no node" } else { "no node in the files" }
}

/// The part of a node selector and a required node affinity that no node satisfies.
pub struct Unmet<'a> {
    /// The field that contains it.
    pub field: Field<'a>,
    /// The predicate of a sentence about no node, such as `has disktype=ssd, which the nodeSelector of Order/gpu requires`.
    pub text: String,
}

impl<'a> Unmet<'a> {
    /// Returns what none of the nodes satisfies; `None` if a node satisfies everything. `spec` is the field with the placement.
    pub fn find(spec: &Field<'a>, placement: &Placement, nodes: &[&Node]) -> Option<Unmet<'a>> {
        let is_unmet = |part: &Term| !nodes.iter().any(|node| part.matches(node));
        let unmet = |field: &str, text: String| Some(Unmet { field: spec.get(field), text });
        let whose = spec.object.full_name();
        let selector = Term { labels: equalities(placement), name: Vec::new() };
        if let Some(part) = parts(&selector).find(is_unmet) {
            return unmet("nodeSelector", format!("has {part}, which the nodeSelector of {whose} requires"));
        }
        // Every term has its own unmet part, because one satisfied term is enough.
        let (mut missing, mut by_both) = (BTreeSet::new(), false);
        for term in placement.terms.as_ref()?.iter().filter(|term| !term.is_empty()) {
            let both = Term { labels: [&*selector.labels, &*term.labels].concat(), name: term.name.clone() };
            if let Some(part) = parts(term).find(is_unmet) {
                missing.insert(part.to_string());
            } else if is_unmet(&both) {
                missing.insert(both.to_string());
                by_both = true;
            } else {
                return None;
            }
        }
        let missing = missing.into_iter().collect::<Vec<_>>().join(" or ");
        let required_by = match by_both {
            true => format!("the nodeSelector and the node affinity of {whose} require"),
            false => format!("the node affinity of {whose} requires"),
        };
        match missing.is_empty() {
            true => unmet("affinity", format!("matches the node affinity of {whose}: its terms are empty")),
            false => unmet("affinity", format!("has {missing}, which {required_by}")),
        }
    }
}

/// The labels of the node selector as requirements.
fn equalities(placement: &Placement) -> Vec<NodeRequirement> {
    let equality = |(key, value): &(Arc<str>, Arc<str>)| {
        let operator = NodeOperator::Plain(selector::Operator::In(vec![value.clone()]));
        NodeRequirement { key: key.clone(), operator }
    };
    placement.node_selector.iter().map(equality).collect()
}

/// Each requirement of a term by itself, and then all of them together. An empty term has no parts.
fn parts(term: &Term) -> impl Iterator<Item = Term> {
    let label = |one: &NodeRequirement| Term { labels: vec![one.clone()], name: Vec::new() };
    let name = |one: &NodeRequirement| Term { labels: Vec::new(), name: vec![one.clone()] };
    let whole = Some(term.clone()).filter(|term| !term.is_empty());
    term.labels.iter().map(label).chain(term.name.iter().map(name)).chain(whole)
}
