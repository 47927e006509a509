//! Labels, taints and journals on nodes: blocked keys keep pods from starting too early, and journals survive a restart.

use super::{
    Facts,
    evaluate::{Evaluation, GroupView, NodeView, evaluate, later, may_act},
    index::{SequenceEntry, UnseenNodes},
    keys,
    spec::{Enforcement, GroupId, NodeGuard, RecordedGroup, Spec},
    views::{Common, NodeSet},
};
use crate::{
    Timestamp, Uid,
    decision::{Action, Event, EventKind, NodeMarks, NodePatch, Subject},
    journal::Journal,
    kind::Kind,
    node::{Node, Taint},
    planted::{Bug, planted},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a new node is kept free of members until every sequence has written its keys there. The limit keeps a sequence that
/// cannot write from blocking the node for all others. Normally, the writes take milliseconds.
pub const UNSEEN_FOR: Duration = Duration::from_secs(60);
/// A sequence with more nodes to judge than this writes separately: another sequence would have to judge all of them for its write.
const MAX_JUDGED_FOR_OTHERS: usize = 32;
/// Maximum number of sequences named in the event `NotWaitedFor`.
const NAMED: usize = 5;

/// Changes to write on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Labels to set to this value, or to remove if `None`.
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// The new journal: `None` leaves the existing one unchanged, `Some(None)` removes it.
    pub journal: Option<Option<Journal>>,
    pub taints: Taints,
}

/// Changes to the taints of a node. A JSON patch addresses them by their position in one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taints {
    /// Whether the node already has a list of taints.
    pub had_any: bool,
    /// Whether the node already has annotations.
    pub annotated: bool,
    /// Taints to remove: positions in the list, in descending order, with their keys.
    pub remove: Vec<(usize, Arc<str>)>,
    pub add: Vec<Arc<str>>,
}

impl Taints {
    pub fn is_nothing(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }
}

impl Marks {
    pub fn is_nothing(&self) -> bool {
        self.labels.is_empty() && self.journal.is_none() && self.taints.is_nothing()
    }
}

/// Computes the changes that give a node exactly the `wanted` taints of a sequence. `takes_over` says whether a taint with
/// another value is a leftover that this sequence may remove.
fn taints(
    node: &Node,
    uid: &str,
    wanted: &BTreeSet<Arc<str>>,
    takes_over: impl Fn(&Taint) -> bool,
) -> Taints {
    let is_ours = |taint: &Taint| keys::is_key(&taint.key) && *taint.value == *uid;
    let goes = |taint: &Taint| match is_ours(taint) {
        true => !wanted.contains(&taint.key),
        false => takes_over(taint),
    };
    let places = node.taints.iter().enumerate().rev().filter(|(_, taint)| goes(taint));
    // A node cannot have two taints with the same key and effect, so another existing sequence's taint stays and ours is not
    // added.
    let stays = |key: &Arc<str>| node.taints.iter().any(|taint| taint.key == *key && !goes(taint));
    Taints {
        had_any: !node.taints.is_empty(),
        annotated: node.annotated,
        add: wanted.iter().filter(|key| !stays(key)).cloned().collect(),
        remove: places.map(|(place, taint)| (place, taint.key.clone())).collect(),
    }
}

/// Returns the writes that nodes need after this evaluation. Nodes with a write in flight are skipped.
pub fn marks<'a>(
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    evaluation: &'a Evaluation<'a>,
) -> impl Iterator<Item = Action> + 'a {
    let uid = entry.sequence.uid;
    let common = evaluation.nodes.common();
    let unwritten = evaluation.nodes.nodes_in(NodeSet::Unwritten);
    let unseen = facts.sequences.unseen_nodes().filter_map(|(name, _)| {
        let judged = evaluation.nodes.get(name).filter(|judged| !judged.unwritten)?;
        Some((name, judged))
    });
    let idle = unwritten.chain(unseen).filter(move |(name, _)| !facts.sequences.is_being_marked(name));
    let mut others = Others { facts, writer: uid, now: evaluation.now, evaluated: None };
    idle.filter_map(move |(name, judged)| {
        let node = facts.cluster.node(name)?;
        let marks = marks_of(facts, entry, spec, common?, node, &judged.view);
        let mut parts = vec![NodeMarks { sequence: uid, marks }];
        if !parts[0].marks.is_nothing() {
            parts.extend(others.marks_on(node));
        }
        if is_to_be_seen(facts, &parts, node, evaluation.now) {
            parts[0].marks.labels.insert(keys::UNSEEN.into(), None);
        }
        (!parts[0].marks.is_nothing()).then(|| Action::PatchNode(NodePatch::new(node, parts)))
    })
}

