//! Which groups of a sequence are open, complete or timed out: a function of the facts and of `now`.

use super::{
    Facts,
    index::{Cell, SequenceEntry, Standing},
    nodes,
    reason::{Progress, Reason},
    spec::{
        Enforcement, Group, GroupId, Members, NodeGuard, NodeReady, OnTimeout, RecordedGroup, Scope, Spec,
    },
    status::GroupState,
    views::Views,
};
use crate::{
    Timestamp,
    facts::{Owner, OwnerKind},
    node::Node,
    planted::{Bug, planted},
};
use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a sequence waits after its creation for members of an open optional group. Two seconds, plus one because
/// `creationTimestamp` has no fraction of a second.
const ABSENT_AFTER: Duration = Duration::from_secs(3);

/// The evaluation of a sequence at one moment.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// Why the whole sequence cannot continue. If set, `groups` is empty, unless the reason is a timeout.
    pub stall: Option<Reason>,
    pub groups: Vec<GroupView>,
    /// The next moment when time alone changes this result.
    pub wake_at: Option<Timestamp>,
    pub resumed_at: Option<Timestamp>,
    /// The moment of the evaluation, in whole milliseconds.
    pub now: Timestamp,
    /// In Node scope: the evaluation of each node that takes part. `groups` then aggregates all nodes.
    pub nodes: Views<'a>,
}

/// The evaluation of all groups on one node at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    pub groups: Vec<GroupView>,
    /// The next moment when time alone changes this result.
    pub wake_at: Option<Timestamp>,
}

impl NodeView {
    /// The first group that is not complete on the node.
    pub fn current(&self) -> Option<usize> {
        self.groups.iter().position(|view| !view.complete)
    }
}

/// The evaluation of a group at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupView {
    /// Whether its members may be released.
    pub open: bool,
    /// Whether enough members have arrived: now or, in Bootstrap, at any time before.
    pub complete: bool,
    /// Whether groups that wait for this one may open.
    pub passed: bool,
    pub timed_out: bool,
    /// Whether one of its workloads is stopped. Such a group is not complete, unlike one whose workload has size 0.
    pub stopped: bool,
    /// Whether it was complete because its Jobs have finished.
    pub finished: bool,
    /// The end of its `waitDuration`, while that runs.
    pub settles_at: Option<Timestamp>,
    /// `None` while unknown.
    pub expected: Option<u32>,
    pub required: Option<u32>,
    pub present: u32,
    pub released: u32,
    pub arrived: u32,
    pub opened_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// If one of these times is ahead of the local clock: the moment when it was first seen.
    pub opened_ahead: Option<Timestamp>,
    pub completed_ahead: Option<Timestamp>,
    /// While the group is open: the start of the uninterrupted open time, which its timeout counts from. It is later than
    /// `opened_at` if an earlier group was incomplete, or was inserted, in the meantime.
    pub open_since: Option<Timestamp>,
    /// The time when it was passed.
    pub passed_at: Option<Timestamp>,
    /// The condition of `nodeReady` that the node does not meet yet.
    pub lacks: Option<NodeReady>,
}

impl GroupView {
    /// The number of members that have arrived, and the number required.
    pub fn progress(&self) -> Progress {
        Progress::Members { arrived: self.arrived, required: self.required }
    }

    pub fn state(&self) -> GroupState {
        match (self.complete, self.timed_out, self.open) {
            (true, _, _) => GroupState::Complete,
            (false, true, _) => GroupState::TimedOut,
            (false, false, true) => GroupState::Open,
            (false, false, false) => GroupState::Waiting,
        }
    }
}

