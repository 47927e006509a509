//! Nodes that are closed to members of sequences that go by nodes: those that a pod could run on wait for their agents.

use crate::actors::common::placement::{is_repelled, selects_node};
use crate::store::Change;
use rollcall_core::sequence::keys;
use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes that are named.
const MOST_NAMES: usize = 3;

/// The nodes as they are now.
#[derive(Default)]
pub struct Closed(BTreeMap<String, Node>);

/// A node as it is, and as it would be with nothing of ours on it.
struct Node {
    now: Value,
    open: Value,
}

impl Closed {
    pub fn node(&mut self, change: &Change) {
        self.0.remove(&*change.key.name);
        let Some(node) = change.after() else { return };
        let (now, mut open) = (Value::clone(node), Value::clone(node));
        if let Some(labels) = open.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| !keys::is_key(key) && key != keys::UNSEEN);
        }
        if let Some(taints) = open.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| !taint["key"].as_str().is_some_and(keys::is_key));
        }
        self.0.insert(change.key.name.to_string(), Node { now, open });
    }

    /// What a pod waits for that fits some nodes which are all closed to it.
    pub fn keeps_off(&self, pod: &Value) -> Option<String> {
        let spec = &pod["spec"];
        let closed = self.0.iter().filter(|(_, node)| lets_in(spec, &node.open) && !lets_in(spec, &node.now));
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

fn lets_in(spec: &Value, node: &Value) -> bool {
    selects_node(spec, node) && !is_repelled(spec, node, &["NoSchedule"])
}
