//! The eligible nodes of a DaemonSet, and the pod for a node.

use crate::actors::common::placement::{is_repelled, selects_node};
use crate::actors::common::{pods, template, text};
use crate::store::{Change, Key, Stored};
use serde_json::{Value, json};

pub const HASH: &str = "controller-revision-hash";
const GENERATION: &str = "pod-template-generation";
/// The annotation where the server counts the versions of the template.
pub const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// Taints that pods of a DaemonSet tolerate, so that they stay on nodes with problems.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Additional toleration of pods that use the host network.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Whether a pod belongs on a node, and whether an existing one may stay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NodeFit {
    Wanted,
    /// A taint repels new pods; existing ones may stay.
    Tolerated,
    Unwanted,
}

/// The spec of a set's pods, before they are pinned to a node.
pub fn spec(set: &Value) -> Value {
    let mut spec = set["spec"]["template"]["spec"].clone();
    let on_host = (spec["hostNetwork"] == true).then_some(TOLERATED_ON_HOST);
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let toleration = json!({ "key": key, "operator": "Exists", "effect": effect });
        if let Some(list) = spec["tolerations"].as_array_mut() {
            // An existing toleration with another `tolerationSeconds` is replaced.
            let same = |is: &Value| {
                ["key", "operator", "effect"].iter().all(|field| is[*field] == toleration[*field])
            };
            match list.iter_mut().find(|is| same(is)) {
                Some(is) => *is = toleration,
                None => list.push(toleration),
            }
        }
    }
    spec
}

pub fn node_fit(spec: &Value, node: &Value) -> NodeFit {
    let name = text(&spec["nodeName"]);
    if !name.is_empty() && name != text(&node["metadata"]["name"]) || !selects_node(spec, node) {
        return NodeFit::Unwanted;
    }
    if !is_repelled(spec, node, &["NoSchedule", "NoExecute"]) {
        NodeFit::Wanted
    } else if is_repelled(spec, node, &["NoExecute"]) {
        NodeFit::Unwanted
    } else {
        NodeFit::Tolerated
    }
}

/// The pod for a node, not created yet.
pub fn new_pod(key: &Key, set: &Stored, spec: &Value, node: &str, hash: &str) -> Value {
    let mut pod = template::pod(&set["spec"]["template"], key, set);
    pod["metadata"]["generateName"] = format!("{}-", key.name).into();
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"][HASH] = hash.into();
    if let Some(generation) = set["metadata"]["annotations"][GENERATION_ANNOTATION].as_str() {
        pod["metadata"]["labels"][GENERATION] = generation.into();
    }
    pod["spec"] = spec.clone();
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
    pod
}

/// The node that a pod is bound or pinned to.
pub fn node_of(pod: &Value) -> Option<&str> {
    let on = pods::node(pod);
    if !on.is_empty() {
        return Some(on);
    }
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let fields = |term: &'_ Value| term["matchFields"].as_array().cloned().unwrap_or_default();
    let terms = required["nodeSelectorTerms"].as_array()?;
    let at =
        terms.iter().position(|term| fields(term).iter().any(|field| field["key"] == "metadata.name"))?;
    let field = terms[at]["matchFields"].as_array()?.iter().find(|field| field["key"] == "metadata.name")?;
    field["values"][0].as_str()
}

pub fn hash_label(pod: &Value) -> &str {
    text(&pod["metadata"]["labels"][HASH])
}

/// Whether a change of a node can affect where pods belong. Changes of its status cannot.
pub fn matters(change: &Change) -> bool {
    let Some(before) = &change.before else { return true };
    change.deleted
        || before["metadata"]["labels"] != change.object["metadata"]["labels"]
        || before["spec"]["taints"] != change.object["spec"]["taints"]
}
