//! Nodes coming, changing and going, and which pods belong to them.

use super::{Index, Kind};
use crate::{
    Uid,
    facts::{Pin, Pod},
    node::{Drivers, HOSTNAME, Node},
    sequence::keys,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All that is known about nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) by_name: BTreeMap<Arc<str>, Node>,
    by_uid: BTreeMap<Uid, Arc<str>>,
    pub(super) drivers: BTreeMap<Arc<str>, Drivers>,
    /// Names of nodes by their hostname, where that is another one.
    hostnames: BTreeMap<Arc<str>, Arc<str>>,
    /// Pods that are pinned by a hostname.
    pub(super) pinned: BTreeMap<Arc<str>, BTreeSet<Uid>>,
    /// What sequences have left on nodes, by their uid.
    marks: BTreeMap<Uid, Left>,
    /// What is being written to which node for which sequence: sent, not answered.
    marking: BTreeSet<(Uid, Arc<str>)>,
}

/// What a sequence has left on nodes.
#[derive(Debug)]
struct Left {
    nodes: BTreeSet<Arc<str>>,
    /// The oldest version of a node on which it was seen: the sequence is no younger than that.
    seen_at: u64,
}

impl Nodes {
    /// The node that a pod belongs to: the one it is bound to, or the only one it can be bound to.
    pub(super) fn of(&self, pod: &Pod) -> Option<Arc<str>> {
        match (&pod.node, pod.pin()) {
            (Some(node), _) | (None, Some(Pin::Name(node))) => Some(node.clone()),
            (None, Some(Pin::Hostname(host))) => Some(self.hostnames.get(host).unwrap_or(host).clone()),
            (None, None) => None,
        }
    }

    /// Whether there is a node of this name that is not going away.
    pub(super) fn takes_part(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|node| !node.terminating)
    }

    /// Keeps up who has left something where, when a node takes the place of what was known under its name.
    fn note_marks(&mut self, old: Option<&Node>, new: Option<&Node>) {
        let (was, is) = (old.map(marked_by).unwrap_or_default(), new.map(marked_by).unwrap_or_default());
        for (sequence, node) in is.iter().zip(std::iter::repeat(new).flatten()) {
            let nothing = || Left { nodes: BTreeSet::new(), seen_at: node.version };
            let left = self.marks.entry(*sequence).or_insert_with(nothing);
            left.nodes.insert(node.name.clone());
            left.seen_at = left.seen_at.min(node.version);
        }
        for (sequence, node) in was.difference(&is).zip(std::iter::repeat(old).flatten()) {
            let Some(left) = self.marks.get_mut(sequence) else { continue };
            left.nodes.remove(&node.name);
            if left.nodes.is_empty() {
                self.marks.remove(sequence);
            }
        }
    }
}

/// The sequences that have left anything on a node: a journal, or the key of a group.
fn marked_by(node: &Node) -> BTreeSet<Uid> {
    let labels = node.labels.iter().filter(|(key, _)| keys::is_key(key)).map(|(_, value)| value);
    let taints = node.taints.iter().filter(|taint| keys::is_key(&taint.key)).map(|taint| &taint.value);
    node.journals.keys().copied().chain(labels.chain(taints).map(|uid| Uid::new(uid))).collect()
}

fn hostname(node: &Node) -> Option<&Arc<str>> {
    node.labels.get(HOSTNAME).filter(|host| **host != node.name)
}

