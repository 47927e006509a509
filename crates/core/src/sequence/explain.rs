//! Why something waits, as a tree: from the pod or the sequence down to the container that is not ready.

use super::{
    Facts,
    blocked::{self, Blocker},
    decide::{held_by_another, room_to_start},
    evaluate::{Evaluation, NodeView, evaluate},
    index::{SequenceEntry, Standing},
    nodes,
    reason::{Reason, human, of},
    spec::{Scope, Spec, Until},
    status::{GroupState, Phase, status},
    views::NodeSet,
};
use crate::{
    Timestamp,
    facts::{Pod, PodPhase},
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Blockers shown of one group.
const BLOCKERS: usize = 5;

/// One line of the answer, with what it rests on below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    /// If the line is one: the same without elapsed times.
    pub reason: Option<Reason>,
    pub hint: Option<String>,
    /// The pod that the line blames, in the namespace of the sequence's pods: whoever can look further may.
    pub pod: Option<Arc<str>>,
    pub below: Vec<Line>,
}

impl Line {
    fn new(text: impl Into<String>) -> Line {
        Line { text: text.into(), reason: None, hint: None, pod: None, below: Vec::new() }
    }

    fn of(blocker: &Blocker, now: Timestamp) -> Line {
        let reason = &blocker.reason;
        let hint = match (reason, reason.pod()) {
            (Reason::NotReady { .. } | Reason::NotSucceeded { .. } | Reason::PodFailed { .. }, Some(pod)) => {
                format!("kubectl logs {pod}  ·  kubectl describe pod {pod}")
            }
            (Reason::NotStarted { .. }, Some(pod)) => format!("kubectl describe pod {pod}"),
            (Reason::JobNotComplete { job, .. }, _) => format!("kubectl describe job {job}"),
            (Reason::JobSuspended { job }, _) => {
                format!("kubectl patch job/{job} -p '{{\"spec\":{{\"suspend\":false}}}}'")
            }
            (_, _) => reason.hint().to_string(),
        };
        Line {
            text: dated(reason, blocker.since, now),
            hint: Some(hint),
            pod: reason.pod().cloned(),
            reason: Some(reason.clone()),
            below: Vec::new(),
        }
    }

    /// The code of the reason.
    pub fn code(&self) -> Option<&'static str> {
        self.reason.as_ref().map(Reason::code)
    }

    fn with(mut self, below: Vec<Line>) -> Line {
        self.below = below;
        self
    }
}

/// Why a pod waits, or that it does not.
pub fn explain_pod(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Line {
    let name = &pod.name;
    let claims: Vec<_> = facts.claims_on(pod.uid).collect();
    let mut held = Vec::new();
    let mut free = Vec::new();
    for claim in claims {
        let Some(entry) = facts.sequences.get(claim.sequence).filter(|entry| !entry.ghost) else { continue };
        let Some(spec) = entry.spec() else { continue };
        let position = claim.group as usize;
        let place = place(entry, spec, position);
        match pod.gates.contains(&spec.gate) {
            true => {
                let text = format!("{name} is held by {place} for {}", elapsed(pod.created, now));
                let evaluation = &evaluate(facts, entry, now);
                let moment = Moment { facts, entry, spec, evaluation };
                let mut line = Line::new(text).with(moment.why_held(position, pod));
                line.hint = Some(format!("release it anyway: rollcall release pod/{name}"));
                held.push(line);
            }
            false => free.push(Line::new(format!("{name} belongs to {place}, and its gate is gone"))),
        }
    }
    match (held.len(), free.len()) {
        (0, 0) => unclaimed(pod, now),
        (0, _) => {
            let mut line = free.remove(0);
            line.below = free;
            line.below.push(own_state(facts, pod, now));
            line
        }
        (1, 0) => held.remove(0),
        (_, _) => Line::new(format!("{name} is claimed by {} sequences", held.len() + free.len()))
            .with(held.into_iter().chain(free).collect()),
    }
}

fn unclaimed(pod: &Pod, now: Timestamp) -> Line {
    let name = &pod.name;
    match pod.gates.first() {
        Some(gate) => {
            let text = format!("{name} is held by the gate {gate}, and no PodSequence here claims it");
            let hint =
                "create a PodSequence that lists or selects it, or remove the gate: rollcall release pod/";
            Line { hint: Some(format!("{hint}{name}")), ..Line::new(text) }
        }
        None => Line::new(format!("{name} carries no gate and no PodSequence claims it")).with(trouble(
            pod,
            Until::Auto,
            now,
        )),
    }
}

fn own_state(facts: Facts<'_>, pod: &Pod, now: Timestamp) -> Line {
    let until = facts
        .claims_on(pod.uid)
        .find_map(|claim| {
            Some(facts.sequences.get(claim.sequence)?.spec()?.groups[claim.group as usize].until)
        })
        .unwrap_or(Until::Auto);
    let rule = rule(pod, until);
    match until.arrived(pod) {
        true => Line::new(format!("it has arrived ({rule})")),
        false => Line::new(format!("it has not arrived ({rule})")).with(trouble(pod, until, now)),
    }
}

/// Which rule of arrival applies, and why.
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

fn trouble(pod: &Pod, until: Until, now: Timestamp) -> Vec<Line> {
    if until.arrived(pod) {
        return Vec::new();
    }
    let reason = match pod.phase {
        PodPhase::Failed => blocked::of_failed_pod(pod),
        PodPhase::Pending | PodPhase::Running | PodPhase::Succeeded | PodPhase::Unknown => {
            blocked::of_starting_pod(pod, None, until)
        }
    };
    vec![Line::of(&Blocker { reason, since: Some(pod.since) }, now)]
}

/// A sequence with its groups, at the moment of the question.
struct Moment<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    evaluation: &'a Evaluation<'a>,
}

