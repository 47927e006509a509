//! The status of a sequence, as shown to users. It contains no elapsed times, so it changes, and is written, only when something
//! has happened.

use super::{
    Facts,
    blocked::{self, Blocker},
    evaluate::{Evaluation, GroupView, NodeView},
    index::{SequenceEntry, Standing},
    nodes::is_on_gone_node,
    reason::{Progress, Reason},
    spec::{GroupId, Members, RecordedGroup, Scope, Spec},
    views::NodeSet,
};
use crate::{Timestamp, Uid};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of names in a list. The counts next to the lists are exact.
pub const NAMES: usize = 100;
/// Maximum number of entries in `blockedBy`.
pub const BLOCKERS: usize = 10;
/// Maximum length of a message in bytes. Kubernetes allows 32 KiB in a condition, more than is readable.
const MESSAGE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::InProgress => "InProgress",
            Phase::Completed => "Completed",
            Phase::Failed => "Failed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupState {
    Waiting,
    Open,
    Complete,
    TimedOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub observed_generation: i64,
    pub phase: Phase,
    pub current_index: u32,
    pub current_group_pods: Vec<Arc<str>>,
    pub ready_pods_in_current_group: u32,
    pub processed_pods: Vec<Arc<str>>,
    pub message: String,
    pub groups: Vec<GroupStatus>,
    pub blocked_by: Vec<BlockedBy>,
    pub summary_group: String,
    pub summary_ready: String,
    pub resumed_at: Option<Timestamp>,
    pub begun_again: Option<Arc<str>>,
    pub conditions: Vec<Condition>,
    /// In Node scope.
    pub nodes: Option<NodesStatus>,
}

/// The progress of the nodes. The list has at most [`NAMES`] entries and begins with the nodes that are not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct NodesStatus {
    pub total: u32,
    pub complete: u32,
    pub list: Vec<NodeStatus>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    pub name: Arc<str>,
    pub phase: Phase,
    pub current_index: u32,
    pub ready_pods_in_current_group: u32,
    /// The code of its state.
    pub reason: &'static str,
    /// What the node waits for; empty if it is complete.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupStatus {
    pub id: GroupId,
    pub title: Arc<str>,
    pub state: GroupState,
    pub expected: Option<u32>,
    pub present: u32,
    pub released: u32,
    pub arrived: u32,
    pub opened_by_hand: bool,
    pub finished: bool,
    pub opened_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BlockedBy {
    pub group: Arc<str>,
    pub blocker: Blocker,
}

/// A condition without `lastTransitionTime`, which the writer of the status adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: ConditionKind,
    pub holds: bool,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    Ready,
    Reconciling,
    Stalled,
    OutOfOrder,
    Suspended,
}

impl ConditionKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionKind::Ready => "Ready",
            ConditionKind::Reconciling => "Reconciling",
            ConditionKind::Stalled => "Stalled",
            ConditionKind::OutOfOrder => "OutOfOrder",
            ConditionKind::Suspended => "Suspended",
        }
    }
}

pub fn status(facts: Facts<'_>, entry: &SequenceEntry, evaluation: &Evaluation) -> Status {
    let judged = entry.spec().filter(|_| !evaluation.groups.is_empty());
    let out_of_order = judged.map_or(Vec::new(), |spec| out_of_order(facts, entry, spec, evaluation));
    let report = StatusReport { facts, entry, evaluation, out_of_order };
    match judged {
        Some(spec) => report.of_judged(spec),
        None => report.of_unjudged(),
    }
}

/// Running pods that were never released, of groups that were never open (in Node scope: never open on the node of the pod).
pub fn out_of_order(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    evaluation: &Evaluation,
) -> Vec<Reason> {
    let groups = spec.groups.iter().zip(&evaluation.groups).enumerate();
    let pods = groups.flat_map(|(position, (group, view))| {
        let closed = view.opened_at.is_none() && spec.scope == Scope::Cluster;
        let cell = closed.then(|| entry.cell(position));
        let nodes = evaluation.nodes.nodes_in(NodeSet::Early(position as u32)).take(BLOCKERS);
        let cells = nodes.filter_map(move |(node, _)| entry.cell_on(node, position)).chain(cell);
        let unheld = cells.flat_map(|cell| blocked::unheld(facts, cell, spec, NAMES));
        let running = unheld.filter(|pod| blocked::runs(pod));
        running.map(|pod| Reason::OutOfOrder { pod: pod.name.clone(), group: group.title.clone() })
    });
    pods.take(BLOCKERS).collect()
}

