//! Node scope: each node goes through the groups on its own.
//!
//! ```text
//! judge:    every node by itself, from the pods that belong to it and from what is written down on it
//! together: what all of them make of the sequence
//! marks:    what has to be written on which node, so that nobody lands where it is too early
//! ```

use super::{
    decide::Action,
    evaluate::{Evaluation, GroupView, Judge, NodeView, required},
    keys,
    reason::Reason,
    spec::{Enforcement, GroupId, Members, NodeGuard, NodeReady, RecordedGroup, Spec},
};
use crate::{
    Timestamp, Uid,
    facts::OwnerKind,
    index::{Index, SequenceEntry, Standing},
    node::{Effect, Journal, Node, Taint, is_part_of},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Judges every node; those about which nothing has changed keep the judgement they have.
pub fn judge(
    index: &Index,
    entry: &SequenceEntry,
    spec: &Spec,
    now: Timestamp,
    resumed_at: Option<Timestamp>,
) -> BTreeMap<Arc<str>, Arc<NodeView>> {
    let each = index.nodes().map(|node| {
        let view = match entry.fresh_view_of(&node.name, now) {
            Some(view) => view.clone(),
            None => Arc::new(judge_one(index, entry, spec, node, now, resumed_at)),
        };
        (node.name.clone(), view)
    });
    each.collect()
}

fn judge_one(
    index: &Index,
    entry: &SequenceEntry,
    spec: &Spec,
    node: &Node,
    now: Timestamp,
    resumed_at: Option<Timestamp>,
) -> NodeView {
    let recorded = recorded(entry, spec, node);
    Judge::new(index, entry, spec, Some((node, &recorded)), now, resumed_at).all()
}

/// The times of the groups on a node: as decided last, else as written down there. Another controller that acts at the same time
/// may have written down others: the later ones hold for both, or each would write its own over the other's for ever.
fn recorded(entry: &SequenceEntry, spec: &Spec, node: &Node) -> BTreeMap<GroupId, RecordedGroup> {
    let written = node.journals.get(&entry.sequence.uid).map(|journal| journal.groups.clone());
    let written = written.unwrap_or_default();
    let Some(view) = entry.view_of(&node.name) else { return written };
    let bootstrap = spec.enforcement == Enforcement::Bootstrap;
    let later = |ours: Option<Timestamp>, theirs: Option<Timestamp>| match ours {
        None if !bootstrap => None,
        ours => ours.max(theirs),
    };
    let mut times = times(spec, view);
    for (id, ours) in &mut times {
        let Some(theirs) = written.get(id) else { continue };
        ours.opened_at = later(ours.opened_at, theirs.opened_at);
        ours.completed_at = later(ours.completed_at, theirs.completed_at);
    }
    times
}

fn times(spec: &Spec, view: &NodeView) -> BTreeMap<GroupId, RecordedGroup> {
    let each = spec.groups.iter().zip(&view.groups).map(|(group, view)| {
        let GroupView { opened_at, completed_at, timed_out, opened_ahead, completed_ahead, .. } = *view;
        (
            group.id.clone(),
            RecordedGroup { opened_at, completed_at, timed_out, opened_ahead, completed_ahead },
        )
    });
    each.collect()
}

/// Counts the members of a group that belong to a node, and what is expected there.
pub(super) fn count(
    index: &Index,
    entry: &SequenceEntry,
    spec: &Spec,
    node: &Node,
    position: usize,
) -> GroupView {
    let group = &spec.groups[position];
    if !is_part_of(&group.node_selector, &node.labels) {
        // This group is not for this node, so nobody waits for it here.
        return GroupView { expected: Some(0), required: Some(0), ..GroupView::default() };
    }
    let cell = entry.cell_on(&node.name, position);
    let number = |standing| cell.map_or(0, |cell| cell.number(standing));
    let present = cell.map_or(0, |cell| cell.present());
    let expected = match &group.members {
        _ if entry.cell(position).is_empty() => None,
        _ if group.expected.is_some() => group.expected,
        Members::Names(names) => {
            // Where the pods will be that do not exist yet, or are not bound, nobody knows.
            let placed = entry.cell(position).present() - entry.floating(position).present();
            let all_placed = placed + entry.lost(position) >= names.len() as u32 + entry.unlisted(position);
            (present > 0 || all_placed).then_some(present)
        }
        Members::Selector(_) => Some(present + missing_daemons(index, entry, node, position)),
    };
    GroupView {
        expected,
        required: expected.map(|expected| required(group, expected)),
        present,
        released: present - number(Standing::Held),
        arrived: number(Standing::Arrived),
        lacks: group.node_ready.clone().filter(|wanted| !shows(index, node, wanted)),
        ..GroupView::default()
    }
}

/// DaemonSets of a group that want a pod on a node and have none there.
fn missing_daemons(index: &Index, entry: &SequenceEntry, node: &Node, position: usize) -> u32 {
    let here = entry.cell_on(&node.name, position);
    let has_none = |uid: &Uid| here.is_none_or(|cell| cell.pods_of(*uid) == 0);
    let wanting =
        entry.cell(position).owners().filter(has_none).filter(|uid| wants_daemon_on(index, *uid, node));
    wanting.count() as u32
}

fn wants_daemon_on(index: &Index, owner: Uid, node: &Node) -> bool {
    let owner = index.owner(owner).filter(|owner| !owner.terminating);
    let placement = owner.and_then(|owner| owner.placement.as_ref());
    placement.is_some_and(|placement| placement.wants_daemon_on(node, keys::is_key))
}

fn shows(index: &Index, node: &Node, wanted: &NodeReady) -> bool {
    match wanted {
        NodeReady::CsiDriver(driver) => index.has_driver(&node.name, driver),
        NodeReady::Allocatable(resource) => node.resources.contains(resource),
        NodeReady::Condition(condition) => node.conditions.contains(condition),
    }
}

/// What all nodes make of each group: open where it is open anywhere, complete where it is so everywhere.
pub(super) fn together(
    entry: &SequenceEntry,
    spec: &Spec,
    nodes: &BTreeMap<Arc<str>, Arc<NodeView>>,
    now: Timestamp,
) -> NodeView {
    let wake_at = nodes.values().filter_map(|view| view.wake_at).min();
    let groups = spec.groups.iter().enumerate().map(|(position, group)| {
        let recorded = entry.recorded().groups.get(&group.id).copied().unwrap_or_default();
        let views = || nodes.values().map(|view| &view.groups[position]);
        let floating = entry.floating(position);
        let sum = |of: fn(&GroupView) -> Option<u32>| {
            views().map(of).try_fold(floating.present(), |sum, number| Some(sum + number?))
        };
        let open = views().any(|view| view.open);
        // A node that holds no member is complete, so all may be before any member has landed. For the sequence as a whole
        // that is not the end: those that there are have to arrive, once.
        let cell = entry.cell(position);
        let arrived = cell.number(Standing::Arrived) + cell.number(Standing::Outdated);
        let been_complete = spec.enforcement == Enforcement::Bootstrap && recorded.completed_at.is_some();
        let complete = !nodes.is_empty()
            && views().all(|view| view.complete)
            && (been_complete || arrived >= required(group, cell.present()));
        GroupView {
            open,
            complete,
            passed: complete,
            timed_out: views().any(|view| view.timed_out),
            settles_at: views().filter_map(|view| view.settles_at).min(),
            expected: sum(|view| view.expected),
            required: sum(|view| view.required),
            present: cell.present(),
            released: cell.present() - cell.number(Standing::Held),
            arrived: cell.number(Standing::Arrived),
            opened_at: recorded.opened_at.or(open.then_some(now)),
            completed_at: recorded.completed_at.filter(|_| complete).or(complete.then_some(now)),
            ..GroupView::default()
        }
    });
    NodeView { groups: groups.collect(), wake_at }
}

/// What is to be written on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// Labels that are to be there with this value, or not at all.
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// What is to be written down: `None` if that is as it is, `Some(None)` if nothing is any more.
    pub journal: Option<Option<Journal>>,
    pub taints: Taints,
}

