//! What sequences have left on nodes, and what is being written there.

use super::Sequences;
use crate::{
    Uid, cluster::Cluster, freshness::Freshness, key::Touched, kind::Kind, node::Node, sequence::keys,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Marked {
    by_sequence: BTreeMap<Uid, MarkedNodes>,
    /// The nodes that are being written to, and for which sequence: sent, not answered. One write to a node at a time, because
    /// each is made for the node as it was seen.
    writing: BTreeMap<Arc<str>, Uid>,
}

/// The nodes on which a sequence has left something.
#[derive(Debug)]
struct MarkedNodes {
    nodes: BTreeSet<Arc<str>>,
    /// The oldest version of a node on which it was seen: the sequence is no younger than that.
    seen_at: u64,
}

impl Sequences {
    /// Keeps up which sequence has left something where, when a node takes the place of what was known under its name.
    pub fn track_marks(&mut self, old: Option<&Node>, new: Option<&Node>) {
        let (was, is) = (old.map(marked_by).unwrap_or_default(), new.map(marked_by).unwrap_or_default());
        let marked = &mut self.marked.by_sequence;
        for (sequence, node) in is.iter().zip(std::iter::repeat(new).flatten()) {
            let nothing = || MarkedNodes { nodes: BTreeSet::new(), seen_at: node.version };
            let left = marked.entry(*sequence).or_insert_with(nothing);
            left.nodes.insert(node.name.clone());
            left.seen_at = left.seen_at.min(node.version);
        }
        for (sequence, node) in was.difference(&is).zip(std::iter::repeat(old).flatten()) {
            let Some(left) = marked.get_mut(sequence) else { continue };
            left.nodes.remove(&node.name);
            if left.nodes.is_empty() {
                marked.remove(sequence);
            }
        }
    }

    /// Every sequence that goes by nodes has to look at this one again. What was decided about another one of that name is void.
    pub fn node_changed(&mut self, cluster: &Cluster, name: &Arc<str>, another: bool, touched: &mut Touched) {
        let there = cluster.takes_part(name);
        for uid in &self.node_scoped {
            if let Some(entry) = self.entries.get_mut(uid) {
                touched.sequence(*uid);
                entry.look_again(name, there, another);
            }
        }
    }

    /// The names of the nodes that carry anything of a sequence.
    pub(in crate::sequence) fn marked_nodes(&self, sequence: Uid) -> impl Iterator<Item = &Arc<str>> {
        self.marked.by_sequence.get(&sequence).into_iter().flat_map(|left| &left.nodes)
    }

    /// Sequences that have left something on a node and are not known here.
    pub(super) fn unknown_sequences_on_nodes(&self) -> Vec<Uid> {
        self.marked.by_sequence.keys().filter(|uid| !self.entries.contains_key(uid)).copied().collect()
    }

    /// What sequences left on nodes that are gone for good is taken off them.
    pub fn sweep(&self, freshness: &Freshness, touched: &mut Touched) {
        let unknown = self.unknown_sequences_on_nodes().into_iter();
        touched.sequences(unknown.filter(|uid| self.is_gone(freshness, *uid)));
    }

    /// Whether it is proved that a sequence does not exist any more: its end was seen, or all changes of sequences are known up
    /// to a time when it had left something on a node already. Later changes of that node do not weaken the proof.
    pub fn is_gone(&self, freshness: &Freshness, sequence: Uid) -> bool {
        let known = freshness.newest(Kind::Sequence);
        let seen_at = || self.marked.by_sequence.get(&sequence).map(|left| left.seen_at);
        freshness.is_synced(Kind::Sequence)
            && !self.entries.contains_key(&sequence)
            && (freshness.is_deleted(sequence)
                || self.is_absent_from_last_list(sequence)
                || known.zip(seen_at()).is_some_and(|(known, seen_at)| seen_at <= known))
    }

    /// Whether something is being written to a node, for whichever sequence.
    pub fn is_being_marked(&self, node: &Arc<str>) -> bool {
        self.marked.writing.contains_key(node)
    }

    /// Whether anything is being written to any node for a sequence.
    pub fn is_marking_any(&self, sequence: Uid) -> bool {
        self.marked.writing.values().any(|writer| *writer == sequence)
    }

    pub fn mark_sent(&mut self, sequence: Uid, node: &Arc<str>) {
        self.marked.writing.insert(node.clone(), sequence);
    }

    /// A write to a node is answered: whoever waited for that may write now.
    pub fn mark_answered(&mut self, node: &Arc<str>, touched: &mut Touched) {
        touched.sequences(self.marked.writing.remove(node));
        touched.sequences(self.node_scoped());
        // Also who is gone, and has something to take off.
        let left = self.marked.by_sequence.iter().filter(|(_, left)| left.nodes.contains(node));
        touched.sequences(left.map(|(sequence, _)| *sequence));
    }
}

/// The sequences that have left anything on a node: a journal, or the key of a group.
fn marked_by(node: &Node) -> BTreeSet<Uid> {
    let labels = node.labels.iter().filter(|(key, _)| keys::is_key(key)).map(|(_, value)| value);
    let taints = node.taints.iter().filter(|taint| keys::is_key(&taint.key)).map(|taint| &taint.value);
    node.journals.keys().copied().chain(labels.chain(taints).map(|uid| Uid::new(uid))).collect()
}
