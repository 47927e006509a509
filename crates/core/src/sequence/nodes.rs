//! Node scope: the groups start in order on each node independently.
//!
//! ```text
//! judge:     evaluates each node, from its pods and from the journal on the node
//! aggregate: combines all nodes into the state of the sequence
//! marks:     the labels, taints and journals to write on nodes, so that no pod starts too early there (marks.rs)
//! ```

use super::{
    Facts, blocked,
    evaluate::{Evaluation, GroupView, Judge, NodeView, is_absent, is_finished, only_remains, required},
    events::of_view,
    index::{SequenceEntry, Standing},
    keys,
    marks::marks_of,
    reason::Reason,
    spec::{
        Enforcement, Group, GroupId, Members, NodeGuard, NodeReady, RecordedGroup, Scope, Spec, WorkloadRef,
    },
    views::{Common, CommonGroup, Judged, Judgements, NodeGroupFlags, NodeTimer, Views},
};
use crate::{
    Timestamp, Uid,
    facts::{OwnerKind, Pod},
    journal::begun_again,
    node::{Node, Taint, TaintEffect, is_part_of},
    planted::{Bug, planted},
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use super::marks::{Marks, Taints};

/// Evaluates the nodes that have changed since their last evaluation, or all nodes if [`Common`] has changed.
pub fn judge<'a>(
    facts: Facts<'_>,
    entry: &'a SequenceEntry,
    spec: &Spec,
    now: Timestamp,
    resumed_at: Option<Timestamp>,
) -> Views<'a> {
    let common = common(facts, entry, spec, resumed_at);
    let kept = Some(entry.node_results()).filter(|results| results.rests_on(&common));
    let one = |node: &Node| {
        let recorded = recorded(entry, spec, node);
        let view = Judge::new(facts, entry, spec, Some((node, &recorded)), now, resumed_at).all();
        (node.name.clone(), Arc::new(judged(facts, entry, spec, &common, node, view)))
    };
    let nodes = match kept {
        Some(results) => {
            let due = results.due(now).filter_map(|name| facts.cluster.node(name));
            due.filter(|node| !node.terminating).map(one).collect()
        }
        None => facts.cluster.nodes().map(one).collect(),
    };
    Views::new(kept, spec.groups.len(), Judgements { common: Some(Arc::new(common)), nodes })
}

/// Collects the common input of the evaluation of all nodes.
fn common(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec, resumed_at: Option<Timestamp>) -> Common {
    let groups = (0..spec.groups.len()).map(|position| {
        let cell = entry.cell(position);
        CommonGroup {
            empty: is_empty(facts, entry, spec, position),
            stopped: cell.sum().stopped > 0,
            finished: is_finished(facts, cell),
            only_remains: only_remains(facts, cell),
            absent: is_absent(entry, &spec.groups[position], position),
            all_placed: all_placed(entry, spec, position),
            needs_key: needs_key(facts, entry, spec, position),
            daemons: cell
                .owners()
                .filter_map(|uid| Some((uid, facts.cluster.placement_since(uid)?)))
                .collect(),
        }
    });
    let (groups, opened_by_hand) = (groups.collect(), entry.sequence.opened_by_hand.clone());
    let begun_again = entry.recorded().begun_again.clone();
    Common { resumed_at, begun_again, opened_by_hand, groups }
}

/// Derives from an evaluation the work that remains on a node.
fn judged(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    common: &Common,
    node: &Node,
    view: NodeView,
) -> Judged {
    let unseen = node.labels.get(keys::UNSEEN).is_some();
    let here = view.groups.iter().enumerate().map(|(position, view)| {
        let cell = entry.cell_on(&node.name, position);
        let unheld = || cell.into_iter().flat_map(|cell| blocked::unheld(facts, cell, spec, usize::MAX));
        NodeGroupFlags {
            exposed: !view.open && !unseen && !carries(node, entry.key(position)),
            releasable: view.open && cell.is_some_and(|cell| cell.number(Standing::Held) > 0),
            early: view.opened_at.is_none() && unheld().any(blocked::runs),
        }
    });
    let here = here.collect();
    let unwritten = !marks_of(facts, entry, spec, common, node, &view).is_nothing();
    Judged { view, unwritten, here }
}

