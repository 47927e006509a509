//! Nodes that are closed to members of sequences that go by nodes: those that a pod could run on wait for their agents.

use crate::store::Change;
use rollcall_core::sequence::keys;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that are named.
const MOST_NAMES: usize = 3;

/// The nodes as they are now.
#[derive(Default)]
pub struct Closed(BTreeMap<String, Node>);

struct Node {
    labels: Value,
    /// Our own ones by their keys.
    taints: BTreeSet<String>,
}

impl Closed {
    pub fn node(&mut self, change: &Change) {
        self.0.remove(&*change.key.name);
        let Some(node) = change.after() else { return };
        let taints = list(node, "/spec/taints").filter_map(|taint| taint["key"].as_str());
        let taints = taints.filter(|key| keys::is_key(key)).map(str::to_owned).collect();
        let labels = node["metadata"]["labels"].clone();
        self.0.insert(change.key.name.to_string(), Node { labels, taints });
    }

    /// What a pod waits for that fits some nodes which are all closed to it.
    pub fn keeps_off(&self, pod: &Value) -> Option<String> {
        let avoided = avoided(pod);
        let closed =
            self.0.iter().filter(|(_, node)| node.is_chosen_by(pod) && node.is_closed_to(pod, &avoided));
        let names: Vec<&str> = closed.map(|(name, _)| name.as_str()).collect();
        let more = names.len().saturating_sub(MOST_NAMES);
        let shown = names[..names.len() - more].join(", ");
        match (names.len(), more) {
            (0, _) => None,
            (1, _) => Some(format!("waits for node {shown} to open")),
            (_, 0) => Some(format!("waits for one of the nodes {shown} to open")),
            (_, more) => Some(format!("waits for one of the nodes {shown} and {more} more to open")),
        }
    }
}

impl Node {
    fn is_chosen_by(&self, pod: &Value) -> bool {
        let wanted = pod["spec"]["nodeSelector"].as_object();
        wanted.into_iter().flatten().all(|(key, value)| self.labels[key] == *value)
    }

    fn is_closed_to(&self, pod: &Value, avoided: &BTreeSet<&str>) -> bool {
        let tolerated = |key: &String| {
            list(pod, "/spec/tolerations")
                .any(|is| is["operator"] == "Exists" && (is["key"].is_null() || is["key"] == **key))
        };
        avoided.iter().any(|key| self.labels.get(*key).is_some())
            || self.taints.iter().any(|key| !tolerated(key))
    }
}

/// The labels of ours that a pod stays away from.
fn avoided(pod: &Value) -> BTreeSet<&str> {
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let expressions = list(pod, terms).flat_map(|term| list(term, "/matchExpressions"));
    let absent =
        expressions.filter(|is| is["operator"] == "DoesNotExist").filter_map(|is| is["key"].as_str());
    absent.filter(|key| keys::is_key(key) || *key == keys::UNSEEN).collect()
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}
