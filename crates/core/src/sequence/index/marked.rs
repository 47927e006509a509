//! Labels, taints and journals of sequences on nodes ("marks"), and writes to nodes that are in flight.

use super::Sequences;
use crate::{
    Timestamp, Uid,
    cluster::{Cluster, Refusal},
    freshness::Freshness,
    key::Touched,
    kind::Kind,
    node::Node,
    sequence::keys,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Marked {
    by_sequence: BTreeMap<Uid, MarkedNodes>,
    /// Nodes with a write in flight, and the sequences whose marks it contains. At most one write per node at a time, because each
    /// write is based on the last seen state of the node.
    writing: BTreeMap<Arc<str>, Vec<Uid>>,
    /// Nodes on which the API server rejected a write for several sequences. One of them caused it, so each writes separately there.
    refused_together: BTreeSet<Arc<str>>,
    /// The nodes that carry the label [`keys::UNSEEN`].
    unseen: BTreeMap<Arc<str>, Unseen>,
    /// Rejected writes to nodes, by sequence and node. Usually empty.
    refused: BTreeMap<(Uid, Arc<str>), Refusal>,
    /// Deleted sequences whose leftovers have been announced to the sequences with the same keys.
    swept: BTreeSet<Uid>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unseen {
    /// The time when a decision first saw the node. It is not persisted: a new leader starts again.
    since: Option<Timestamp>,
    /// Whether the event about the elapsed time limit has been sent.
    told: bool,
}

/// Changes that a decision makes to the state of nodes with the label [`keys::UNSEEN`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnseenNodes {
    /// The current time, if a node was seen for the first time.
    pub first_seen: Option<Timestamp>,
    /// The nodes that get an event about the elapsed time limit.
    pub told: Vec<Arc<str>>,
}

/// The nodes that carry marks of a sequence.
#[derive(Debug)]
struct MarkedNodes {
    nodes: BTreeSet<Arc<str>>,
    /// The oldest resource version of a node with its marks. The sequence is at least as old.
    seen_at: u64,
}

impl Sequences {
    /// Updates the marks after a node has changed from `old` to `new`.
    pub fn track_marks(&mut self, old: Option<&Node>, new: Option<&Node>) {
        let (was, is) = (old.map(marked_by).unwrap_or_default(), new.map(marked_by).unwrap_or_default());
        self.track_unseen(old, new);
        if let (Some(old), None) = (old, new) {
            self.marked.refused.retain(|(_, node), _| *node != old.name);
            self.marked.refused_together.remove(&old.name);
        }
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
                self.marked.swept.remove(sequence);
            }
        }
    }

    fn track_unseen(&mut self, old: Option<&Node>, new: Option<&Node>) {
        let Some(node) = new.or(old) else { return };
        let carries = |node: &&Node| node.labels.get(keys::UNSEEN).is_some() && !node.terminating;
        match new.filter(carries) {
            // A node that was re-created under the same name is a new node.
            Some(new) if old.is_none_or(|old| old.uid != new.uid) => {
                self.marked.unseen.insert(node.name.clone(), Unseen::default());
            }
            Some(_) => _ = self.marked.unseen.entry(node.name.clone()).or_default(),
            None => _ = self.marked.unseen.remove(&node.name),
        }
    }

    /// The nodes that carry the label [`keys::UNSEEN`], with the time when a decision first saw them.
    pub(in crate::sequence) fn unseen_nodes(&self) -> impl Iterator<Item = (&Arc<str>, Option<Timestamp>)> {
        self.marked.unseen.iter().map(|(name, unseen)| (name, unseen.since))
    }

    pub(in crate::sequence) fn unseen_since(&self, node: &str) -> Option<Timestamp> {
        self.marked.unseen.get(node)?.since
    }

    /// Whether the event about the elapsed time limit of a node has been sent.
    pub(in crate::sequence) fn unseen_is_told(&self, node: &str) -> bool {
        self.marked.unseen.get(node).is_some_and(|unseen| unseen.told)
    }

    pub fn remember_unseen(&mut self, found: UnseenNodes) {
        let UnseenNodes { first_seen, told } = found;
        if first_seen.is_some() {
            self.marked.unseen.values_mut().for_each(|unseen| unseen.since = unseen.since.or(first_seen));
        }
        for name in told {
            self.marked.unseen.entry(name).and_modify(|unseen| unseen.told = true);
        }
    }

    /// Wakes all sequences in Node scope after their set has changed: unseen nodes may no longer have to wait for a sequence.
    pub(super) fn voters_changed(&self, touched: &mut Touched) {
        if !self.marked.unseen.is_empty() {
            touched.sequences(self.node_scoped());
        }
    }

    /// Wakes existing sequences that have the same keys as a deleted one: they take over its leftovers on nodes.
    pub(super) fn look_at_what_is_left(&mut self, cluster: &Cluster, gone: Uid, touched: &mut Touched) {
        let is_gone = self.entries.get(&gone).is_none_or(|entry| entry.ghost);
        let Some(left) = self.marked.by_sequence.get(&gone).filter(|_| is_gone) else { return };
        let nodes: Vec<&Node> = left.nodes.iter().filter_map(|name| cluster.node(name)).collect();
        let keys: BTreeSet<&Arc<str>> = nodes.iter().flat_map(|node| keys_on(node)).collect();
        for uid in &self.node_scoped {
            let Some(entry) = self.entries.get_mut(uid).filter(|entry| entry.selects_pods()) else {
                continue;
            };
            if *uid != gone && entry.keys().iter().any(|key| keys.contains(key)) {
                touched.sequence(*uid);
                nodes.iter().for_each(|node| entry.look_again(&node.name, !node.terminating, false));
            }
        }
    }

    /// Makes all sequences in Node scope evaluate a node again. If `another` node has the name now, the old evaluation is
    /// discarded.
    pub fn node_changed(&mut self, cluster: &Cluster, name: &Arc<str>, another: bool, touched: &mut Touched) {
        let there = cluster.takes_part(name);
        for uid in &self.node_scoped {
            if let Some(entry) = self.entries.get_mut(uid).filter(|entry| entry.selects_pods()) {
                touched.sequence(*uid);
                entry.look_again(name, there, another);
            }
        }
    }

    /// The names of the nodes that carry marks of a sequence.
    pub(in crate::sequence) fn marked_nodes(&self, sequence: Uid) -> impl Iterator<Item = &Arc<str>> {
        self.marked.by_sequence.get(&sequence).into_iter().flat_map(|left| &left.nodes)
    }

    /// Sequences that have marks on nodes but are unknown here.
    pub(super) fn unknown_sequences_on_nodes(&self) -> Vec<Uid> {
        self.marked.by_sequence.keys().filter(|uid| !self.entries.contains_key(uid)).copied().collect()
    }

    /// Wakes deleted sequences that have leftovers on nodes, so that a decision removes the leftovers.
    pub fn sweep(&mut self, cluster: &Cluster, touched: &mut Touched) {
        for uid in self.unknown_sequences_on_nodes() {
            if self.is_gone(&cluster.freshness, uid) {
                touched.sequence(uid);
                if self.marked.swept.insert(uid) {
                    self.look_at_what_is_left(cluster, uid, touched);
                }
            }
        }
    }

    /// Whether a mark with the uid of this sequence is a leftover of a deleted sequence.
    pub(in crate::sequence) fn is_left_by_gone(&self, freshness: &Freshness, sequence: Uid) -> bool {
        self.get(sequence).is_some_and(|entry| entry.ghost) || self.is_gone(freshness, sequence)
    }

    /// Whether it is proven that a sequence no longer exists. Either its deletion was seen, or it is unknown although it already
    /// had marks on a node at an older version than the newest known version of sequences.
    pub fn is_gone(&self, freshness: &Freshness, sequence: Uid) -> bool {
        let known = freshness.newest(Kind::Sequence);
        let seen_at = || self.marked.by_sequence.get(&sequence).map(|left| left.seen_at);
        freshness.is_synced(Kind::Sequence)
            && !self.entries.contains_key(&sequence)
            && (freshness.is_deleted(sequence)
                || self.is_absent_from_last_list(sequence)
                || known.zip(seen_at()).is_some_and(|(known, seen_at)| seen_at <= known))
    }

    /// Whether a write to a node is in flight, for any sequence.
    pub fn is_being_marked(&self, node: &Arc<str>) -> bool {
        self.marked.writing.contains_key(node)
    }

    /// Whether a write to any node is in flight for a sequence.
    pub fn is_marking_any(&self, sequence: Uid) -> bool {
        self.marked.writing.values().any(|writers| writers.contains(&sequence))
    }

    pub fn mark_sent(&mut self, sequences: impl IntoIterator<Item = Uid>, node: &Arc<str>) {
        self.marked.writing.insert(node.clone(), sequences.into_iter().collect());
    }

    /// Whether sequences must write to this node one by one.
    pub(in crate::sequence) fn is_refused_together(&self, node: &str) -> bool {
        self.marked.refused_together.contains(node)
    }

    /// Records that the API server rejected the write to a node.
    pub(crate) fn mark_refused(&mut self, node: &Arc<str>, refusal: Refusal) {
        match self.marked.writing.get(node).map(Vec::as_slice) {
            Some([writer]) => {
                let key = (*writer, node.clone());
                let refusal = refusal.after(self.marked.refused.get(&key));
                self.marked.refused.insert(key, refusal);
            }
            Some([_, _, ..]) => _ = self.marked.refused_together.insert(node.clone()),
            Some([]) | None => {}
        }
    }

    /// The rejected writes of a sequence, by node.
    pub(in crate::sequence) fn refused_marks(
        &self,
        sequence: Uid,
    ) -> impl Iterator<Item = (&Arc<str>, &Refusal)> {
        let from = (sequence, Arc::from(""));
        let of_it = self.marked.refused.range(from..).take_while(move |((uid, _), _)| *uid == sequence);
        of_it.map(|((_, node), refusal)| (node, refusal))
    }

    pub(in crate::sequence) fn refused_mark(&self, sequence: Uid, node: &Arc<str>) -> Option<&Refusal> {
        self.marked.refused.get(&(sequence, node.clone()))
    }

    /// Discards the rejected writes of a sequence that has nothing more to write.
    pub(super) fn forget_refusals(&mut self, sequence: Uid) {
        self.marked.refused.retain(|(uid, _), _| *uid != sequence);
    }

    /// Records that a write to a node was answered, and wakes the sequences that can write to it now.
    pub fn mark_answered(&mut self, node: &Arc<str>, done: bool, touched: &mut Touched) {
        let writers = self.marked.writing.remove(node).unwrap_or_default();
        for writer in writers.iter().filter(|_| done) {
            self.marked.refused.remove(&(*writer, node.clone()));
        }
        touched.sequences(writers);
        // A sequence that may not act writes only to remove its own marks.
        let has_to_write = |uid: &Uid| {
            self.get(*uid).is_some_and(|entry| entry.selects_pods())
                || self.marked.by_sequence.contains_key(uid)
        };
        touched.sequences(self.node_scoped().filter(has_to_write));
        // Wake deleted sequences that have leftovers on this node, too.
        let left = self.marked.by_sequence.iter().filter(|(_, left)| left.nodes.contains(node));
        touched.sequences(left.map(|(sequence, _)| *sequence));
    }
}

/// The blocked keys on a node.
fn keys_on(node: &Node) -> impl Iterator<Item = &Arc<str>> {
    let labels = node.labels.iter().map(|(key, _)| key);
    labels.chain(node.taints.iter().map(|taint| &taint.key)).filter(|key| keys::is_key(key))
}

/// The sequences that have marks on a node: a journal, a label or a taint.
fn marked_by(node: &Node) -> BTreeSet<Uid> {
    let labels = node.labels.iter().filter(|(key, _)| keys::is_key(key)).map(|(_, value)| value);
    let taints = node.taints.iter().filter(|taint| keys::is_key(&taint.key)).map(|taint| &taint.value);
    node.journals.keys().copied().chain(labels.chain(taints).map(|uid| Uid::new(uid))).collect()
}