/// The other sequences of Node scope. Their marks go into the same write, so that many sequences do not mean many writes to each node
/// that joins.
struct Others<'a> {
    facts: Facts<'a>,
    writer: Uid,
    now: Timestamp,
    /// Made for the first node that is written to.
    evaluated: Option<Vec<(&'a SequenceEntry, &'a Spec, Evaluation<'a>)>>,
}

impl<'a> Others<'a> {
    fn marks_on(&mut self, node: &Node) -> Vec<NodeMarks> {
        let (facts, writer, now) = (self.facts, self.writer, self.now);
        if facts.sequences.is_refused_together(&node.name) {
            return Vec::new();
        }
        let others = self.evaluated.get_or_insert_with(|| evaluate_others(facts, writer, now));
        let marks = others.iter().filter_map(|(entry, spec, evaluation)| {
            let judged = evaluation.nodes.get(&node.name).filter(|judged| judged.unwritten)?;
            let marks = marks_of(facts, entry, spec, evaluation.nodes.common()?, node, &judged.view);
            let part = NodeMarks { sequence: entry.sequence.uid, marks };
            (!part.marks.is_nothing()).then_some(part)
        });
        marks.collect()
    }
}

fn evaluate_others(
    facts: Facts<'_>,
    writer: Uid,
    now: Timestamp,
) -> Vec<(&SequenceEntry, &Spec, Evaluation<'_>)> {
    let others = facts.sequences.node_scoped().filter(|uid| *uid != writer);
    let others = others.filter_map(|uid| facts.sequences.get(uid)).filter(|entry| !entry.ghost);
    let is_complete = |entry: &&SequenceEntry| {
        entry.spec().is_none_or(|spec| !facts.sequences.is_incomplete(&spec.pod_namespace))
    };
    let others = others.filter(is_complete);
    let is_cheap = |entry: &&SequenceEntry| {
        let due = entry.node_results().due(now);
        due.take(MAX_JUDGED_FOR_OTHERS + 1).count() <= MAX_JUDGED_FOR_OTHERS
    };
    let evaluated = others.filter(is_cheap).filter_map(|entry| {
        let evaluation = evaluate(facts, entry, now);
        let spec = entry.spec().filter(|_| !evaluation.groups.is_empty())?;
        Some((entry, &**spec, evaluation))
    });
    evaluated.collect()
}

