//! Explains, as a tree, why a pod or a sequence waits: from the pod or sequence down to the container that is not ready.

use super::{
    Facts,
    blocked::{self, Blocker},
    decide::{held_by_another, room_to_start},
    evaluate::{Evaluation, NodeView, evaluate, is_absent, may_act},
    index::{SequenceEntry, Standing},
    nodes,
    reason::Reason,
    spec::{Members, NodeReady, Scope, Spec, Until},
    status::{GroupState, Phase, status},
    views::NodeSet,
};
use crate::{
    Timestamp,
    cluster::{Membership, Target},
    facts::{OwnerKind, Pod, PodPhase},
    gates,
    kind::Kind,
    line::{Hint, Line, elapsed},
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of blockers shown for one group.
const BLOCKERS: usize = 5;

/// Explains why sequences hold a pod through a gate. Empty if none of them does.
pub fn explain_gate(facts: Facts<'_>, pod: &Pod, gate: &Arc<str>, now: Timestamp) -> Vec<Line> {
    let memberships = live_memberships(facts, pod).filter(|(_, _, spec)| spec.gate == *gate);
    let lines = memberships.map(|(membership, entry, spec)| {
        let (name, position) = (&pod.name, membership.group as usize);
        let place = place(entry, spec, position);
        let text = format!("{name} is held by {place} for {}", elapsed(pod.created, now));
        let evaluation = &evaluate(facts, entry, now);
        let asked = SequenceQuestion { facts, entry, spec, evaluation };
        let release = Hint::rollcall("release", &pod.namespace, format!("pod/{name}"));
        Line::new("Held", text, pod.created, Target::of_pod(pod))
            .with(asked.why_held(position, pod))
            .hint(release.to("release the pod now, out of order"))
    });
    lines.collect()
}

/// Explains the state of a pod for the sequences that it belongs to and that have released it.
pub fn explain_released(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Vec<Line> {
    let memberships = live_memberships(facts, pod).filter(|(_, _, spec)| !pod.gates.contains(&spec.gate));
    let lines = memberships.map(|(membership, entry, spec)| {
        let position = membership.group as usize;
        let (name, place) = (&pod.name, place(entry, spec, position));
        if let Some(early) = explain_early(facts, entry, spec, position, pod, now) {
            return early;
        }
        let until = spec.groups[position].until;
        let state = own_state(facts, spec, pod, until, now);
        let text = format!("{name} belongs to {place} and has been released");
        Line::new("Released", text, pod.since, Target::of_pod(pod)).with(vec![state])
    });
    lines.collect()
}

/// Explains a pod that lacks the gate although its group was never open.
fn explain_early(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    position: usize,
    pod: &Pod,
    now: Timestamp,
) -> Option<Line> {
    let evaluation = evaluate(facts, entry, now);
    let view = match facts.cluster.node_of(pod).filter(|_| spec.scope == Scope::Node) {
        Some(node) => evaluation.nodes.get(&node)?.view.groups.get(position)?.clone(),
        None => evaluation.groups.get(position)?.clone(),
    };
    if view.opened_at.is_some() || pod.released_by_hand {
        return None;
    }
    let (name, group) = (pod.name.clone(), spec.groups[position].title.clone());
    let reason = match blocked::runs(pod) {
        true => Reason::OutOfOrder { pod: name, group },
        false if !pod.gates.is_empty() => return None,
        false => Reason::NoGate { pod: name, gate: spec.gate.clone() },
    };
    let asked = SequenceQuestion { facts, entry, spec, evaluation: &evaluation };
    let place = asked.said("Released", format!("it belongs to {}", place(entry, spec, position)), None);
    let line = asked.about().line(&Blocker { reason, since: Some(pod.since) }, pod.since);
    Some(line.with(vec![place]))
}

/// Whether visible sequences hold pods in a namespace through this gate. Sequences that may not act there do not count, because
/// they can name any gate.
pub fn is_sequence_gate(facts: Facts<'_>, namespace: &str, gate: &str) -> bool {
    let mut specs = facts.sequences.iter().filter(|entry| !entry.ghost && may_act(facts, entry));
    let holds = |entry: &SequenceEntry| {
        entry.spec().is_some_and(|spec| *spec.gate == *gate && *spec.pod_namespace == *namespace)
    };
    gate == gates::SEQUENCE || specs.any(holds)
}

/// Explains why a pod that is not held and belongs to no sequence has not arrived.
pub fn explain_ungated(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Vec<Line> {
    trouble(facts, pod, Until::Auto, now)
}

fn live_memberships<'a>(
    facts: Facts<'a>,
    pod: &Pod,
) -> impl Iterator<Item = (Membership, &'a SequenceEntry, &'a Arc<Spec>)> {
    facts.memberships_of(pod.uid).filter_map(move |membership| {
        let entry = facts.sequences.get(membership.sequence).filter(|entry| !entry.ghost)?;
        Some((membership, entry, entry.spec()?))
    })
}

fn own_state(facts: Facts<'_>, spec: &Spec, pod: &Pod, until: Until, now: Timestamp) -> Line {
    let rule = rule(pod, until);
    let line = |code, text| Line::new(code, text, pod.since, Target::of_pod(pod));
    match until.arrived(pod) {
        true => line("Arrived", format!("it has arrived ({rule})")),
        false if nodes::is_on_gone_node(facts, spec, pod) => {
            let node = pod.node.as_deref().unwrap_or_default();
            line("NotArrived", format!("its node {node} no longer exists, so the pod does not count"))
        }
        false => {
            line("NotArrived", format!("it has not arrived ({rule})")).with(trouble(facts, pod, until, now))
        }
    }
}

/// The `until` rule that applies to a pod and, for `Auto`, the reason.
fn rule(pod: &Pod, until: Until) -> String {
    let resolved = match until.resolve(pod.runs_to_completion) {
        Until::Ready | Until::Auto => "Ready",
        Until::Started => "Started",
        Until::Succeeded => "Succeeded",
    };
    match (until, pod.runs_to_completion) {
        (Until::Auto, true) => format!("until {resolved}: it runs to completion and has no readiness probe"),
        (_, _) => format!("until {resolved}"),
    }
}

fn trouble(facts: Facts<'_>, pod: &Pod, until: Until, now: Timestamp) -> Vec<Line> {
    if until.arrived(pod) {
        return Vec::new();
    }
    let reason = match pod.phase {
        PodPhase::Failed => blocked::of_failed_pod(pod),
        PodPhase::Pending | PodPhase::Running | PodPhase::Succeeded | PodPhase::Unknown => {
            blocked::of_starting_pod(pod, None, until)
        }
    };
    let about = About { facts, namespace: &pod.namespace, sequence: None, now };
    vec![about.line(&Blocker { reason, since: Some(pod.since) }, pod.since)]
}

fn sequence_target(entry: &SequenceEntry) -> Target {
    let sequence = &entry.sequence;
    let (namespace, name) = (sequence.namespace.clone(), sequence.name.clone());
    Target { kind: Kind::Sequence, namespace, name, uid: Some(sequence.uid) }
}

/// The context to look up the objects and hints of reasons.
struct About<'a> {
    facts: Facts<'a>,
    /// The namespace of the member pods.
    namespace: &'a Arc<str>,
    /// The sequence to explain, if any.
    sequence: Option<&'a SequenceEntry>,
    now: Timestamp,
}

impl About<'_> {
    /// Renders a reason as a line. `since` is the fallback if the blocker does not say since when it holds.
    fn line(&self, blocker: &Blocker, since: Timestamp) -> Line {
        let reason = &blocker.reason;
        let text = match blocker.since {
            Some(since) => reason.dated(&elapsed(since, self.now)),
            None => reason.sentence(),
        };
        Line {
            code: reason.code(),
            text,
            since: blocker.since.unwrap_or(since),
            object: self.object(reason),
            hints: self.hints(reason),
            reason: Some(reason.clone()),
            below: Vec::new(),
        }
    }

    fn object(&self, reason: &Reason) -> Target {
        let here = |kind: Kind, name: &str| Target {
            kind,
            namespace: self.namespace.clone(),
            name: name.into(),
            uid: None,
        };
        let cluster_wide = |kind: Kind, name: &str| Target { namespace: "".into(), ..here(kind, name) };
        if let Some(pod) = reason.pod() {
            let known = self.facts.cluster.pod_named(self.namespace, pod);
            return known.map_or_else(|| here(Kind::Pod, pod), Target::of_pod);
        }
        match reason {
            Reason::NumberUnknown { owner } | Reason::TooFewPods { owner, .. } => self.workload(owner),
            Reason::JobNotComplete { job, .. } | Reason::JobSuspended { job } | Reason::JobFailed { job } => {
                self.workload(&format!("Job {job}"))
            }
            Reason::NoRunYet { cron_job } => self.workload(&format!("CronJob {cron_job}")),
            Reason::WorkloadMissing { workload, .. } | Reason::WorkloadStopped { workload } => {
                let (kind, name) = workload.split_once('/').unwrap_or(("", workload));
                let kind = OwnerKind::of_word(kind).and_then(Kind::of_owner).unwrap_or(Kind::Deployment);
                here(kind, name)
            }
            Reason::NodeLacks { node, .. } | Reason::NodeWriteRefused { node, .. } => {
                let uid = self.facts.cluster.node(node).map(|node| node.uid);
                Target { uid, ..cluster_wide(Kind::Node, node) }
            }
            Reason::NotPermitted { namespace, .. } | Reason::TaintsNotPermitted { namespace } => {
                cluster_wide(Kind::Namespace, namespace)
            }
            Reason::TemplateLacksToleration { daemon_set, .. } => {
                self.workload(&format!("DaemonSet {daemon_set}"))
            }
            _ => self.sequence.map_or_else(|| here(Kind::Sequence, ""), sequence_target),
        }
    }

    /// A workload by its title, `Deployment web`.
    fn workload(&self, title: &str) -> Target {
        let (word, name) = title.split_once(' ').unwrap_or(("", title));
        let kind = OwnerKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        let mut owners = self.facts.cluster.owners();
        let owner = owners.find(|owner| {
            Some(owner.kind) == kind && *owner.name == *name && owner.namespace == *self.namespace
        });
        Target {
            kind: kind.and_then(Kind::of_owner).unwrap_or(Kind::ReplicaSet),
            namespace: self.namespace.clone(),
            name: name.into(),
            uid: owner.map(|owner| owner.uid),
        }
    }

    fn hints(&self, reason: &Reason) -> Vec<Hint> {
        let namespace = self.namespace;
        let describe = |pod: &str| Hint::kubectl("describe pod", namespace, pod);
        match reason {
            Reason::NotReady { pod, .. }
            | Reason::NotSucceeded { pod, .. }
            | Reason::PodFailed { pod, .. } => {
                let known = self.facts.cluster.pod_named(namespace, pod);
                let trouble = known.and_then(|pod| pod.trouble.as_ref());
                let container = trouble.and_then(|trouble| trouble.container.as_ref());
                let container = container.map_or(String::new(), |container| format!(" -c {container}"));
                vec![Hint::kubectl("logs", namespace, format!("{pod}{container}")), describe(pod)]
            }
            Reason::NotStarted { pod, .. } => vec![describe(pod)],
            Reason::JobNotComplete { job, .. } | Reason::JobFailed { job } => {
                vec![Hint::kubectl("describe job", namespace, &**job)]
            }
            Reason::NoRunYet { cron_job } => {
                let run = format!("job {cron_job}-now --from=cronjob/{cron_job}");
                vec![Hint::kubectl("create", namespace, run).to("run it now")]
            }
            Reason::WorkloadMissing { workload, .. } => {
                let kind = workload.split_once('/').map_or("deployment", |(kind, _)| kind);
                vec![Hint::kubectl("get", namespace, kind), advice(reason.hint())]
            }
            Reason::WorkloadStopped { .. } => {
                let stopped = self.sequence.map(|entry| &entry.sequence);
                stopped.map_or_else(
                    || vec![advice(reason.hint())],
                    |sequence| vec![Hint::rollcall("start", &sequence.namespace, &*sequence.name)],
                )
            }
            Reason::JobSuspended { job } => {
                let patch = format!("job/{job} -p '{{\"spec\":{{\"suspend\":false}}}}'");
                vec![Hint::kubectl("patch", namespace, patch)]
            }
            Reason::TooFewPods { owner, .. } | Reason::NumberUnknown { owner } => {
                let (kind, name) = owner.split_once(' ').unwrap_or(("pods", owner));
                vec![Hint::kubectl(&format!("describe {}", kind.to_lowercase()), namespace, name)]
            }
            Reason::NotPermitted { namespace, from } => {
                let allow = format!("{namespace} podsequence.example.com/allow-from={from}");
                vec![Hint::kubectl_cluster("annotate namespace", allow)]
            }
            Reason::TaintsNotPermitted { namespace } => {
                let allow = format!("{namespace} podsequence.example.com/allow-node-taints=true");
                vec![
                    Hint::kubectl_cluster("annotate namespace", allow),
                    Hint::Advice("or use nodeGuard: Labels".into()),
                ]
            }
            Reason::NodeWriteRefused { node, .. } => {
                vec![Hint::kubectl_cluster("describe node", &**node), advice(reason.hint())]
            }
            Reason::OtherSequence { sequence, .. } => {
                let (namespace, name) = match sequence.split_once('/') {
                    Some((elsewhere, name)) => (&Arc::from(elsewhere), name),
                    None => (namespace, &**sequence),
                };
                vec![Hint::rollcall("explain", namespace, format!("podseq/{name}"))]
            }
            // `explain` of the pod covers the feature that owns the gate.
            Reason::OwnGate { pod, .. } => vec![Hint::rollcall("explain", namespace, format!("pod/{pod}"))],
            Reason::NodeLacks { node, what } => match what {
                NodeReady::CsiDriver(_) => {
                    vec![Hint::kubectl_cluster("get csinode", format!("{node} -o yaml"))]
                }
                NodeReady::Allocatable(_) | NodeReady::Condition(_) => {
                    vec![Hint::kubectl_cluster("describe node", &**node)]
                }
            },
            Reason::TemplateLacksToleration { .. } => {
                let keys = self.sequence.map(|entry| {
                    Hint::rollcall("keys", &entry.sequence.namespace, &*entry.sequence.name)
                        .to("list the taint keys that its template must tolerate")
                });
                keys.into_iter().chain([Hint::Advice("or use nodeGuard: Labels".into())]).collect()
            }
            other => Some(other.hint()).filter(|hint| !hint.is_empty()).map(advice).into_iter().collect(),
        }
    }
}