/// Evaluates a sequence. Costs O(groups), and in Node scope O(groups) for each node that has changed.
pub fn evaluate<'a>(facts: Facts<'_>, entry: &'a SequenceEntry, now: Timestamp) -> Evaluation<'a> {
    let now = whole_millis(now);
    let resumed_at = resumed_at(entry, now);
    let spec = match actionable_spec(facts, entry) {
        Ok(spec) => spec,
        Err(stall) => {
            return Evaluation {
                stall: Some(stall),
                groups: Vec::new(),
                wake_at: None,
                resumed_at,
                now,
                nodes: Views::none(),
            };
        }
    };
    let (nodes, NodeView { groups, wake_at }) = match spec.scope {
        Scope::Cluster => (Views::none(), Judge::new(facts, entry, spec, None, now, resumed_at).all()),
        Scope::Node => {
            let nodes = nodes::judge(facts, entry, spec, now, resumed_at);
            let aggregate = nodes::aggregate(facts, entry, spec, &nodes, now);
            (nodes, aggregate)
        }
    };
    let failed =
        spec.groups.iter().zip(&groups).position(|(group, view)| {
            view.timed_out && !view.complete && group.on_timeout == OnTimeout::Fail
        });
    let evaluation = Evaluation { stall: None, groups, wake_at, resumed_at, now, nodes };
    let stall = failed.map(|position| Reason::Timeout {
        group: spec.groups[position].title.clone(),
        after: spec.groups[position].timeout.unwrap_or_default(),
        progress: evaluation.progress(spec, position),
    });
    Evaluation { stall, ..evaluation }
}

impl Evaluation<'_> {
    /// The progress of a group: in members or, for a group without members, in nodes.
    pub fn progress(&self, spec: &Spec, position: usize) -> Progress {
        match &spec.groups[position].members {
            Members::Names(_) | Members::Selector(_) | Members::Workload(_) => {
                self.groups[position].progress()
            }
            Members::None => {
                Progress::Nodes { complete: self.nodes.count(position).complete, total: self.nodes.number() }
            }
        }
    }
}

/// Returns the spec if the controller may act on it, else the reason why not.
pub(super) fn actionable_spec<'a>(
    facts: Facts<'_>,
    entry: &'a SequenceEntry,
) -> Result<&'a Arc<Spec>, Reason> {
    let sequence = &entry.sequence;
    let spec =
        sequence.spec.as_ref().map_err(|invalid| Reason::InvalidSpec { problem: invalid.to_string() })?;
    if spec.scope == Scope::Node && !facts.sequences.mode().full {
        return Err(Reason::NodeScopeNeedsFullMode);
    }
    if !facts.cluster.permits(&spec.pod_namespace, &sequence.namespace) {
        let (namespace, from) = (spec.pod_namespace.clone(), sequence.namespace.clone());
        return Err(Reason::NotPermitted { namespace, from });
    }
    if spec.scope == Scope::Node && spec.guard == NodeGuard::Taints {
        let allowed = facts.cluster.namespace(&sequence.namespace).is_some_and(|home| home.allow_node_taints);
        if !allowed {
            return Err(Reason::TaintsNotPermitted { namespace: sequence.namespace.clone() });
        }
        if let Some(lacking) = nodes::lacking_toleration(facts, entry, spec) {
            return Err(lacking);
        }
    }
    Ok(spec)
}

/// Whether a sequence takes part: a stalled or empty one holds no pods and blocks no other sequence.
pub(super) fn may_act(facts: Facts<'_>, entry: &SequenceEntry) -> bool {
    actionable_spec(facts, entry).is_ok_and(|spec| !spec.groups.is_empty())
}

/// The time when the sequence was last resumed: now, if the status still records it as suspended.
fn resumed_at(entry: &SequenceEntry, now: Timestamp) -> Option<Timestamp> {
    let recorded = entry.recorded();
    match recorded.suspended && !entry.is_suspended() {
        true => Some(now),
        false => recorded.resumed_at,
    }
}

