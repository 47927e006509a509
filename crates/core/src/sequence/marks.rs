//! What has to be written on nodes, so that nobody lands where it is too early, and so that it survives a restart.

use super::{
    Facts,
    evaluate::{Evaluation, GroupView, NodeView},
    index::SequenceEntry,
    keys,
    spec::{Enforcement, GroupId, NodeGuard, RecordedGroup, Spec},
    views::{Common, NodeSet},
};
use crate::{
    Uid,
    decision::{Action, NodePatch},
    journal::Journal,
    node::{Node, Taint},
    planted::{Bug, planted},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to be written on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Labels that are to be there with this value, or not at all.
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// What is to be written down: `None` if that is as it is, `Some(None)` if nothing is any more.
    pub journal: Option<Option<Journal>>,
    pub taints: Taints,
}

/// What is to be done to the taints of a node, which are one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taints {
    /// Whether the node had any, and whether it has annotations to which one can be added.
    pub had_any: bool,
    pub annotated: bool,
    /// Places in the list, the last one first, with the keys that are there.
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

/// The taints of a node that are to be, of those that are a sequence's own.
fn taints(node: &Node, uid: &str, wanted: &BTreeSet<Arc<str>>) -> Taints {
    let is_ours = |taint: &Taint| keys::is_key(&taint.key) && *taint.value == *uid;
    let ours = node.taints.iter().enumerate().filter(|(_, taint)| is_ours(taint));
    let ours: Vec<(usize, Arc<str>)> = ours.map(|(place, taint)| (place, taint.key.clone())).collect();
    let is_there = |key: &Arc<str>| ours.iter().any(|(_, there)| there == key);
    Taints {
        had_any: !node.taints.is_empty(),
        annotated: node.annotated,
        add: wanted.iter().filter(|key| !is_there(key)).cloned().collect(),
        remove: ours.iter().rev().filter(|(_, key)| !wanted.contains(key)).cloned().collect(),
    }
}

/// What has to be written on the nodes as they are judged now. What is being written already waits for its answer.
pub fn marks<'a>(
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    evaluation: &'a Evaluation<'a>,
) -> impl Iterator<Item = Action> + 'a {
    let uid = entry.sequence.uid;
    let common = evaluation.nodes.common();
    let unwritten = evaluation
        .nodes
        .of(NodeSet::Unwritten)
        .filter(move |(name, _)| !facts.sequences.is_being_marked(name));
    unwritten.filter_map(move |(name, judged)| {
        let node = facts.cluster.node(name)?;
        let marks = marks_of(facts, entry, spec, common?, node, &judged.view);
        (!marks.is_nothing()).then(|| Action::PatchNode(NodePatch::new(uid, node, marks)))
    })
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
            (true, _) => drop(labels.insert(key.clone(), Some(uid.clone()))),
            (false, Some(_)) => drop(labels.insert(key.clone(), None)),
            (false, None) => {}
        }
    }
    // Keys of groups that are not in the spec any more.
    let old = node.labels.iter().filter(|(key, value)| keys::is_key(key) && *value == uid);
    labels.extend(old.filter(|(key, _)| !entry.keys().contains(key)).map(|(key, _)| (key.clone(), None)));
    let journal = Journal { groups: journaled(spec, view) };
    let written = node.journals.get(&entry.sequence.uid);
    if node.labels.get(keys::UNSEEN).is_some()
        && others_have_seen(facts, entry, node)
        && !planted(Bug::UnseenNotTaken)
    {
        labels.insert(keys::UNSEEN.into(), None);
    }
    let taints = taints(node, &uid, &as_taints);
    Marks { labels, journal: (written != Some(&journal)).then_some(Some(journal)), taints }
}

/// Whether nothing of this group may land on the node. A key is never put back after the group has been open there, unless
/// the order is to hold at every moment.
fn is_closed(spec: &Spec, view: &GroupView) -> bool {
    match spec.enforcement {
        Enforcement::Bootstrap => view.opened_at.is_none(),
        Enforcement::Continuous => !view.open,
    }
}

/// A node is unseen until every sequence has put its keys on it; the last one to do so says that it is seen.
fn others_have_seen(facts: Facts<'_>, entry: &SequenceEntry, node: &Node) -> bool {
    let others = facts.sequences.node_scoped().filter(|uid| *uid != entry.sequence.uid);
    let mut others = others.filter(|uid| facts.sequences.get(*uid).is_some_and(|other| !other.ghost));
    others.all(|uid| node.journals.contains_key(&uid))
}

/// What has to survive a restart: when groups opened and were complete.
fn journaled(spec: &Spec, view: &NodeView) -> BTreeMap<GroupId, RecordedGroup> {
    let each = spec.groups.iter().zip(&view.groups).filter(|(_, view)| view.opened_at.is_some());
    let each = each.map(|(group, view)| {
        let times = RecordedGroup {
            opened_at: view.opened_at,
            completed_at: view.completed_at,
            ..RecordedGroup::default()
        };
        (group.id.clone(), times)
    });
    each.collect()
}

/// Takes everything off the nodes that a sequence has left there.
pub fn unmark(facts: Facts<'_>, sequence: Uid) -> impl Iterator<Item = Action> {
    let uid: Arc<str> = sequence.to_string().into();
    let nodes = facts.marked_for(sequence).filter(move |node| !facts.sequences.is_being_marked(&node.name));
    nodes.filter(|_| !planted(Bug::MarksStay)).filter_map(move |node| {
        let ours = node.labels.iter().filter(|(key, value)| keys::is_key(key) && *value == uid);
        // A living namesake writes its own value over it; taken away meanwhile, the node would be open for a moment.
        let left = ours.filter(|(key, _)| !is_of_another(facts, sequence, key));
        let labels = left.map(|(key, _)| (key.clone(), None)).collect();
        let journal = node.journals.contains_key(&sequence).then_some(None);
        let marks = Marks { labels, journal, taints: taints(node, &uid, &BTreeSet::new()) };
        (!marks.is_nothing()).then(|| Action::PatchNode(NodePatch::new(sequence, node, marks)))
    })
}

/// Whether a living sequence closes nodes by this key.
fn is_of_another(facts: Facts<'_>, sequence: Uid, key: &Arc<str>) -> bool {
    let others = facts
        .sequences
        .node_scoped()
        .filter(|uid| *uid != sequence)
        .filter_map(|uid| facts.sequences.get(uid));
    others.filter(|other| !other.ghost).any(|other| other.keys().contains(key))
}

/// Takes the taints of a sequence off the nodes, and nothing else.
pub fn untaint(facts: Facts<'_>, sequence: Uid) -> impl Iterator<Item = Action> {
    unmark(facts, sequence).filter_map(|action| match action {
        Action::PatchNode(patch) if !patch.marks.taints.is_nothing() => {
            let marks = Box::new(Marks { taints: patch.marks.taints, ..Marks::default() });
            Some(Action::PatchNode(NodePatch { marks, ..patch }))
        }
        Action::PatchNode(_) | Action::PatchPod(_) | Action::WriteNote { .. } | Action::DropNote { .. } => {
            None
        }
    })
}