impl Moment<'_> {
    fn line(&self, reason: Reason) -> Line {
        line(reason, self.evaluation.now)
    }

    fn why_held(&self, position: usize, pod: &Pod) -> Vec<Line> {
        let Moment { facts, entry, spec, evaluation } = self;
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
        let hint = "if that does not happen, look at the controller: kubectl logs -n pod-sequence-system deployment/pod-sequence-controller";
        let text = "its group is open: the controller is about to release it";
        vec![Line { hint: Some(hint.into()), ..Line::new(text) }]
    }

    /// The node of a pod that has not reached its group; or, if it could land anywhere, why it may land nowhere yet.
    fn waits_for_nodes(&self, position: usize, pod: &Pod) -> Vec<Line> {
        let Moment { facts, entry: _, spec, evaluation } = self;
        let title = &spec.groups[position].title;
        if let Some(node) = facts.cluster.node_of(pod) {
            return match evaluation.nodes.get(&node) {
                Some(there) if there.view.groups[position].open => Vec::new(),
                Some(there) => vec![self.node_line(&node, &there.view)],
                None => vec![Line::new(format!("its node {node} does not exist"))],
            };
        }
        let all = evaluation.nodes.number();
        if evaluation.nodes.count(position).open == 0 {
            let text = format!("none of {all} nodes has reached \"{title}\"");
            return vec![Line::new(text).with(self.waiting_nodes())];
        }
        match nodes::is_guarded(evaluation, position) {
            true => Vec::new(),
            false => {
                vec![Line::new(format!("nodes that have not reached \"{title}\" are being marked first"))]
            }
        }
    }

    /// The first nodes that are not complete, and what each of them waits for.
    fn waiting_nodes(&self) -> Vec<Line> {
        let nodes = &self.evaluation.nodes;
        let first = nodes.of(NodeSet::Waiting).take(BLOCKERS);
        let mut lines: Vec<Line> = first.map(|(node, there)| self.node_line(node, &there.view)).collect();
        let more = nodes.number_in(NodeSet::Waiting) as usize - lines.len();
        if more > 0 {
            lines.push(Line::new(format!("and {more} more nodes")));
        }
        lines
    }

    fn node_line(&self, node: &Arc<str>, view: &NodeView) -> Line {
        let Some(position) = view.current() else { return Line::new(format!("{node} is complete")) };
        let (group, now) = (&self.spec.groups[position], self.evaluation.now);
        let there = &view.groups[position];
        let since = there.open_since.map_or(String::new(), |since| format!(" for {}", elapsed(since, now)));
        let title = &group.title;
        let text = format!(
            "{node} waits in group {} \"{title}\"{since}: {} arrived there",
            position + 1,
            of(there.arrived, there.required)
        );
        let lacks = there.lacks.clone().map(|what| self.line(Reason::NodeLacks { node: node.clone(), what }));
        let cell = self.entry.cell_on(node, position);
        let starting = cell.into_iter().flat_map(|cell| cell.waiting()).take(BLOCKERS);
        let pods = starting.filter_map(|(_, uid)| self.facts.cluster.pod(uid));
        let troubles = pods.flat_map(|pod| trouble(pod, group.until, now));
        Line::new(text).with(troubles.chain(lacks).collect())
    }

    /// The groups a closed group waits for, and below a closed one of them those that all hangs on. What lies between
    /// is left out: five hundred groups in a row would be five hundred lines that say the same.
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
        let (arrived, title) = (of(view.arrived, view.required), &group.title);
        let text = format!("waits for group {} \"{title}\": {arrived} arrived", position + 1);
        let below = if view.open { self.blockers(position) } else { Vec::new() };
        let (arrived, required) = (view.arrived, view.required);
        let reason = Reason::WaitsForGroup { group: title.clone(), arrived, required };
        Line { reason: Some(reason), ..Line::new(text) }.with(below)
    }

    fn unpassed(&self, position: usize) -> impl Iterator<Item = usize> {
        let earlier = self.spec.groups[position].after.iter().copied();
        earlier.filter(|earlier| !self.evaluation.groups[*earlier].passed)
    }

    /// The open or settling groups that a closed one waits for in the end, each once.
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
        let Moment { facts, entry, spec, evaluation } = self;
        let view = &evaluation.groups[position];
        let found = blocked::of_open_group(*facts, entry, spec, position, evaluation, BLOCKERS);
        let mut lines: Vec<Line> = found.iter().map(|blocker| Line::of(blocker, evaluation.now)).collect();
        let missing = view.required.unwrap_or_default().saturating_sub(view.arrived) as usize;
        if missing > lines.len() && lines.len() == BLOCKERS {
            lines.push(Line::new(format!("and {} more", missing - lines.len())));
        }
        lines
    }

    fn starting(&self, position: usize) -> Vec<Line> {
        let until = self.spec.groups[position].until;
        let waiting = self.entry.cell(position).waiting().take(BLOCKERS);
        let pods = waiting.filter_map(|(_, uid)| self.facts.cluster.pod(uid));
        pods.flat_map(|pod| trouble(pod, until, self.evaluation.now)).collect()
    }
}

