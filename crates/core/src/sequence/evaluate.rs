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

/// How long after its creation a sequence waits for members of an optional group that is open: two seconds, and one because the
/// time of creation is written without its fraction.
const ABSENT_AFTER: Duration = Duration::from_secs(3);

/// A sequence, judged at one moment.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// Why nothing of it can go on. Then no group is judged, unless the reason is a timeout.
    pub stall: Option<Reason>,
    pub groups: Vec<GroupView>,
    /// When the passing of time alone changes this judgement.
    pub wake_at: Option<Timestamp>,
    pub resumed_at: Option<Timestamp>,
    /// The moment, in whole milliseconds.
    pub now: Timestamp,
    /// In Node scope: every node that takes part, judged on its own; `groups` are then what all of them make together.
    pub nodes: Views<'a>,
}

/// A node, judged at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    pub groups: Vec<GroupView>,
    /// When the passing of time alone changes this judgement.
    pub wake_at: Option<Timestamp>,
}

impl NodeView {
    /// The first group that is not complete there.
    pub fn current(&self) -> Option<usize> {
        self.groups.iter().position(|view| !view.complete)
    }
}

/// A group, judged at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupView {
    /// Its members may be released.
    pub open: bool,
    /// It has what it needs: now, or, in Bootstrap, once.
    pub complete: bool,
    /// Those who wait for it need not wait any longer.
    pub passed: bool,
    pub timed_out: bool,
    /// A workload of it is stopped: it is not complete, although one of size 0 otherwise is.
    pub stopped: bool,
    /// It was complete by Jobs that are over.
    pub finished: bool,
    /// While it settles: when that is over.
    pub settles_at: Option<Timestamp>,
    /// `None` while it cannot be known.
    pub expected: Option<u32>,
    pub required: Option<u32>,
    pub present: u32,
    pub released: u32,
    pub arrived: u32,
    pub opened_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// If one of these is ahead of our clock: since when it is known.
    pub opened_ahead: Option<Timestamp>,
    pub completed_ahead: Option<Timestamp>,
    /// While it is open: since when without a break, from where its timeout counts. Later than `opened_at` if
    /// what it waits for was lost, or put before it, and came back.
    pub open_since: Option<Timestamp>,
    /// Once it is passed: since when.
    pub passed_at: Option<Timestamp>,
    /// What a node does not show yet, besides its pods.
    pub lacks: Option<NodeReady>,
}

impl GroupView {
    /// How many members have arrived.
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

/// Judges a sequence. Costs O(groups), and in Node scope as much for each node to which something has happened.
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
    /// How far a group is: in members or, if it has none, in nodes.
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

/// What keeps a sequence from being looked at at all.
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

/// Whether a sequence has a say: who is stalled, or has no groups, holds nobody and is waited for by nobody.
pub(super) fn may_act(facts: Facts<'_>, entry: &SequenceEntry) -> bool {
    actionable_spec(facts, entry).is_ok_and(|spec| !spec.groups.is_empty())
}

/// A sequence that was suspended and is not any more was resumed; if nobody wrote down when, it was now.
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
    /// In Node scope: the node that is judged.
    node: Option<&'a Node>,
    recorded: &'a BTreeMap<GroupId, RecordedGroup>,
    now: Timestamp,
    resumed_at: Option<Timestamp>,
    /// The groups judged so far: all that a group can wait for, since it waits only for earlier ones.
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