fn advice(text: &str) -> Hint {
    Hint::Advice(text.to_owned())
}

/// A sequence and its evaluation at the time of the question.
struct SequenceQuestion<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    evaluation: &'a Evaluation<'a>,
}

impl SequenceQuestion<'_> {
    fn about(&self) -> About<'_> {
        let SequenceQuestion { facts, entry, spec, evaluation } = self;
        About { facts: *facts, namespace: &spec.pod_namespace, sequence: Some(entry), now: evaluation.now }
    }

    /// Renders a reason as a line, with the creation of the sequence as its start.
    fn line(&self, reason: Reason) -> Line {
        self.about().line(&Blocker::from(reason), self.entry.sequence.created)
    }

    /// A line about the sequence or one of its groups.
    fn said(&self, code: &'static str, text: String, since: Option<Timestamp>) -> Line {
        let since = since.unwrap_or(self.entry.sequence.created);
        Line::new(code, text, since, sequence_target(self.entry))
    }

    fn node(&self, name: &Arc<str>) -> Target {
        let uid = self.facts.cluster.node(name).map(|node| node.uid);
        Target { kind: Kind::Node, namespace: "".into(), name: name.clone(), uid }
    }

    fn why_held(&self, position: usize, pod: &Pod) -> Vec<Line> {
        let SequenceQuestion { facts, entry, spec, evaluation } = self;
        let Some(view) = evaluation.groups.get(position) else {
            return evaluation.stall.iter().map(|stall| self.line(stall.clone())).collect();
        };
        if spec.suspend {
            return vec![self.line(Reason::Suspended)];
        }
        let waits = match spec.scope {
            Scope::Cluster if view.open => Vec::new(),
            Scope::Cluster => self.waits_for(position),
            Scope::Node => self.waits_for_nodes(position, pod),
        };
        if !waits.is_empty() {
            return waits;
        }
        if let Some((_, reason)) = held_by_another(*facts, entry, pod.uid, evaluation.now) {
            return vec![self.line(reason)];
        }
        if room_to_start(entry, spec, position) == 0 {
            let limit = spec.groups[position].max_concurrent_starts.unwrap_or_default();
            return vec![self.line(Reason::StartLimit { limit }).with(self.starting(position))];
        }
        if let Some(refused) = blocked::of_refused_pod(*facts, &pod.name, pod.uid) {
            return vec![self.about().line(&refused, pod.created)];
        }
        let text = "its group is open; the controller is about to release the pod".into();
        let own: Arc<str> = "pod-sequence-system".into();
        let logs = Hint::kubectl("logs", &own, "deployment/pod-sequence-controller");
        let since = view.open_since.unwrap_or(pod.created);
        let line = self.said("AboutToBeReleased", text, Some(since.max(pod.created)));
        vec![line.hint(logs.to("if the pod is not released soon, check the logs of the controller"))]
    }

    /// In Node scope: why the group is not open on the node of the pod. For a pod without a node: why it cannot be released yet.
    fn waits_for_nodes(&self, position: usize, pod: &Pod) -> Vec<Line> {
        let SequenceQuestion { facts, entry: _, spec, evaluation } = self;
        let title = &spec.groups[position].title;
        if let Some(node) = facts.cluster.node_of(pod) {
            return match evaluation.nodes.get(&node) {
                Some(there) if there.view.groups[position].open => Vec::new(),
                Some(there) => vec![self.node_line(&node, &there.view)],
                None => vec![self.line(Reason::NodeMissing { pod: pod.name.clone(), node })],
            };
        }
        let all = evaluation.nodes.number();
        if evaluation.nodes.count(position).open == 0 {
            let text = format!("group \"{title}\" is not open on any of {all} nodes");
            return vec![self.said("NoNodeOpen", text, None).with(self.waiting_nodes())];
        }
        match nodes::is_guarded(evaluation, position) {
            true => Vec::new(),
            false => {
                let text =
                    format!("the controller first marks the nodes where group \"{title}\" is not open");
                vec![self.said("NodesUnmarked", text, None)]
            }
        }
    }

    /// The first nodes that are not complete, and why each of them waits.
    fn waiting_nodes(&self) -> Vec<Line> {
        let nodes = &self.evaluation.nodes;
        let first = nodes.nodes_in(NodeSet::Waiting).take(BLOCKERS);
        let mut lines: Vec<Line> = first.map(|(node, there)| self.node_line(node, &there.view)).collect();
        let more = nodes.number_in(NodeSet::Waiting) as usize - lines.len();
        if more > 0 {
            lines.push(self.said("More", format!("and {more} more nodes"), None));
        }
        lines
    }

    fn node_line(&self, node: &Arc<str>, view: &NodeView) -> Line {
        let Some(position) = view.current() else {
            let done = view.groups.iter().filter_map(|group| group.completed_at).max();
            let since = done.unwrap_or(self.entry.sequence.created);
            return Line::new(
                "NodeComplete",
                format!("all groups are complete on {node}"),
                since,
                self.node(node),
            );
        };
        let (group, now) = (&self.spec.groups[position], self.evaluation.now);
        let there = &view.groups[position];
        let waits = there.open_since.map_or(String::new(), |since| format!(" for {}", elapsed(since, now)));
        let title = &group.title;
        let progress = match group.members {
            Members::None => String::new(),
            _ => format!(": {} there", there.progress()),
        };
        let text = format!("{node} waits for group {} \"{title}\"{waits}{progress}", position + 1);
        let lacks = there.lacks.clone().map(|what| self.line(Reason::NodeLacks { node: node.clone(), what }));
        let cell = self.entry.cell_on(node, position);
        let starting = cell.into_iter().flat_map(|cell| cell.waiting()).take(BLOCKERS);
        let pods = starting.filter_map(|(_, uid)| self.facts.cluster.pod(uid));
        let troubles = pods.flat_map(|pod| trouble(self.facts, pod, group.until, now));
        let since = there.open_since.unwrap_or(self.entry.sequence.created);
        Line::new("NodeWaits", text, since, self.node(node)).with(troubles.chain(lacks).collect())
    }

    /// The groups that a group waits for. Below those that are not open either, it lists the open groups at the start of the
    /// chain. The groups between them are omitted, because a chain of 500 groups would give 500 almost equal lines.
    fn waits_for(&self, position: usize) -> Vec<Line> {
        let mut shown = BTreeSet::new();
        let direct = self.unpassed(position);
        direct
            .map(|earlier| {
                let in_turn = match self.evaluation.groups[earlier].open {
                    true => Vec::new(),
                    false => self.roots(earlier, &mut shown),
                };
                let mut line = self.waits_for_line(earlier);
                line.below.extend(in_turn.into_iter().map(|root| self.waits_for_line(root)));
                line
            })
            .collect()
    }

    fn waits_for_line(&self, position: usize) -> Line {
        let (group, view) = (&self.spec.groups[position], &self.evaluation.groups[position]);
        if let Some(until) = view.settles_at {
            return self.line(Reason::Settling { group: group.title.clone(), until });
        }
        let (progress, title) = (self.evaluation.progress(self.spec, position), &group.title);
        let text = format!("waits for group {} \"{title}\": {progress}", position + 1);
        let below = if view.open { self.blockers(position) } else { Vec::new() };
        let reason = Reason::WaitsForGroup { group: title.clone(), progress };
        let line = self.said("WaitsForGroup", text, view.open_since);
        Line { reason: Some(reason), ..line }.with(below)
    }

    fn unpassed(&self, position: usize) -> impl Iterator<Item = usize> {
        let earlier = self.spec.groups[position].after.iter().copied();
        earlier.filter(|earlier| !self.evaluation.groups[*earlier].passed)
    }

    /// The open groups, or those within their `waitDuration`, at the start of the chain of groups that one waits for, each once.
    fn roots(&self, position: usize, seen: &mut BTreeSet<usize>) -> Vec<usize> {
        let (mut roots, mut ahead) = (BTreeSet::new(), vec![position]);
        while let Some(closed) = ahead.pop() {
            for earlier in self.unpassed(closed).filter(|earlier| seen.insert(*earlier)) {
                let view = &self.evaluation.groups[earlier];
                match view.open || view.settles_at.is_some() {
                    true => drop(roots.insert(earlier)),
                    false => ahead.push(earlier),
                }
            }
        }
        roots.into_iter().collect()
    }

    fn blockers(&self, position: usize) -> Vec<Line> {
        let SequenceQuestion { facts, entry, spec, evaluation } = self;
        let view = &evaluation.groups[position];
        let found = blocked::of_open_group(*facts, entry, spec, position, evaluation, BLOCKERS);
        let since = view.open_since.unwrap_or(entry.sequence.created);
        let mut lines: Vec<Line> = found.iter().map(|blocker| self.about().line(blocker, since)).collect();
        let missing = view.required.unwrap_or_default().saturating_sub(view.arrived) as usize;
        if missing > lines.len() && lines.len() == BLOCKERS {
            lines.push(self.said("More", format!("and {} more", missing - lines.len()), Some(since)));
        }
        lines
    }

    fn starting(&self, position: usize) -> Vec<Line> {
        let until = self.spec.groups[position].until;
        let waiting = self.entry.cell(position).waiting().take(BLOCKERS);
        let pods = waiting.filter_map(|(_, uid)| self.facts.cluster.pod(uid));
        pods.flat_map(|pod| trouble(self.facts, pod, until, self.evaluation.now)).collect()
    }
}

