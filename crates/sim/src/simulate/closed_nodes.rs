//! Nodes that a sequence in Node scope blocks until their agents are ready.

use crate::actors::common::placement::{is_repelled, selects_node};
use crate::store::Change;
use rollcall_core::sequence::keys;
use serde_json::Value;
use std::collections::BTreeMap;

/// Limit of nodes that are named in a message.
const MOST_NAMES: usize = 3;

/// The current nodes.
#[derive(Default)]
pub struct ClosedNodes(BTreeMap<String, NodeViews>);

/// A node as it is, and as it would be without Rollcall's labels and taints.
struct NodeViews {
    now: Value,
    without_marks: Value,
}

impl ClosedNodes {
    pub fn update(&mut self, change: &Change) {
        self.0.remove(&*change.key.name);
        let Some(node) = change.after() else { return };
        let (now, mut without_marks) = (Value::clone(node), Value::clone(node));
        if let Some(labels) = without_marks.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| !keys::is_key(key) && key != keys::UNSEEN);
        }
        if let Some(taints) = without_marks.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| !taint["key"].as_str().is_some_and(keys::is_key));
        }
        self.0.insert(change.key.name.to_string(), NodeViews { now, without_marks });
    }

    /// Describes the nodes that a pod waits for: those that would fit if Rollcall did not block them.
    pub fn awaited_by(&self, pod: &Value) -> Option<String> {
        let spec = &pod["spec"];
        let closed =
            self.0.iter().filter(|(_, node)| fits(spec, &node.without_marks) && !fits(spec, &node.now));
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

fn fits(spec: &Value, node: &Value) -> bool {
    selects_node(spec, node) && !is_repelled(spec, node, &["NoSchedule"])
}