/// What is to be done to the taints of a node. They are one list, so it has to be as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taints {
    /// The version of the node, whether it had any, and whether it has annotations to which one can be added.
    pub version: u64,
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
    fn is_nothing(&self) -> bool {
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
        version: node.version,
        had_any: !node.taints.is_empty(),
        annotated: node.annotated,
        add: wanted.iter().filter(|key| !is_there(key)).cloned().collect(),
        remove: ours.iter().rev().filter(|(_, key)| !wanted.contains(key)).cloned().collect(),
    }
}

/// A DaemonSet of a group whose template does not tolerate what keeps nodes closed for a later one.
pub(super) fn lacking_toleration(index: &Index, entry: &SequenceEntry, spec: &Spec) -> Option<Reason> {
    (0..spec.groups.len()).find_map(|position| {
        let mut daemons = entry.cell(position).owners().filter_map(|uid| index.owner(uid));
        daemons.find_map(|owner| {
            let placement = owner.placement.as_ref()?;
            let key = tolerated(index, entry, spec, position).into_iter().find(|key| {
                let (value, effect) = (entry.sequence.uid.to_string().into(), Effect::NoSchedule);
                !placement.tolerates(&Taint { key: key.clone(), value, effect })
            })?;
            Some(Reason::TemplateLacksToleration { daemon_set: owner.name.clone(), key })
        })
    })
}