/// Explains the state of a sequence and why each group that is not complete waits.
pub fn explain_sequence(facts: Facts<'_>, entry: &SequenceEntry, now: Timestamp) -> Line {
    let evaluation = evaluate(facts, entry, now);
    let status = status(facts, entry, &evaluation);
    let name = &entry.sequence.name;
    let head = match status.phase {
        Phase::Completed => format!("PodSequence {name} is complete: {}", status.message),
        Phase::Pending | Phase::InProgress | Phase::Failed => {
            format!("PodSequence {name} is {}: {}", status.phase.as_str(), status.message)
        }
    };
    let namespace =
        entry.sequence.spec.as_ref().map_or(&entry.sequence.namespace, |spec| &spec.pod_namespace);
    let about = About { facts, namespace, sequence: Some(entry), now };
    let created = entry.sequence.created;
    let head = Line::new("Sequence", head, created, sequence_target(entry));
    let mut lines = Vec::new();
    if let Some(stall) = &evaluation.stall {
        lines.push(about.line(&Blocker::from(stall.clone()), created));
    }
    let Some(spec) = entry.spec() else { return head.with(lines) };
    let asked = SequenceQuestion { facts, entry, spec, evaluation: &evaluation };
    for (position, view) in evaluation.groups.iter().enumerate() {
        let title = &spec.groups[position].title;
        let held = entry.cell(position).number(Standing::Held);
        let progress = evaluation.progress(spec, position);
        let line = |code, state: &str, since| {
            let absent = is_absent(entry, &spec.groups[position], position);
            let optional = if absent { " (optional, without members)" } else { "" };
            let text =
                format!("group {} \"{title}\" {state}: {progress}, {held} held{optional}", position + 1);
            asked.said(code, text, since)
        };
        lines.push(match view.state() {
            GroupState::Complete => line("GroupComplete", "is complete", view.completed_at),
            GroupState::Open => line("GroupOpen", "is open", view.open_since).with(asked.blockers(position)),
            GroupState::TimedOut => {
                line("GroupTimedOut", "has timed out", view.open_since).with(asked.blockers(position))
            }
            GroupState::Waiting => {
                let waits = asked.unpassed(position).map(|earlier| asked.waits_for_line(earlier));
                let waits = waits.map(|line| Line { below: Vec::new(), ..line }).collect();
                line("GroupClosed", "is not open", None).with(waits)
            }
        });
    }
    if spec.scope == Scope::Node {
        lines.extend(asked.waiting_nodes());
    }
    head.with(lines)
}

fn place(entry: &SequenceEntry, spec: &Spec, position: usize) -> String {
    let (name, groups) = (entry.sequence.name_in(&spec.pod_namespace), spec.groups.len());
    let title = &spec.groups[position].title;
    format!("PodSequence {name} (group {} of {groups}, \"{title}\")", position + 1)
}