struct StatusReport<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    evaluation: &'a Evaluation<'a>,
    out_of_order: Vec<Reason>,
}

impl StatusReport<'_> {
    fn of_unjudged(&self) -> Status {
        let stall = self.evaluation.stall.as_ref();
        let message = stall.map_or(String::new(), Reason::sentence);
        let groups = self.entry.sequence.spec.as_ref().map_or(0, |spec| spec.groups.len());
        Status {
            observed_generation: self.entry.sequence.generation,
            phase: Phase::Failed,
            current_index: 0,
            current_group_pods: Vec::new(),
            ready_pods_in_current_group: 0,
            processed_pods: Vec::new(),
            conditions: self.conditions(Phase::Failed, &message, self.entry.is_suspended()),
            message: shortened(message),
            groups: self.journal(),
            blocked_by: Vec::new(),
            summary_group: if groups > 0 { format!("0/{groups}") } else { String::new() },
            summary_ready: String::new(),
            resumed_at: self.evaluation.resumed_at,
            begun_again: self.entry.recorded().begun_again.clone(),
            nodes: None,
        }
    }

    /// The recorded times of the groups, which must stay in the status while the groups are not evaluated.
    fn journal(&self) -> Vec<GroupStatus> {
        let recorded = &self.entry.recorded().groups;
        let journaled = |id: &GroupId, title: Arc<str>, times: &RecordedGroup| {
            let RecordedGroup { opened_at, completed_at, finished, .. } = *times;
            let state = match (opened_at, completed_at) {
                (_, Some(_)) => GroupState::Complete,
                (Some(_), None) => GroupState::Open,
                (None, None) => GroupState::Waiting,
            };
            GroupStatus {
                id: id.clone(),
                opened_by_hand: self.entry.sequence.opened_by_hand.contains(&title),
                title,
                state,
                expected: None,
                present: 0,
                released: 0,
                arrived: 0,
                finished,
                opened_at,
                completed_at,
            }
        };
        match &self.entry.sequence.spec {
            Ok(spec) => {
                let known = spec.groups.iter().filter_map(|group| Some((group, recorded.get(&group.id)?)));
                known.map(|(group, times)| journaled(&group.id, group.title.clone(), times)).collect()
            }
            Err(_) => {
                let title = |id: &GroupId| id.as_str().trim_start_matches('=').into();
                recorded.iter().map(|(id, times)| journaled(id, title(id), times)).collect()
            }
        }
    }

    fn of_judged(&self, spec: &Spec) -> Status {
        let views = &self.evaluation.groups;
        let current = views.iter().position(|view| !view.complete);
        let phase = self.phase(current);
        let blocked_by = self.blocked_by(spec);
        let message = self.message(spec, phase, current, &blocked_by);
        let (summary_group, summary_ready) = summary(spec, self.evaluation, current);
        let by_hand = &self.entry.sequence.opened_by_hand;
        Status {
            observed_generation: self.entry.sequence.generation,
            phase,
            current_index: current.unwrap_or(views.len()) as u32,
            current_group_pods: current
                .map_or(Vec::new(), |position| self.names(position, &Standing::ALL, NAMES)),
            ready_pods_in_current_group: current.map_or(0, |position| views[position].arrived),
            processed_pods: self.processed(),
            conditions: self.conditions(phase, &message, spec.suspend),
            message: shortened(message),
            groups: spec
                .groups
                .iter()
                .zip(views)
                .map(|(group, view)| of_group(group, view, by_hand))
                .collect(),
            blocked_by,
            summary_group,
            summary_ready,
            resumed_at: self.evaluation.resumed_at,
            begun_again: self.entry.recorded().begun_again.clone(),
            nodes: (spec.scope == Scope::Node).then(|| self.nodes(spec)),
        }
    }

    fn nodes(&self, spec: &Spec) -> NodesStatus {
        let nodes = &self.evaluation.nodes;
        let listed = nodes.nodes_in(NodeSet::Waiting).chain(nodes.nodes_in(NodeSet::Complete)).take(NAMES);
        let list = listed.map(|(name, judged)| self.of_node(spec, name, &judged.view)).collect();
        NodesStatus { total: nodes.number(), complete: nodes.number_in(NodeSet::Complete), list }
    }

    fn of_node(&self, spec: &Spec, name: &Arc<str>, view: &NodeView) -> NodeStatus {
        let current = view.current();
        let begun =
            view.groups.iter().any(|view| view.complete || view.opened_at.is_some() && view.released > 0);
        let phase = match current {
            None => Phase::Completed,
            Some(_) if begun => Phase::InProgress,
            Some(_) => Phase::Pending,
        };
        let trouble =
            current.and_then(|position| self.node_trouble(spec, name, &view.groups[position], position));
        NodeStatus {
            name: name.clone(),
            phase,
            reason: match &trouble {
                Some(trouble) => trouble.code(),
                None if current.is_some() && spec.suspend => Reason::Suspended.code(),
                None => phase.as_str(),
            },
            current_index: current.unwrap_or(view.groups.len()) as u32,
            ready_pods_in_current_group: current.map_or(0, |position| view.groups[position].arrived),
            message: current.map_or(String::new(), |position| {
                let (group, view) = (&spec.groups[position], &view.groups[position]);
                let counted = || match group.members {
                    Members::None => format!("\"{}\" is not open", group.title),
                    _ => format!("\"{}\": {}", group.title, view.progress()),
                };
                trouble.as_ref().map_or_else(counted, Reason::sentence)
            }),
        }
    }

    /// The reason why a node waits, other than pods that have not arrived there.
    fn node_trouble(
        &self,
        spec: &Spec,
        node: &Arc<str>,
        view: &GroupView,
        position: usize,
    ) -> Option<Reason> {
        if let Some(refused) = self.refused_mark(node) {
            return Some(refused.reason);
        }
        let group = &spec.groups[position];
        match &view.lacks {
            Some(what) if view.required.is_some_and(|required| view.arrived >= required) => {
                Some(Reason::NodeLacks { node: node.clone(), what: what.clone() })
            }
            _ if view.timed_out => {
                let (group, after) = (group.title.clone(), group.timeout.unwrap_or_default());
                Some(Reason::Timeout { group, after, progress: view.progress() })
            }
            _ => None,
        }
    }

    /// The API server's rejection of the pending write to a node, if any.
    fn refused_mark(&self, node: &Arc<str>) -> Option<Blocker> {
        self.evaluation.nodes.get(node).filter(|judged| judged.unwritten)?;
        let refusal = self.facts.sequences.refused_mark(self.entry.sequence.uid, node)?;
        let reason = Reason::NodeWriteRefused { node: node.clone(), message: refusal.message.clone() };
        Some(Blocker { reason, since: Some(refusal.since) })
    }

    /// Up to `most` nodes that the controller cannot write to, because the API server rejects it.
    fn refused_marks(&self, spec: &Spec, most: usize) -> Vec<BlockedBy> {
        let nodes = self.facts.sequences.refused_marks(self.entry.sequence.uid).map(|(node, _)| node);
        let blocked = nodes.filter_map(|node| {
            let current = self.evaluation.nodes.get(node)?.view.current()?;
            let group = spec.groups[current].title.clone();
            Some(BlockedBy { group, blocker: self.refused_mark(node)? })
        });
        blocked.take(most).collect()
    }

    /// The number of complete nodes, and what the first other node waits for.
    fn message_of_nodes(&self, spec: &Spec, because: &str) -> Option<String> {
        let nodes = &self.evaluation.nodes;
        let (total, complete) = (nodes.number(), nodes.number_in(NodeSet::Complete));
        if total == 0 {
            return Some("the cluster has no nodes".into());
        }
        let (name, judged) = nodes.nodes_in(NodeSet::Waiting).next()?;
        let message = self.of_node(spec, name, &judged.view).message;
        Some(format!("{complete} of {total} nodes are complete; {name}: {message}{because}"))
    }

    fn phase(&self, current: Option<usize>) -> Phase {
        let views = &self.evaluation.groups;
        // A sequence that was in progress stays so, even if all released pods have been deleted.
        let before = matches!(self.entry.recorded().phase, Some(Phase::InProgress | Phase::Completed));
        let begun =
            before || views.iter().any(|view| view.complete || view.opened_at.is_some() && view.released > 0);
        match (&self.evaluation.stall, current) {
            (Some(_), _) => Phase::Failed,
            (None, None) => Phase::Completed,
            (None, Some(_)) if begun => Phase::InProgress,
            (None, Some(_)) => Phase::Pending,
        }
    }

    fn names(&self, position: usize, standings: &[Standing], most: usize) -> Vec<Arc<str>> {
        let cell = self.entry.cell(position);
        let mut names: Vec<Arc<str>> = Vec::new();
        for standing in standings {
            let members = cell.members(*standing).filter(|(_, uid)| self.counts(*uid));
            names.extend(members.take(most).map(|(name, _)| name.clone()));
        }
        names.sort();
        names.truncate(most);
        names
    }

    fn counts(&self, pod: Uid) -> bool {
        let (Some(spec), Some(pod)) = (self.entry.spec(), self.facts.cluster.pod(pod)) else { return true };
        !is_on_gone_node(self.facts, spec, pod)
    }

    fn processed(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for (position, view) in self.evaluation.groups.iter().enumerate() {
            if names.len() >= NAMES {
                break;
            }
            if view.complete {
                names.extend(self.names(
                    position,
                    &[Standing::Arrived, Standing::Outdated],
                    NAMES - names.len(),
                ));
            }
        }
        names
    }

    fn blocked_by(&self, spec: &Spec) -> Vec<BlockedBy> {
        let mut list = self.refused_marks(spec, BLOCKERS);
        for (position, view) in self.evaluation.groups.iter().enumerate() {
            let room = BLOCKERS - list.len();
            if view.complete || room == 0 {
                continue;
            }
            let blockers = match view.open {
                true => blocked::of_open_group(self.facts, self.entry, spec, position, self.evaluation, room),
                false => self.unheld(spec, position, view, room),
            };
            let group = &spec.groups[position].title;
            list.extend(blockers.into_iter().map(|blocker| BlockedBy { group: group.clone(), blocker }));
        }
        list
    }

    /// Members of a group that was never open, although they lack the gate of the sequence.
    fn unheld(&self, spec: &Spec, position: usize, view: &GroupView, most: usize) -> Vec<Blocker> {
        if view.opened_at.is_some() {
            return Vec::new();
        }
        let pods = blocked::unheld(self.facts, self.entry.cell(position), spec, most);
        pods.map(|pod| {
            let (name, group) = (pod.name.clone(), spec.groups[position].title.clone());
            let reason = match (blocked::runs(pod), pod.gates.first()) {
                (true, _) => Reason::OutOfOrder { pod: name, group },
                (false, Some(gate)) => blocked::of_gate(name, gate),
                (false, None) => Reason::NoGate { pod: name, gate: spec.gate.clone() },
            };
            Blocker { reason, since: Some(pod.since) }
        })
        .collect()
    }

    fn message(&self, spec: &Spec, phase: Phase, current: Option<usize>, blocked: &[BlockedBy]) -> String {
        if let Some(stall) = &self.evaluation.stall {
            return stall.sentence();
        }
        let Some(position) = current else {
            return match spec.groups.len() {
                1 => "the group is complete".into(),
                groups => format!("all {groups} groups are complete"),
            };
        };
        let (group, view) = (&spec.groups[position], &self.evaluation.groups[position]);
        if spec.suspend {
            return format!("suspended at group \"{}\": no pods are released", group.title);
        }
        // The message about nodes, below, reports `NodeLacks` for the first node.
        let first = blocked.iter().find(|entry| {
            entry.group == group.title && !matches!(entry.blocker.reason, Reason::NodeLacks { .. })
        });
        let because = first.map_or(String::new(), |entry| format!("; {}", entry.blocker.reason.sentence()));
        if spec.scope == Scope::Node
            && let Some(message) = self.message_of_nodes(spec, &because)
        {
            return message;
        }
        let settling = self.evaluation.groups[..position].iter().position(|view| view.settles_at.is_some());
        match (view.open, settling, phase) {
            (false, Some(earlier), _) => {
                let (earlier, until) =
                    (&spec.groups[earlier].title, self.evaluation.groups[earlier].settles_at);
                Reason::Settling { group: earlier.clone(), until: until.unwrap_or_default() }.sentence()
            }
            (_, _, Phase::Pending | Phase::InProgress | Phase::Completed | Phase::Failed) => {
                let progress = self.evaluation.progress(spec, position);
                format!("\"{}\": {progress}{because}", group.title)
            }
        }
    }

    fn conditions(&self, phase: Phase, message: &str, suspended: bool) -> Vec<Condition> {
        let condition = |kind, holds, reason: &str, message: &str| Condition {
            kind,
            holds,
            reason: reason.into(),
            message: shortened(message.to_string()),
        };
        let stall = self.evaluation.stall.as_ref();
        let progressing = matches!(phase, Phase::Pending | Phase::InProgress) && !suspended;
        let progress = match (phase, suspended) {
            (Phase::Completed, _) => "Completed",
            (Phase::Failed, _) => stall.map_or("Failed", Reason::code),
            (_, true) => "Suspended",
            (Phase::Pending | Phase::InProgress, false) => phase.as_str(),
        };
        let disorder: Vec<String> = self.out_of_order.iter().map(Reason::sentence).collect();
        vec![
            condition(ConditionKind::Ready, phase == Phase::Completed, progress, message),
            condition(ConditionKind::Reconciling, progressing, progress, message),
            condition(
                ConditionKind::Stalled,
                stall.is_some(),
                stall.map_or("NotStalled", Reason::code),
                &stall.map_or(String::new(), Reason::sentence),
            ),
            condition(
                ConditionKind::OutOfOrder,
                !disorder.is_empty(),
                if disorder.is_empty() { "InOrder" } else { "OutOfOrder" },
                &disorder.join("; "),
            ),
            condition(
                ConditionKind::Suspended,
                suspended,
                if suspended { "Suspended" } else { "NotSuspended" },
                if suspended { "spec.suspend is true: no pods are released" } else { "" },
            ),
        ]
    }
}