/// The times of the groups on a node: from the last decision, else from the journal on the node. Another controller that is
/// active at the same time may have written other times. Both then use the later ones, or they would overwrite each other
/// indefinitely.
fn recorded(entry: &SequenceEntry, spec: &Spec, node: &Node) -> BTreeMap<GroupId, RecordedGroup> {
    if planted(Bug::OneNodeOpensAll) {
        return entry.recorded().groups.clone();
    }
    let written = node.journals.get(&entry.sequence.uid).map(|journal| {
        match journal.begun_again == entry.recorded().begun_again {
            true => journal.groups.clone(),
            // The journal belongs to an earlier start.
            false => begun_again(&journal.groups),
        }
    });
    let written = written.unwrap_or_default();
    let Some(view) = entry.view_of(&node.name) else { return written };
    let bootstrap = spec.enforcement == Enforcement::Bootstrap;
    let mut times = times(spec, view);
    for (id, ours) in &mut times {
        if let Some(theirs) = written.get(id) {
            ours.agree_with(theirs, bootstrap);
        }
    }
    times
}

fn times(spec: &Spec, view: &NodeView) -> BTreeMap<GroupId, RecordedGroup> {
    spec.groups.iter().zip(&view.groups).map(|(group, view)| (group.id.clone(), of_view(view))).collect()
}

/// Counts the members of a group on a node, and the number expected there.
pub(super) fn count(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    node: &Node,
    position: usize,
) -> GroupView {
    let group = &spec.groups[position];
    if !is_part_of(&group.node_selector, &node.labels) {
        // The group does not apply to this node, so it is complete here.
        return GroupView { expected: Some(0), required: Some(0), ..GroupView::default() };
    }
    let cell = entry.cell_on(&node.name, position);
    let number = |standing| cell.map_or(0, |cell| cell.number(standing));
    let present = cell.map_or(0, |cell| cell.present());
    let expected = match &group.members {
        _ if is_empty(facts, entry, spec, position) => None,
        _ if group.expected.is_some() => group.expected,
        // The nodes of listed pods that do not exist yet, or are not bound, are unknown.
        Members::Names(_) => (present > 0 || all_placed(entry, spec, position)).then_some(present),
        Members::Selector(_) | Members::Workload(_) => {
            Some(present + missing_daemons(facts, entry, node, position))
        }
        Members::None => Some(0),
    };
    GroupView {
        expected,
        required: expected.map(|expected| required(group, expected)),
        present,
        released: present - number(Standing::Held),
        arrived: number(Standing::Arrived),
        stopped: entry.cell(position).sum().stopped > 0,
        lacks: group
            .node_ready
            .clone()
            .filter(|wanted| !shows(facts, node, wanted) && !planted(Bug::NodeReadyIgnored)),
        ..GroupView::default()
    }
}

/// Whether a group that needs members has none, so that it is not complete on any node.
fn is_empty(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec, position: usize) -> bool {
    spec.groups[position].members != Members::None
        && (entry.cell(position).is_empty() || lacks_workload(facts, entry, spec, position))
}

/// Whether the workload that a group names does not exist, or is a CronJob that has not run. The nodes of its pods are then
/// unknown.
fn lacks_workload(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec, position: usize) -> bool {
    let Members::Workload(WorkloadRef { kind, name }) = &spec.groups[position].members else { return false };
    let owner = facts.cluster.owner_named(&spec.pod_namespace, *kind, name);
    let awaits_run = |uid| *kind == OwnerKind::CronJob && facts.cluster.latest_run(uid).is_none();
    !entry.cell(position).has_workload() || owner.is_some_and(|owner| awaits_run(owner.uid))
}