    /// Judges all groups, one after the other.
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
                let listed =
                    (names.len() as u32).saturating_sub(self.entry.claimed_by_earlier_group(position));
                (Some(listed), cell.number(Standing::Arrived) + outdated)
            }
            (Members::Selector(_), None) => {
                let sum = cell.sum();
                let known = sum.unknown == 0 && sum.expected > 0;
                (known.then_some(sum.expected), sum.arrived)
            }
            // A workload that does not exist is not one of size 0, which is complete.
            (Members::Workload(_), None) => {
                let sum = cell.sum();
                let known = sum.unknown == 0 && cell.has_workload();
                (known.then_some(sum.expected), sum.arrived)
            }
            // It is judged node by node; there is nothing to judge in the cluster as a whole.
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
        // What belongs to an earlier group is not waited for twice, however many are asked for.
        if self.entry.claimed_by_earlier_group(position) > 0 { required.min(expected) } else { required }
    }

    fn may_open(&self, group: &Group, recorded: RecordedGroup) -> bool {
        // In Bootstrap, a group that has been complete is past all waiting, whatever is edited around it.
        let been_complete =
            self.spec.enforcement == Enforcement::Bootstrap && recorded.completed_at.is_some();
        let by_hand = self.entry.sequence.opened_by_hand.contains(&group.title);
        let waited = group.after.iter().all(|earlier| self.groups[*earlier].passed);
        let opens = been_complete || by_hand || waited;
        // A suspended sequence opens nothing new.
        opens && (!self.spec.suspend || recorded.opened_at.is_some() || planted(Bug::SuspendIgnored))
    }

    /// A group that may be absent needs no members if it has none when its turn comes. What a node must show is not a member: it
    /// is waited for all the same. Whoever creates the sequence together with its workloads gets a moment to do so.
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

    /// Jobs that are over are cleaned up, after their `ttlSecondsAfterFinished` or by their CronJob. What they did stays done.
    fn pass_by_if_finished(&self, recorded: RecordedGroup, view: &mut GroupView) {
        view.finished = recorded.finished && only_remains(self.facts, self.entry.cell(self.groups.len()));
        let short = view.required.is_none_or(|required| view.arrived < required);
        if view.finished && view.open && short {
            (view.expected, view.required, view.lacks) = (Some(view.arrived), Some(view.arrived), None);
        }
    }

    /// Settles since when the group is open and complete. A time that was not recorded is now: we may wait
    /// longer than asked for, never shorter.
    fn set_times(&self, group: &Group, recorded: RecordedGroup, view: &mut GroupView) {
        let enough = matches!(view.required, Some(required) if view.arrived >= required)
            && view.lacks.is_none()
            && !view.stopped
            || planted(Bug::CompleteWhenOpened);
        view.finished |= enough && is_finished(self.facts, self.entry.cell(self.groups.len()));
        view.opened_at = recorded.opened_at.or(view.open.then_some(self.now));
        match self.spec.enforcement {
            Enforcement::Bootstrap => {
                // A group that was open and has to wait again, for one inserted before it, completes in its turn.
                let complete_now = enough && view.open;
                view.complete = complete_now || recorded.completed_at.is_some() && !view.stopped;
                view.completed_at = recorded.completed_at.or(complete_now.then_some(self.now));
                if recorded.completed_at.is_some() {
                    // Pods of a replaced ReplicaSet count again: the group has been complete before.
                    view.arrived += self.outdated_of(group, view);
                }
            }
            Enforcement::Continuous => {
                let complete_now = enough && view.opened_at.is_some();
                view.complete = complete_now;
                view.completed_at = complete_now.then(|| recorded.completed_at.unwrap_or(self.now));
                if !complete_now && recorded.completed_at.is_some() {
                    // It had been complete: its time runs anew.
                    view.opened_at = Some(self.now);
                }
            }
        }
    }

    /// Its own journaled time, or, if it had to wait again since then, when the last it waits for was passed.
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
        // Who is stopped is not late.
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
            // Who was passed for being late is not waited for again when it arrives after all.
            let passed_late = gone_by.filter(|due| *due <= completed_at);
            let passed_at = passed_late.unwrap_or(settled);
            if self.now < passed_at {
                view.settles_at = Some(settled);
                return self.wake_at(settled);
            }
            (view.passed, view.passed_at) = match self.spec.enforcement {
                Enforcement::Bootstrap => (true, Some(passed_at)),
                // What an earlier group lost, nobody behind it may pass by.
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

/// Whether a group may be absent, and is: it has neither pods nor a workload.
pub fn is_absent(entry: &SequenceEntry, group: &Group, position: usize) -> bool {
    group.optional && entry.cell(position).is_empty()
}

/// Whether all members of a group are of Jobs that are over.
pub(super) fn is_finished(facts: Facts<'_>, cell: &Cell) -> bool {
    let is_over = |job: &Owner| job.job.is_some_and(|job| job.complete);
    cell.is_all_of(|uid| {
        let owner = facts.cluster.owner(uid);
        owner.is_some_and(is_over) || facts.cluster.latest_run(uid).is_some_and(is_over)
    })
}

/// Whether nothing is left of a group but what Jobs that are over have left: the Jobs, CronJobs without a run, and pods that have
/// arrived. A Job goes before its pods.
pub(super) fn only_remains(facts: Facts<'_>, cell: &Cell) -> bool {
    let remains = |uid| match facts.cluster.owner(uid) {
        None => true,
        Some(owner) if owner.kind == OwnerKind::CronJob => !owner.stopped,
        Some(owner) => owner.job.is_some_and(|job| job.complete),
    };
    cell.present() == cell.number(Standing::Arrived) && (cell.is_empty() || cell.is_all_of(remains))
}

/// How many of `expected` must have arrived.
pub(super) fn required(group: &Group, expected: u32) -> u32 {
    let required = group.min_ready.of(expected);
    if planted(Bug::OneShort) { required.saturating_sub(1) } else { required }
}

/// Times are journaled in whole milliseconds; one that is decided on must be the one that is written.
fn whole_millis(now: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// `after` later than `since`; the end of time if that is beyond it.
pub fn later(since: Timestamp, after: Duration) -> Timestamp {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    since.checked_add(after).unwrap_or(Timestamp::MAX)
}