pub(super) fn marks_of(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    common: &Common,
    node: &Node,
    view: &NodeView,
) -> Marks {
    let uid: Arc<str> = entry.sequence.uid.to_string().into();
    // Labels with another value belong to another sequence. Only leftovers of a deleted sequence are taken over.
    let is_ours = |value: &Arc<str>| *value == uid || facts.is_left_by_gone(value);
    let closed = (0..spec.groups.len())
        .filter(|position| is_closed(spec, &view.groups[*position]) && common.groups[*position].needs_key);
    let closed: BTreeSet<Arc<str>> = closed.map(|position| entry.key(position).clone()).collect();
    let (as_labels, as_taints) = match spec.guard {
        NodeGuard::Labels => (closed, BTreeSet::new()),
        NodeGuard::Taints => (BTreeSet::new(), closed),
    };
    let mut labels = BTreeMap::new();
    for key in entry.keys() {
        match (as_labels.contains(key), node.labels.get(key)) {
            (true, Some(there)) if *there == uid => {}
            (_, Some(there)) if !is_ours(there) => {}
            (true, _) => drop(labels.insert(key.clone(), Some(uid.clone()))),
            (false, Some(_)) => drop(labels.insert(key.clone(), None)),
            (false, None) => {}
        }
    }
    // Remove keys of groups that are no longer in the spec.
    let old = node.labels.iter().filter(|(key, value)| keys::is_key(key) && *value == uid);
    labels.extend(old.filter(|(key, _)| !entry.keys().contains(key)).map(|(key, _)| (key.clone(), None)));
    let journal =
        Journal { groups: journaled(spec, view), begun_again: entry.recorded().begun_again.clone() };
    let written = node.journals.get(&entry.sequence.uid);
    let is_left = |taint: &Taint| entry.keys().contains(&taint.key) && facts.is_left_by_gone(&taint.value);
    let taints = taints(node, &uid, &as_taints, is_left);
    Marks { labels, journal: (written != Some(&journal)).then_some(Some(journal)), taints }
}

/// Whether the node must be blocked for a group. In Bootstrap, the node is never blocked again after the group was open there. In
/// Continuous, it is blocked whenever the group is not open.
fn is_closed(spec: &Spec, view: &GroupView) -> bool {
    match spec.enforcement {
        Enforcement::Bootstrap => view.opened_at.is_none(),
        Enforcement::Continuous => !view.open,
    }
}

/// Whether this write must remove the label [`keys::UNSEEN`]: no sequence remains that has not written to the node, or the time
/// limit has passed.
fn is_to_be_seen(facts: Facts<'_>, parts: &[NodeMarks], node: &Node, now: Timestamp) -> bool {
    node.labels.get(keys::UNSEEN).is_some()
        && (waited_for(facts, parts, node).next().is_none() || is_overdue(facts, node, now))
        && !planted(Bug::UnseenNotTaken)
}

/// The sequences that have not written to a node yet and are not part of this write. Sequences that may not act never write, so
/// they do not count.
fn waited_for<'a>(
    facts: Facts<'a>,
    parts: &'a [NodeMarks],
    node: &'a Node,
) -> impl Iterator<Item = &'a SequenceEntry> {
    let writes = |uid: &Uid| parts.iter().any(|part| part.sequence == *uid);
    let others = facts.sequences.node_scoped().filter(move |uid| !writes(uid));
    let others = others.filter(|uid| !node.journals.contains_key(uid));
    let others = others.filter_map(move |uid| facts.sequences.get(uid));
    others.filter(move |other| !other.ghost && may_act(facts, other))
}

fn is_overdue(facts: Facts<'_>, node: &Node, now: Timestamp) -> bool {
    facts.sequences.unseen_since(&node.name).is_some_and(|since| now >= later(since, UNSEEN_FOR))
}

/// The earliest time when the limit [`UNSEEN_FOR`] ends for a node that is unseen now.
pub fn next_overdue(facts: Facts<'_>, now: Timestamp) -> Option<Timestamp> {
    let since = facts.sequences.unseen_nodes().map(|(_, since)| since.unwrap_or(now));
    since.map(|since| later(since, UNSEEN_FOR)).filter(|at| *at > now).min()
}

/// Returns the state to remember about unseen nodes, and an event for each node whose time limit has passed.
pub fn unseen(facts: Facts<'_>, actions: &[Action], now: Timestamp) -> (UnseenNodes, Vec<Event>) {
    let new = facts.sequences.unseen_nodes().any(|(_, since)| since.is_none());
    let mut found = UnseenNodes { first_seen: new.then_some(now), told: Vec::new() };
    let mut events = Vec::new();
    let seen = actions.iter().filter_map(|action| match action {
        Action::PatchNode(patch) if patch.parts[0].marks.labels.contains_key(keys::UNSEEN) => Some(patch),
        _ => None,
    });
    for patch in seen.filter(|patch| !facts.sequences.unseen_is_told(&patch.name)) {
        let Some(node) = facts.cluster.node(&patch.name) else { continue };
        let late: Vec<&SequenceEntry> = waited_for(facts, &patch.parts, node).collect();
        if !late.is_empty() {
            found.told.push(patch.name.clone());
            events.push(not_waited_for(node, &late));
        }
    }
    (found, events)
}