/// Whether the nodes of all pods that a group lists are known.
fn all_placed(entry: &SequenceEntry, spec: &Spec, position: usize) -> bool {
    let Members::Names(names) = &spec.groups[position].members else { return true };
    let placed = entry.cell(position).present() - entry.floating(position).present();
    placed + entry.in_earlier_group(position) >= names.len() as u32
}

/// Returns the number of DaemonSets of a group that want a pod on a node but have none there.
fn missing_daemons(facts: Facts<'_>, entry: &SequenceEntry, node: &Node, position: usize) -> u32 {
    let here = entry.cell_on(&node.name, position);
    let has_none = |uid: &Uid| here.is_none_or(|cell| cell.pods_of(*uid) == 0);
    let wanting =
        entry.cell(position).owners().filter(has_none).filter(|uid| wants_daemon_on(facts, *uid, node));
    wanting.count() as u32
}

fn wants_daemon_on(facts: Facts<'_>, owner: Uid, node: &Node) -> bool {
    let owner = facts.cluster.owner(owner).filter(|owner| !owner.terminating);
    let placement = owner.and_then(|owner| owner.placement.as_ref());
    placement.is_some_and(|placement| placement.wants_daemon_on(node, keys::is_key))
}

fn shows(facts: Facts<'_>, node: &Node, wanted: &NodeReady) -> bool {
    match wanted {
        NodeReady::CsiDriver(driver) => facts.cluster.has_driver(node, driver),
        NodeReady::Allocatable(resource) => node.resources.contains(resource),
        NodeReady::Condition(condition) => node.conditions.contains(condition),
    }
}

/// Combines the nodes: a group is open if it is open on any node, and complete if it is complete on all nodes.
pub(super) fn aggregate(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    nodes: &Views,
    now: Timestamp,
) -> NodeView {
    let groups = spec.groups.iter().enumerate().map(|(position, group)| {
        let recorded = entry.recorded().groups.get(&group.id).copied().unwrap_or_default();
        let (count, floating) = (nodes.count(position), entry.floating(position).present());
        let open = count.open > 0;
        // A node without members is complete, so all nodes can be complete before any member is scheduled. The group as a whole
        // is complete only once its existing members have arrived.
        let members = MemberCounts::new(facts, entry, position);
        let been_complete = spec.enforcement == Enforcement::Bootstrap && recorded.completed_at.is_some();
        let complete = nodes.number() > 0
            && count.complete == nodes.number()
            && (been_complete
                || is_absent(entry, group, position)
                || members.arrived + members.outdated >= required(group, members.present));
        GroupView {
            open,
            complete,
            passed: complete,
            timed_out: count.timed_out > 0,
            stopped: entry.cell(position).sum().stopped > 0,
            settles_at: nodes.first(NodeTimer::Settled(position as u32)),
            expected: count.expected.with(floating),
            required: count.required.with(floating),
            present: members.present,
            released: members.present - members.held,
            arrived: members.arrived,
            opened_at: recorded.opened_at.or(open.then_some(now)),
            completed_at: recorded.completed_at.filter(|_| complete).or(complete.then_some(now)),
            ..GroupView::default()
        }
    });
    NodeView { groups: groups.collect(), wake_at: nodes.first(NodeTimer::Wake) }
}

/// Numbers of members of a group, without those bound to a node that no longer exists.
struct MemberCounts {
    present: u32,
    held: u32,
    arrived: u32,
    outdated: u32,
}

