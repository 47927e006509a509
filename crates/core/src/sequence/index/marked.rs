//! What sequences have left on nodes, and what is being written there.

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
    /// The nodes that are being written to, and for which sequences: sent, not answered. One write to a node at a time, because
    /// each is made for the node as it was seen.
    writing: BTreeMap<Arc<str>, Vec<Uid>>,
    /// Nodes to which a write for several sequences was rejected. One of them caused it: from then on each writes for itself.
    refused_together: BTreeSet<Arc<str>>,
    /// The nodes that carry the label of those that nobody has seen.
    unseen: BTreeMap<Arc<str>, Unseen>,
    /// What the API server said when it refused what was to be written on a node for a sequence. Hardly ever anything.
    refused: BTreeMap<(Uid, Arc<str>), Refusal>,
    /// Sequences that are proved to be gone, and whose marks others have been told about.
    swept: BTreeSet<Uid>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unseen {
    /// When a decision first saw it. It is written nowhere: whoever begins to lead counts anew.
    since: Option<Timestamp>,
    /// It has been said that the time is over.
    told: bool,
}

/// What a decision has found out about nodes that carry the label of those that nobody has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnseenNodes {
    /// Now, if one of them was seen for the first time.
    pub first_seen: Option<Timestamp>,
    /// Those that were not waited for any longer, which has been said.
    pub told: Vec<Arc<str>>,
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
            // One that was re-created under the same name is another one.
            Some(new) if old.is_none_or(|old| old.uid != new.uid) => {
                self.marked.unseen.insert(node.name.clone(), Unseen::default());
            }
            Some(_) => _ = self.marked.unseen.entry(node.name.clone()).or_default(),
            None => _ = self.marked.unseen.remove(&node.name),
        }
    }

    /// The nodes that carry the label of those that nobody has seen, with when they were first seen here.
    pub(in crate::sequence) fn unseen_nodes(&self) -> impl Iterator<Item = (&Arc<str>, Option<Timestamp>)> {
        self.marked.unseen.iter().map(|(name, unseen)| (name, unseen.since))
    }

    pub(in crate::sequence) fn unseen_since(&self, node: &str) -> Option<Timestamp> {
        self.marked.unseen.get(node)?.since
    }

    /// Whether it has been said that a node is not kept from members any longer.
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

    /// Another sequence may act on nodes, or one does not any more: for some nodes it may have been the last to be waited for.
    pub(super) fn voters_changed(&self, touched: &mut Touched) {
        if !self.marked.unseen.is_empty() {
            touched.sequences(self.node_scoped());
        }
    }

    /// A sequence that is gone leaves its marks to a living one that has the same keys. That one has to look at those nodes.
    pub(super) fn look_at_what_is_left(&mut self, cluster: &Cluster, gone: Uid, touched: &mut Touched) {
        let is_gone = self.entries.get(&gone).is_none_or(|entry| entry.ghost);
        let Some(left) = self.marked.by_sequence.get(&gone).filter(|_| is_gone) else { return };
        let nodes: Vec<&Node> = left.nodes.iter().filter_map(|name| cluster.node(name)).collect();
        let keys: BTreeSet<&Arc<str>> = nodes.iter().flat_map(|node| keys_on(node)).collect();
        for uid in &self.node_scoped {
            let Some(entry) = self.entries.get_mut(uid).filter(|entry| entry.claims()) else { continue };
            if *uid != gone && entry.keys().iter().any(|key| keys.contains(key)) {
                touched.sequence(*uid);
                nodes.iter().for_each(|node| entry.look_again(&node.name, !node.terminating, false));
            }
        }
    }

    /// Every sequence that goes by nodes has to look at this one again. What was decided about another one of that name is void.
    pub fn node_changed(&mut self, cluster: &Cluster, name: &Arc<str>, another: bool, touched: &mut Touched) {
        let there = cluster.takes_part(name);
        for uid in &self.node_scoped {
            if let Some(entry) = self.entries.get_mut(uid).filter(|entry| entry.claims()) {
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

    /// Whether what carries the uid of another sequence was left by one that is gone.
    pub(in crate::sequence) fn is_left_by_gone(&self, freshness: &Freshness, sequence: Uid) -> bool {
        self.get(sequence).is_some_and(|entry| entry.ghost) || self.is_gone(freshness, sequence)
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
        self.marked.writing.values().any(|writers| writers.contains(&sequence))
    }

    pub fn mark_sent(&mut self, sequences: impl IntoIterator<Item = Uid>, node: &Arc<str>) {
        self.marked.writing.insert(node.clone(), sequences.into_iter().collect());
    }

    /// Whether sequences must write to this node one by one.
    pub(in crate::sequence) fn is_refused_together(&self, node: &str) -> bool {
        self.marked.refused_together.contains(node)
    }

    /// The API server refuses what is being written to a node.
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

    /// What the API server refuses to write for a sequence, by node.
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

    /// There is nothing more to be written for a sequence.
    pub(super) fn forget_refusals(&mut self, sequence: Uid) {
        self.marked.refused.retain(|(uid, _), _| *uid != sequence);
    }

    /// A write to a node is answered: whoever waited for that may write now.
    pub fn mark_answered(&mut self, node: &Arc<str>, done: bool, touched: &mut Touched) {
        let writers = self.marked.writing.remove(node).unwrap_or_default();
        for writer in writers.iter().filter(|_| done) {
            self.marked.refused.remove(&(*writer, node.clone()));
        }
        touched.sequences(writers);
        // Who may not act has nothing to write, unless it is to take back what it has written.
        let has_to_write = |uid: &Uid| {
            self.get(*uid).is_some_and(|entry| entry.claims()) || self.marked.by_sequence.contains_key(uid)
        };
        touched.sequences(self.node_scoped().filter(has_to_write));
        // Also who is gone, and has something to take off.
        let left = self.marked.by_sequence.iter().filter(|(_, left)| left.nodes.contains(node));
        touched.sequences(left.map(|(sequence, _)| *sequence));
    }
}

/// The keys of ours by which a node is closed.
fn keys_on(node: &Node) -> impl Iterator<Item = &Arc<str>> {
    let labels = node.labels.iter().map(|(key, _)| key);
    labels.chain(node.taints.iter().map(|taint| &taint.key)).filter(|key| keys::is_key(key))
}

/// The sequences that have left anything on a node: a journal, or the key of a group.
fn marked_by(node: &Node) -> BTreeSet<Uid> {
    let labels = node.labels.iter().filter(|(key, _)| keys::is_key(key)).map(|(_, value)| value);
    let taints = node.taints.iter().filter(|taint| keys::is_key(&taint.key)).map(|taint| &taint.value);
    node.journals.keys().copied().chain(labels.chain(taints).map(|uid| Uid::new(uid))).collect()
}