impl Index {
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.by_name.get(name)
    }

    /// All nodes, by name; those that are going away do not take part any more.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.by_name.values().filter(|node| !node.terminating)
    }

    /// Whether there is a node of this name that is not going away.
    pub fn takes_part(&self, name: &str) -> bool {
        self.nodes.takes_part(name)
    }

    /// The same in another order, which begins somewhere else for each `from`.
    pub fn nodes_from(&self, from: Uid) -> impl Iterator<Item = &Node> {
        let names = self.nodes.by_uid.range(from..).chain(self.nodes.by_uid.range(..from));
        names.filter_map(|(_, name)| self.node(name)).filter(|node| !node.terminating)
    }

    /// The sequences that go by nodes.
    pub fn node_scoped(&self) -> impl Iterator<Item = Uid> {
        self.node_scoped.iter().copied()
    }

    /// A number that is another one when another sequence goes by nodes, or one does not any more.
    pub fn node_scoped_since(&self) -> u64 {
        self.node_scoped_since
    }

    /// Whether a CSI driver is registered on a node.
    pub fn has_driver(&self, node: &Node, driver: &str) -> bool {
        let of_this_one = |drivers: &&Drivers| drivers.of.is_none_or(|uid| uid == node.uid);
        let drivers = self.nodes.drivers.get(&node.name).filter(of_this_one);
        drivers.is_some_and(|drivers| drivers.names.contains(driver))
    }

    /// The node that a pod belongs to, if there is only one.
    pub fn node_of(&self, pod: &Pod) -> Option<Arc<str>> {
        self.nodes.of(pod)
    }

    /// The nodes that carry anything of a sequence.
    pub fn marked_for(&self, sequence: Uid) -> impl Iterator<Item = &Node> {
        let names = self.nodes.marks.get(&sequence).into_iter().flat_map(|left| &left.nodes);
        names.filter_map(|name| self.nodes.by_name.get(name))
    }

    /// Sequences that have left something on a node and are not known here.
    pub(super) fn strangers(&self) -> Vec<Uid> {
        self.nodes.marks.keys().filter(|uid| !self.sequences.contains_key(uid)).copied().collect()
    }

    /// Whether something is being written to a node for a sequence.
    pub fn is_marking(&self, sequence: Uid, node: &Arc<str>) -> bool {
        self.nodes.marking.contains(&(sequence, node.clone()))
    }

    /// Whether anything is being written to any node for a sequence.
    pub fn is_marking_any(&self, sequence: Uid) -> bool {
        let mut from = self.nodes.marking.range((sequence, Arc::from(""))..);
        from.next().is_some_and(|(first, _)| *first == sequence)
    }

    pub fn mark_sent(&mut self, sequence: Uid, node: &Arc<str>) {
        self.nodes.marking.insert((sequence, node.clone()));
    }

    /// What was written to a node has been answered, with the node as it is now if it was done. To write it again does no harm,
    /// so an unknown outcome is as good as none.
    pub fn mark_answered(&mut self, sequence: Uid, node: &Arc<str>, answer: Option<Node>) {
        self.nodes.marking.remove(&(sequence, node.clone()));
        self.touched.insert(sequence);
        let known = self.nodes.by_name.get(node).map(|known| known.uid);
        if let Some(node) = answer.filter(|node| known == Some(node.uid)) {
            self.apply_answer(super::Object::Node(node));
        }
    }

    pub(super) fn apply_node(&mut self, mut node: Node) {
        self.saw(Kind::Node, node.version);
        if self.tombstones.contains(&node.uid) {
            return;
        }
        if let Some(known) = self.nodes.by_name.get_mut(&node.name) {
            if known.version >= node.version {
                return;
            }
            // Heartbeats change nothing that counts, and are most of what there is to hear of a node.
            let version = std::mem::replace(&mut node.version, known.version);
            if *known == node {
                known.version = version;
                return;
            }
            node.version = version;
        }
        self.change_node(node.name.clone(), Some(node));
    }

    pub(super) fn delete_node(&mut self, name: &Arc<str>) {
        if let Some(node) = self.nodes.by_name.get(name) {
            let uid = node.uid;
            self.bury(uid);
            self.change_node(name.clone(), None);
        }
    }

    fn change_node(&mut self, name: Arc<str>, new: Option<Node>) {
        let old = self.nodes.by_name.get(&name);
        let another = old.map(|old| old.uid) != new.as_ref().map(|new| new.uid);
        let (was, is) = (old.and_then(hostname).cloned(), new.as_ref().and_then(hostname).cloned());
        let moved: BTreeSet<Uid> = match was != is {
            true => {
                let hosts = was.iter().chain(&is).filter_map(|host| self.nodes.pinned.get(host));
                hosts.flatten().copied().collect()
            }
            false => BTreeSet::new(),
        };
        moved.iter().for_each(|pod| self.unplace(*pod));
        was.map(|was| self.nodes.hostnames.remove(&was));
        is.map(|is| self.nodes.hostnames.insert(is, name.clone()));
        let old = self.nodes.by_name.remove(&name);
        self.nodes.note_marks(old.as_ref(), new.as_ref());
        old.map(|old| self.nodes.by_uid.remove(&old.uid));
        if let Some(new) = new {
            self.nodes.by_uid.insert(new.uid, name.clone());
            self.nodes.by_name.insert(name.clone(), new);
        }
        moved.iter().for_each(|pod| self.place(*pod));
        self.node_changed(&name, another);
        self.sweep();
    }

    /// Every sequence that goes by nodes has to look at this one again. What was decided about another one of that name is void.
    fn node_changed(&mut self, name: &Arc<str>, another: bool) {
        let there = self.nodes.takes_part(name);
        for uid in &self.node_scoped {
            if let Some(entry) = self.sequences.get_mut(uid) {
                self.touched.insert(*uid);
                entry.look_again(name, there, another);
            }
        }
    }

    pub(super) fn apply_drivers(&mut self, drivers: Drivers) {
        self.saw(Kind::CsiNode, drivers.version);
        let known = self.nodes.drivers.get(&drivers.node);
        if known.is_some_and(|known| known.version >= drivers.version) {
            return;
        }
        let same = known.is_some_and(|known| known.names == drivers.names && known.of == drivers.of);
        let name = drivers.node.clone();
        self.nodes.drivers.insert(name.clone(), drivers);
        if !same {
            self.node_changed(&name, false);
        }
    }

    pub(super) fn delete_drivers(&mut self, node: &Arc<str>) {
        self.nodes.drivers.remove(node);
        self.node_changed(node, false);
    }

    /// What sequences left on nodes that are gone for good is taken off them.
    pub(super) fn sweep(&mut self) {
        let gone: Vec<Uid> = self.strangers().into_iter().filter(|uid| self.is_gone(*uid)).collect();
        self.touched.extend(gone);
    }

    /// Whether it is proved that there is no such sequence any more: its end was seen, or all that has become of sequences is known up to
    /// a time when it had left something behind already. That nodes have changed since then takes nothing from the proof.
    pub fn is_gone(&self, sequence: Uid) -> bool {
        let known = self.newest.get(&Kind::Sequence);
        let seen_at = || self.nodes.marks.get(&sequence).map(|left| left.seen_at);
        self.synced.contains(&Kind::Sequence)
            && !self.sequences.contains_key(&sequence)
            && (self.tombstones.contains(&sequence)
                || self.asked_for.contains(&sequence)
                || known.zip(seen_at()).is_some_and(|(known, seen_at)| seen_at <= *known))
    }
}