fn not_waited_for(node: &Node, late: &[&SequenceEntry]) -> Event {
    let names = late.iter().take(NAMED).map(|entry| entry.sequence.full_name());
    let names = names.collect::<Vec<_>>().join(", ");
    let more = match late.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (seconds, label) = (UNSEEN_FOR.as_secs(), keys::UNSEEN);
    Event {
        about: Subject { kind: Kind::Node, namespace: "".into(), name: node.name.clone(), uid: node.uid },
        kind: EventKind::Warning,
        reason: "NotWaitedFor",
        message: format!(
            "removed the label {label} after {seconds}s, although PodSequence {names}{more} has not marked this node; its pods may start here too early"
        ),
    }
}

/// The contents of the journal: the times when groups opened and were complete. They must survive a restart.
fn journaled(spec: &Spec, view: &NodeView) -> BTreeMap<GroupId, RecordedGroup> {
    let each = spec.groups.iter().zip(&view.groups);
    let each = each.filter(|(_, view)| view.opened_at.is_some() || view.finished);
    let each = each.map(|(group, view)| {
        let times = RecordedGroup {
            opened_at: view.opened_at,
            completed_at: view.completed_at,
            finished: view.finished,
            ..RecordedGroup::default()
        };
        (group.id.clone(), times)
    });
    each.collect()
}

/// Removes all labels, taints and journals of a sequence from nodes.
pub fn unmark(facts: Facts<'_>, sequence: Uid) -> impl Iterator<Item = Action> {
    let uid: Arc<str> = sequence.to_string().into();
    let nodes = facts.marked_for(sequence).filter(move |node| !facts.sequences.is_being_marked(&node.name));
    nodes.filter(|_| !planted(Bug::MarksStay)).filter_map(move |node| {
        let ours = node.labels.iter().filter(|(key, value)| keys::is_key(key) && *value == uid);
        // An existing sequence with the same keys overwrites the value. Without the key, the node would be open until then.
        let left = ours.filter(|(key, _)| !is_of_another(facts, sequence, key));
        let labels = left.map(|(key, _)| (key.clone(), None)).collect();
        let journal = node.journals.contains_key(&sequence).then_some(None);
        let mut taints = taints(node, &uid, &BTreeSet::new(), |_| false);
        taints.remove.retain(|(_, key)| !is_of_another(facts, sequence, key));
        let marks = Marks { labels, journal, taints };
        let patch = |marks| NodePatch::new(node, vec![NodeMarks { sequence, marks }]);
        (!marks.is_nothing()).then(|| Action::PatchNode(patch(marks)))
    })
}

/// Whether another existing sequence uses this blocked key, and takes over leftovers.
fn is_of_another(facts: Facts<'_>, sequence: Uid, key: &Arc<str>) -> bool {
    let others = facts
        .sequences
        .node_scoped()
        .filter(|uid| *uid != sequence)
        .filter_map(|uid| facts.sequences.get(uid));
    others.filter(|other| !other.ghost && other.keys().contains(key)).any(|other| may_act(facts, other))
}

/// Removes only the taints of a sequence from nodes.
pub fn untaint(facts: Facts<'_>, sequence: Uid) -> impl Iterator<Item = Action> {
    unmark(facts, sequence).filter_map(|action| match action {
        Action::PatchNode(mut patch) => {
            let part = &mut patch.parts[0];
            part.marks = Marks { taints: std::mem::take(&mut part.marks.taints), ..Marks::default() };
            (!part.marks.is_nothing()).then_some(Action::PatchNode(patch))
        }
        _ => None,
    })
}