pub(super) struct Judge<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    /// In Node scope: the node to evaluate.
    node: Option<&'a Node>,
    recorded: &'a BTreeMap<GroupId, RecordedGroup>,
    now: Timestamp,
    resumed_at: Option<Timestamp>,
    /// The groups evaluated so far. A group waits only for earlier groups, so these suffice for the next one.
    groups: Vec<GroupView>,
    wake_at: Option<Timestamp>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        facts: Facts<'a>,
        entry: &'a SequenceEntry,
        spec: &'a Spec,
        node: Option<(&'a Node, &'a BTreeMap<GroupId, RecordedGroup>)>,
        now: Timestamp,
        resumed_at: Option<Timestamp>,
    ) -> Judge<'a> {
        let (node, recorded) = match node {
            Some((node, recorded)) => (Some(node), recorded),
            None => (None, &entry.recorded().groups),
        };
        Judge { facts, entry, spec, node, recorded, now, resumed_at, groups: Vec::new(), wake_at: None }
    }

    /// Evaluates all groups in their order.
    pub(super) fn all(mut self) -> NodeView {
        for position in 0..self.spec.groups.len() {
            let view = self.group(position);
            self.groups.push(view);
        }
        NodeView { groups: self.groups, wake_at: self.wake_at }
    }

    fn group(&mut self, position: usize) -> GroupView {
        let group = &self.spec.groups[position];
        let recorded = self.recorded.get(&group.id).copied().unwrap_or_default();
        let recorded = recorded.seen(self.now);
        let mut view = self.count(position);
        (view.opened_ahead, view.completed_ahead) = (recorded.opened_ahead, recorded.completed_ahead);
        view.open = self.may_open(group, recorded);
        self.pass_by_if_absent(group, recorded, &mut view);
        self.pass_by_if_finished(recorded, &mut view);
        self.set_times(group, recorded, &mut view);
        view.open_since = self.open_since(group, recorded, &view);
        self.set_timed_out(group, &mut view);
        self.set_passed(group, recorded, &mut view);
        view
    }

    fn count(&self, position: usize) -> GroupView {
        if let Some(node) = self.node {
            return nodes::count(self.facts, self.entry, self.spec, node, position);
        }
        let group = &self.spec.groups[position];
        let cell = self.entry.cell(position);
        let outdated = cell.number(Standing::Outdated);
        let (expected, arrived) = match (&group.members, group.expected) {
            (_, Some(expected)) => (Some(expected), cell.number(Standing::Arrived)),
            (Members::Names(names), None) => {
                let listed = (names.len() as u32).saturating_sub(self.entry.in_earlier_group(position));
                (Some(listed), cell.number(Standing::Arrived) + outdated)
            }
            (Members::Selector(_), None) => {
                let sum = cell.sum();
                let known = sum.unknown == 0 && sum.expected > 0;
                (known.then_some(sum.expected), sum.arrived)
            }
            // A missing workload does not count as a workload of size 0, which would be complete.
            (Members::Workload(_), None) => {
                let sum = cell.sum();
                let known = sum.unknown == 0 && cell.has_workload();
                (known.then_some(sum.expected), sum.arrived)
            }
            // Such a group is evaluated for each node; there is nothing to count in the whole cluster.
            (Members::None, None) => (None, 0),
        };
        let present = cell.present();
        GroupView {
            expected,
            required: expected.map(|expected| self.required(position, expected)),
            present,
            released: present - cell.number(Standing::Held),
            arrived,
            stopped: cell.sum().stopped > 0,
            ..GroupView::default()
        }
    }

    fn required(&self, position: usize, expected: u32) -> u32 {
        let required = required(&self.spec.groups[position], expected);
        // Pods that belong to an earlier group do not count here, so `minReady` must not require them.
        if self.entry.in_earlier_group(position) > 0 { required.min(expected) } else { required }
    }

    fn may_open(&self, group: &Group, recorded: RecordedGroup) -> bool {
        // In Bootstrap, a group that was complete once stays open, even if groups are inserted before it.
        let been_complete =
            self.spec.enforcement == Enforcement::Bootstrap && recorded.completed_at.is_some();
        let by_hand = self.entry.sequence.opened_by_hand.contains(&group.title);
        let waited = group.after.iter().all(|earlier| self.groups[*earlier].passed);
        let opens = been_complete || by_hand || waited;
        // A suspended sequence opens nothing new.
        opens && (!self.spec.suspend || recorded.opened_at.is_some() || planted(Bug::SuspendIgnored))
    }

    /// Marks an optional group that is open and has no members as needing none. Its `nodeReady` still applies. The delay
    /// [`ABSENT_AFTER`] gives the user time to create the sequence and its workloads together.
    fn pass_by_if_absent(&mut self, group: &Group, recorded: RecordedGroup, view: &mut GroupView) {
        if !view.open || !is_absent(self.entry, group, self.groups.len()) {
            return;
        }
        let opened = recorded.opened_here(recorded.opened_at.unwrap_or(self.now), self.now);
        let due = later(self.entry.sequence.created.min(opened), ABSENT_AFTER);
        match self.now >= due {
            true => (view.expected, view.required) = (Some(0), Some(0)),
            false => self.wake_at(due),
        }
    }

    /// Keeps a group complete after its finished Jobs were deleted, by `ttlSecondsAfterFinished` or by their CronJob.
    fn pass_by_if_finished(&self, recorded: RecordedGroup, view: &mut GroupView) {
        view.finished = recorded.finished && only_remains(self.facts, self.entry.cell(self.groups.len()));
        let short = view.required.is_none_or(|required| view.arrived < required);
        if view.finished && view.open && short {
            (view.expected, view.required, view.lacks) = (Some(view.arrived), Some(view.arrived), None);
        }
    }

    /// Sets the times when the group opened and was complete. A time that was not recorded is set to now, so the wait may be
    /// longer than configured, but never shorter.
    fn set_times(&self, group: &Group, recorded: RecordedGroup, view: &mut GroupView) {
        let enough = matches!(view.required, Some(required) if view.arrived >= required)
            && view.lacks.is_none()
            && !view.stopped
            || planted(Bug::CompleteWhenOpened);
        view.finished |= enough && is_finished(self.facts, self.entry.cell(self.groups.len()));
        view.opened_at = recorded.opened_at.or(view.open.then_some(self.now));
        match self.spec.enforcement {
            Enforcement::Bootstrap => {
                // A group that must wait again, for a group inserted before it, cannot complete until it is open again.
                let complete_now = enough && view.open;
                view.complete = complete_now || recorded.completed_at.is_some() && !view.stopped;
                view.completed_at = recorded.completed_at.or(complete_now.then_some(self.now));
                if recorded.completed_at.is_some() {
                    // The group was complete before, so pods of an old ReplicaSet count as arrived during a rollout.
                    view.arrived += self.outdated_of(group, view);
                }
            }
            Enforcement::Continuous => {
                let complete_now = enough && view.opened_at.is_some();
                view.complete = complete_now;
                view.completed_at = complete_now.then(|| recorded.completed_at.unwrap_or(self.now));
                if !complete_now && recorded.completed_at.is_some() {
                    // It was complete before: its timeout starts again.
                    view.opened_at = Some(self.now);
                }
            }
        }
    }

    /// The recorded time when the group opened or, if it had to wait again since, the time when the last group that it waits for
    /// was passed.
    fn open_since(&self, group: &Group, recorded: RecordedGroup, view: &GroupView) -> Option<Timestamp> {
        let opened_at = recorded.opened_here(view.opened_at.filter(|_| view.open)?, self.now);
        let waited_for = group.after.iter().map(|earlier| &self.groups[*earlier]);
        let last_passed =
            waited_for.filter(|earlier| earlier.passed).filter_map(|earlier| earlier.passed_at).max();
        Some(last_passed.map_or(opened_at, |passed_at| passed_at.max(opened_at)))
    }

    fn outdated_of(&self, group: &Group, view: &GroupView) -> u32 {
        let position = self.groups.len();
        match (&group.members, group.expected) {
            (Members::Names(_), None) | (Members::None, _) => 0,
            (Members::Names(_) | Members::Selector(_) | Members::Workload(_), _) => {
                let room = view.expected.unwrap_or_default().saturating_sub(view.arrived);
                let cell = match self.node {
                    Some(node) => self.entry.cell_on(&node.name, position),
                    None => Some(self.entry.cell(position)),
                };
                cell.map_or(0, |cell| cell.number(Standing::Outdated)).min(room)
            }
        }
    }

    fn set_timed_out(&mut self, group: &Group, view: &mut GroupView) {
        let Some(due) = self.timeout_due(group, view) else { return };
        // A stopped group does not time out.
        if view.complete || view.stopped || self.spec.suspend {
            return;
        }
        match self.now >= due {
            true => view.timed_out = true,
            false => self.wake_at(due),
        }
    }

    fn timeout_due(&self, group: &Group, view: &GroupView) -> Option<Timestamp> {
        let (timeout, open_since) = (group.timeout?, view.open_since?);
        let since = self.resumed_at.map_or(open_since, |resumed_at| resumed_at.max(open_since));
        Some(later(since, timeout))
    }

    fn set_passed(&mut self, group: &Group, recorded: RecordedGroup, view: &mut GroupView) {
        let gone_by = self.timeout_due(group, view).filter(|_| group.on_timeout == OnTimeout::Continue);
        if let (true, Some(completed_at)) = (view.complete, view.completed_at) {
            let completed_at = recorded.completed_here(completed_at, self.now);
            let wait = if planted(Bug::SettleIgnored) { Duration::ZERO } else { group.wait };
            let settled = later(completed_at, wait);
            // A group that was passed after its timeout stays passed, without `waitDuration`, when it completes later.
            let passed_late = gone_by.filter(|due| *due <= completed_at);
            let passed_at = passed_late.unwrap_or(settled);
            if self.now < passed_at {
                view.settles_at = Some(settled);
                return self.wake_at(settled);
            }
            (view.passed, view.passed_at) = match self.spec.enforcement {
                Enforcement::Bootstrap => (true, Some(passed_at)),
                // In Continuous, a group that is not open is not passed either, so a gap in an earlier group blocks all later
                // ones.
                Enforcement::Continuous => (view.open, view.open_since.map(|since| since.max(passed_at))),
            };
        } else if view.timed_out && group.on_timeout == OnTimeout::Continue {
            (view.passed, view.passed_at) = (true, gone_by);
        }
    }

    fn wake_at(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earliest| earliest.min(at)));
    }
}