/// With taints: what the members of a group must tolerate, because it keeps nodes closed only for those who come later.
pub fn tolerated(index: &Index, entry: &SequenceEntry, spec: &Spec, position: usize) -> Vec<Arc<str>> {
    if spec.guard != NodeGuard::Taints {
        return Vec::new();
    }
    let later = position + 1..spec.groups.len();
    let later = later.filter(|later| needs_key(index, entry, spec, *later));
    later.map(|later| entry.key(later).clone()).collect()
}

/// What has to be written on the nodes as they are judged now. What is being written already waits for its answer.
pub fn marks<'a>(
    index: &'a Index,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    evaluation: &'a Evaluation,
) -> impl Iterator<Item = Action> + 'a {
    let uid = entry.sequence.uid;
    let judged = index.nodes().filter_map(|node| Some((node, evaluation.nodes.get(&node.name)?)));
    judged.filter(move |(node, _)| !index.is_marking(uid, &node.name)).filter_map(move |(node, view)| {
        let marks = marks_of(index, entry, spec, node, view);
        let node_uid = node.uid;
        (!marks.is_nothing()).then(|| Action::Mark {
            sequence: uid,
            node: node_uid,
            name: node.name.clone(),
            marks: Box::new(marks),
        })
    })
}

fn marks_of(index: &Index, entry: &SequenceEntry, spec: &Spec, node: &Node, view: &NodeView) -> Marks {
    let uid: Arc<str> = entry.sequence.uid.to_string().into();
    let closed = (0..spec.groups.len()).filter(|position| {
        is_closed(spec, &view.groups[*position]) && needs_key(index, entry, spec, *position)
    });
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
    if node.labels.get(keys::UNSEEN).is_some() && others_have_seen(index, entry, node) {
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

/// Whether a group can have members that are not bound to a node from the beginning.
fn needs_key(index: &Index, entry: &SequenceEntry, spec: &Spec, position: usize) -> bool {
    let is_daemon = |uid| index.owner(uid).is_some_and(|owner| owner.kind == OwnerKind::DaemonSet);
    !spec.groups[position].after.is_empty() && !entry.cell(position).is_all_of(is_daemon)
}

/// A node is unseen until every sequence has put its keys on it; the last one to do so says that it is seen.
fn others_have_seen(index: &Index, entry: &SequenceEntry, node: &Node) -> bool {
    let others = index.node_scoped().filter(|uid| *uid != entry.sequence.uid);
    let mut others = others.filter(|uid| index.sequence(*uid).is_some_and(|other| !other.ghost));
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
pub fn unmark(index: &Index, sequence: Uid) -> impl Iterator<Item = Action> {
    let uid: Arc<str> = sequence.to_string().into();
    let nodes = index.marked_for(sequence).filter(move |node| !index.is_marking(sequence, &node.name));
    nodes.filter_map(move |node| {
        let ours = node.labels.iter().filter(|(key, value)| keys::is_key(key) && *value == uid);
        // A living namesake writes its own value over it; taken away meanwhile, the node would be open for a moment.
        let left = ours.filter(|(key, _)| !is_of_another(index, sequence, key));
        let labels = left.map(|(key, _)| (key.clone(), None)).collect();
        let journal = node.journals.contains_key(&sequence).then_some(None);
        let taints = taints(node, &uid, &BTreeSet::new());
        let (node, name, marks) = (node.uid, node.name.clone(), Marks { labels, journal, taints });
        (!marks.is_nothing()).then(|| Action::Mark { sequence, node, name, marks: Box::new(marks) })
    })
}

/// Whether a living sequence closes nodes by this key.
fn is_of_another(index: &Index, sequence: Uid, key: &Arc<str>) -> bool {
    let others = index.node_scoped().filter(|uid| *uid != sequence).filter_map(|uid| index.sequence(uid));
    others.filter(|other| !other.ghost).any(|other| other.keys().contains(key))
}

/// Takes the taints of a sequence off the nodes, and nothing else.
pub fn untaint(index: &Index, sequence: Uid) -> impl Iterator<Item = Action> {
    unmark(index, sequence).filter_map(|action| match action {
        Action::Mark { sequence, node, name, marks } if !marks.taints.is_nothing() => {
            let marks = Box::new(Marks { taints: marks.taints, ..Marks::default() });
            Some(Action::Mark { sequence, node, name, marks })
        }
        _ => None,
    })
}

/// Whether every node that has not reached a group is kept closed for it, as far as the API server has told us: only then may
/// somebody go who could land anywhere.
pub fn is_guarded(index: &Index, entry: &SequenceEntry, evaluation: &Evaluation, position: usize) -> bool {
    let key = entry.key(position);
    index.nodes().all(|node| {
        let open = evaluation.nodes.get(&node.name).is_some_and(|view| view.groups[position].open);
        open || carries(node, key) || node.labels.get(keys::UNSEEN).is_some()
    })
}

/// Whether a node is kept closed by this key, in one way or the other.
pub fn carries(node: &Node, key: &str) -> bool {
    node.labels.get(key).is_some() || node.taints.iter().any(|taint| *taint.key == *key)
}

/// Whether a group may let a pod go.
pub fn lets_go(
    index: &Index,
    entry: &SequenceEntry,
    evaluation: &Evaluation,
    pod: Uid,
    position: usize,
) -> bool {
    let Some(pod) = index.pod(pod) else { return false };
    match index.node_of(pod) {
        Some(node) => evaluation.nodes.get(&node).is_some_and(|view| view.groups[position].open),
        None => evaluation.groups[position].open && is_guarded(index, entry, evaluation, position),
    }
}

/// What a pod has to avoid that could land anywhere. A taint keeps it away without a word.
pub fn avoided(entry: &SequenceEntry, spec: &Spec, position: usize) -> impl Iterator<Item = Arc<str>> {
    let key = (spec.guard == NodeGuard::Labels).then(|| entry.key(position).clone());
    key.into_iter().chain([Arc::from(keys::UNSEEN)])
}