/// Where a whole sequence stands and what each unfinished group waits for.
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
    let mut lines = Vec::new();
    if let Some(stall) = &evaluation.stall {
        lines.push(line(stall.clone(), now));
    }
    let Some(spec) = entry.spec() else { return Line::new(head).with(lines) };
    let moment = Moment { facts, entry, spec, evaluation: &evaluation };
    for (position, view) in evaluation.groups.iter().enumerate() {
        let title = &spec.groups[position].title;
        let held = entry.cell(position).number(Standing::Held);
        let numbers = format!("{} arrived", of(view.arrived, view.required));
        let text =
            |state: &str| format!("group {} \"{title}\" {state}: {numbers}, {held} held", position + 1);
        match view.state() {
            GroupState::Complete => lines.push(Line::new(text("is complete"))),
            GroupState::Open => lines.push(Line::new(text("is open")).with(moment.blockers(position))),
            GroupState::TimedOut => {
                lines.push(Line::new(text("has timed out")).with(moment.blockers(position)))
            }
            GroupState::Waiting => {
                let waits = moment.unpassed(position).map(|earlier| moment.waits_for_line(earlier));
                let waits = waits.map(|line| Line { below: Vec::new(), ..line }).collect();
                lines.push(Line::new(text("is closed")).with(waits));
            }
        }
    }
    if spec.scope == Scope::Node {
        lines.extend(moment.waiting_nodes());
    }
    Line::new(head).with(lines)
}

fn place(entry: &SequenceEntry, spec: &Spec, position: usize) -> String {
    let (name, groups) = (&entry.sequence.name, spec.groups.len());
    let title = &spec.groups[position].title;
    format!("PodSequence {name} (group {} of {groups}, \"{title}\")", position + 1)
}

fn line(reason: Reason, now: Timestamp) -> Line {
    Line::of(&Blocker::from(reason), now)
}

/// `app-2 is not ready for 38s: container server: …`: the time stands before the cause.
fn dated(reason: &Reason, since: Option<Timestamp>, now: Timestamp) -> String {
    let sentence = reason.sentence();
    let Some(since) = since else { return sentence };
    let elapsed = elapsed(since, now);
    let over = matches!(reason, Reason::PodFailed { .. } | Reason::JobFailed { .. });
    let time = if over { format!(" {elapsed} ago") } else { format!(" for {elapsed}") };
    match sentence.split_once(": ") {
        Some((what, cause)) => format!("{what}{time}: {cause}"),
        None => sentence + &time,
    }
}

/// Time gone by, in whole seconds; never negative, whatever clocks say.
pub fn elapsed(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    human(Duration::from_secs(seconds.unsigned_abs()))
}