/// Whether a group is optional and has neither pods nor workloads.
pub fn is_absent(entry: &SequenceEntry, group: &Group, position: usize) -> bool {
    group.optional && entry.cell(position).is_empty()
}

/// Whether all members of a group belong to finished Jobs.
pub(super) fn is_finished(facts: Facts<'_>, cell: &Cell) -> bool {
    let is_over = |job: &Owner| job.job.is_some_and(|job| job.complete);
    cell.is_all_of(|uid| {
        let owner = facts.cluster.owner(uid);
        owner.is_some_and(is_over) || facts.cluster.latest_run(uid).is_some_and(is_over)
    })
}

/// Whether a group has only finished Jobs, CronJobs that are not stopped, pods that have arrived, and owners that no longer
/// exist. A Job is deleted before its pods.
pub(super) fn only_remains(facts: Facts<'_>, cell: &Cell) -> bool {
    let remains = |uid| match facts.cluster.owner(uid) {
        None => true,
        Some(owner) if owner.kind == OwnerKind::CronJob => !owner.stopped,
        Some(owner) => owner.job.is_some_and(|job| job.complete),
    };
    cell.present() == cell.number(Standing::Arrived) && (cell.is_empty() || cell.is_all_of(remains))
}

/// Returns how many of `expected` members must have arrived.
pub(super) fn required(group: &Group, expected: u32) -> u32 {
    let required = group.min_ready.required(expected);
    if planted(Bug::OneShort) { required.saturating_sub(1) } else { required }
}

/// Truncates to milliseconds, the precision of recorded times, so that decisions use exactly the time that is recorded.
fn whole_millis(now: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Returns `since + after`, or the latest possible time on overflow.
pub fn later(since: Timestamp, after: Duration) -> Timestamp {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    since.checked_add(after).unwrap_or(Timestamp::MAX)
}