impl MemberCounts {
    fn new(facts: Facts<'_>, entry: &SequenceEntry, position: usize) -> MemberCounts {
        let cell = entry.cell(position);
        let mut counted = MemberCounts {
            present: cell.present(),
            held: cell.number(Standing::Held),
            arrived: cell.number(Standing::Arrived),
            outdated: cell.number(Standing::Outdated),
        };
        for (standing, uid) in entry.node_results().members_on_missing_nodes(position) {
            if facts.cluster.pod(uid).is_some_and(|pod| pod.is_bound()) {
                counted.present -= 1;
                counted.arrived -= u32::from(standing == Standing::Arrived);
                counted.outdated -= u32::from(standing == Standing::Outdated);
            }
        }
        counted
    }
}

/// Whether a member does not count because it is bound to a node that no longer exists.
pub fn is_on_gone_node(facts: Facts<'_>, spec: &Spec, pod: &Pod) -> bool {
    spec.scope == Scope::Node && pod.node.as_ref().is_some_and(|node| !facts.cluster.takes_part(node))
}

/// Returns a reason if the template of a member DaemonSet does not tolerate the taint of a later group.
pub(super) fn lacking_toleration(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec) -> Option<Reason> {
    (0..spec.groups.len()).find_map(|position| {
        let mut daemons = entry.cell(position).owners().filter_map(|uid| facts.cluster.owner(uid));
        daemons.find_map(|owner| {
            let placement = owner.placement.as_ref()?;
            let key = tolerated(facts, entry, spec, position).into_iter().find(|key| {
                let (value, effect) = (entry.sequence.uid.to_string().into(), TaintEffect::NoSchedule);
                !placement.tolerates(&Taint { key: key.clone(), value, effect })
            })?;
            Some(Reason::TemplateLacksToleration { daemon_set: owner.name.clone(), key })
        })
    })
}

/// With `nodeGuard: Taints`: the taint keys of later groups, which members of this group must tolerate.
pub fn tolerated(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec, position: usize) -> Vec<Arc<str>> {
    if spec.guard != NodeGuard::Taints {
        return Vec::new();
    }
    let later = position + 1..spec.groups.len();
    let later = later.filter(|later| needs_key(facts, entry, spec, *later));
    later.map(|later| entry.key(later).clone()).collect()
}

/// Whether all nodes where a group is not open are blocked for it, according to their last seen state. Only then is it safe to
/// release a pod that can be scheduled to any node.
pub fn is_guarded(evaluation: &Evaluation, position: usize) -> bool {
    evaluation.nodes.count(position).exposed == 0
}

/// Whether a node carries this blocked key, as a label or as a taint.
pub fn carries(node: &Node, key: &str) -> bool {
    node.labels.get(key).is_some() || node.taints.iter().any(|taint| *taint.key == *key)
}

/// Whether a pod of a group may be released.
pub fn may_release(facts: Facts<'_>, evaluation: &Evaluation, pod: Uid, position: usize) -> bool {
    let Some(pod) = facts.cluster.pod(pod) else { return false };
    match facts.cluster.node_of(pod) {
        Some(node) => evaluation.nodes.get(&node).is_some_and(|there| there.view.groups[position].open),
        None => evaluation.groups[position].open && is_guarded(evaluation, position),
    }
}

/// Whether nodes must be blocked for a group: it waits for others, and not all of its members are DaemonSet pods, whose nodes are
/// known from the start.
pub(super) fn needs_key(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec, position: usize) -> bool {
    let is_daemon = |uid| facts.cluster.owner(uid).is_some_and(|owner| owner.kind == OwnerKind::DaemonSet);
    let Group { after, members, .. } = &spec.groups[position];
    !after.is_empty() && *members != Members::None && !entry.cell(position).is_all_of(is_daemon)
}

/// The label keys that a pod without a node must avoid. Taints need no entry: they repel the pod by themselves.
pub fn avoided(entry: &SequenceEntry, spec: &Spec, position: usize) -> impl Iterator<Item = Arc<str>> {
    let key = (spec.guard == NodeGuard::Labels).then(|| entry.key(position).clone());
    key.into_iter().chain([Arc::from(keys::UNSEEN)])
}
