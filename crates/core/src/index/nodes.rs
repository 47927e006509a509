//! Changes to nodes.

use super::{Index, Object};
use crate::{
    cluster::Refusal,
    kind::Kind,
    node::{Drivers, Node},
};
use std::sync::Arc;

impl Index {
    pub(super) fn apply_node(&mut self, mut node: Node) {
        let known = self.cluster.node(&node.name).map(|known| known.version);
        if !self.cluster.freshness.admits(Kind::Node, Some(node.uid), known, node.version) {
            return;
        }
        if let Some(known) = self.cluster.node(&node.name) {
            // Heartbeats change nothing that counts, and are most of the events of a node.
            let version = std::mem::replace(&mut node.version, known.version);
            if *known == node {
                return self.cluster.set_node_version(&node.name, version);
            }
            node.version = version;
        }
        self.change_node(node.name.clone(), Some(node));
    }

    pub(super) fn delete_node(&mut self, name: &Arc<str>) {
        if let Some(node) = self.cluster.node(name) {
            let uid = node.uid;
            self.cluster.freshness.add_tombstone(uid);
            self.change_node(name.clone(), None);
        }
    }

    fn change_node(&mut self, name: Arc<str>, new: Option<Node>) {
        let moved = self.cluster.pods_moved_by(&name, new.as_ref());
        moved.iter().for_each(|pod| self.pod_leaves(*pod));
        let old = self.cluster.set_node(&name, new);
        let new = self.cluster.node(&name);
        let another = old.as_ref().map(|old| old.uid) != new.map(|new| new.uid);
        self.sequences.track_marks(old.as_ref(), new);
        moved.iter().for_each(|pod| self.pod_enters(*pod));
        self.sequences.node_changed(&self.cluster, &name, another, &mut self.touched);
        self.reservations.node_changed(&name, self.cluster.node(&name), &mut self.touched);
        self.sweep();
    }

    pub(super) fn apply_drivers(&mut self, drivers: Drivers) {
        let known = self.cluster.drivers_on(&drivers.node);
        let same = known.is_some_and(|known| known.names == drivers.names && known.of == drivers.of);
        let known = known.map(|known| known.version);
        if !self.cluster.freshness.admits(Kind::CsiNode, None, known, drivers.version) {
            return;
        }
        let name = drivers.node.clone();
        self.cluster.put_drivers(drivers);
        if !same {
            self.sequences.node_changed(&self.cluster, &name, false, &mut self.touched);
        }
    }

    pub(super) fn delete_drivers(&mut self, node: &Arc<str>) {
        self.cluster.remove_drivers(node);
        self.sequences.node_changed(&self.cluster, node, false, &mut self.touched);
    }

    /// Records that a write to a node was rejected. Must be called before [`Index::mark_answered`].
    pub fn mark_refused(&mut self, node: &Arc<str>, refusal: Refusal) {
        self.sequences.mark_refused(node, refusal);
    }

    /// Records the answer to a write to a node, with the resulting node if the write succeeded. Repeating such a write does no
    /// harm, so an unknown outcome counts as a failure.
    pub fn mark_answered(&mut self, node: &Arc<str>, answer: Option<Node>) {
        self.sequences.mark_answered(node, answer.is_some(), &mut self.touched);
        let known = self.cluster.node(node).map(|known| known.uid);
        if let Some(node) = answer.filter(|node| known == Some(node.uid)) {
            self.apply_answer(Object::Node(node));
        }
    }
}