fn of_group(group: &super::spec::Group, view: &GroupView, by_hand: &BTreeSet<Arc<str>>) -> GroupStatus {
    GroupStatus {
        opened_by_hand: by_hand.contains(&group.title),
        id: group.id.clone(),
        title: group.title.clone(),
        state: view.state(),
        expected: view.expected,
        present: view.present,
        released: view.released,
        arrived: view.arrived,
        finished: view.finished,
        opened_at: view.opened_at,
        completed_at: view.completed_at,
    }
}

/// Two columns of `kubectl get`, such as `2/3 Application Layer` and `1/2`.
fn summary(spec: &Spec, evaluation: &Evaluation, current: Option<usize>) -> (String, String) {
    let (groups, views) = (spec.groups.len(), &evaluation.groups);
    let number = |expected: Option<u32>| expected.map_or("?".to_string(), |expected| expected.to_string());
    match current {
        Some(position) => {
            let group = format!("{}/{groups} {}", position + 1, spec.groups[position].title);
            let ready = match evaluation.progress(spec, position) {
                Progress::Members { arrived, required } => format!("{arrived}/{}", number(required)),
                Progress::Nodes { complete, total } => format!("{complete}/{total}"),
            };
            (group, ready)
        }
        None => {
            let arrived: u32 = views.iter().map(|view| view.arrived).sum();
            // Not `required`: with `minReady`, more pods can arrive than are required.
            let expected = views.iter().map(|view| view.expected).sum::<Option<u32>>();
            (format!("{groups}/{groups}"), format!("{arrived}/{}", number(expected)))
        }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MESSAGE {
        let cut = (0..=MESSAGE - 3).rev().find(|cut| text.is_char_boundary(*cut)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}
