//! The pods that are bound to each node.

use crate::kinds::Kind;
use crate::store::{Change, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Bound(BTreeMap<Arc<str>, BTreeSet<Key>>);

impl Bound {
    /// Records a change. Returns the node if the change bound a pod to it.
    pub fn on_change<'a>(&mut self, change: &'a Change) -> Option<&'a str> {
        if change.key.kind != Kind::Pod {
            return None;
        }
        let node = change.object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
        if change.deleted {
            if let Some(pods) = self.0.get_mut(node) {
                pods.remove(&change.key);
                if pods.is_empty() {
                    self.0.remove(node);
                }
            }
            return None;
        }
        if change.before.as_ref().is_some_and(|old| old["spec"]["nodeName"] == node) {
            return None;
        }
        self.0.entry(node.into()).or_default().insert(change.key.clone());
        Some(node)
    }

    pub fn on(&self, node: &str) -> impl Iterator<Item = &Key> {
        self.0.get(node).into_iter().flatten()
    }
}
