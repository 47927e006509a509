//! Decides what to do for a sequence: a pure function of the facts and of `now`.

use super::{
    Facts,
    evaluate::{Evaluation, evaluate, may_act},
    events::{events, recorded},
    index::{Cell, Note, SequenceEntry, Standing, UnseenNodes},
    marks, nodes,
    reason::Reason,
    spec::{DeletionPolicy, Group, Recorded, Scope, Spec, Until},
    status::status,
    views::NodeSet,
};
use crate::{
    Timestamp, Uid,
    cluster::Membership,
    decision::{Action, Decision, DropGate, Keep, PodPatch, Report},
    facts::{OwnerKind, PodPhase},
    planted::{Bug, planted},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Settings of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether notes can be written: the controller's own namespace exists.
    pub notes: bool,
}

/// Decides about one sequence, with at most `budget` releases. Costs O(groups + releases).
pub fn decide(facts: Facts<'_>, uid: Uid, settings: Settings, now: Timestamp, budget: usize) -> Decision {
    match facts.sequences.get(uid) {
        Some(entry) if entry.ghost => of_ghost(facts, entry, now, budget),
        Some(entry) => of_live(facts, entry, settings, now, budget),
        None => {
            let note = facts.sequences.note(uid).map(|_| Action::DropNote { sequence: uid });
            let left = facts.is_gone(uid).then(|| marks::unmark(facts, uid).take(budget));
            let actions: Vec<Action> = left.into_iter().flatten().chain(note).collect();
            Decision { finished: actions.is_empty(), actions, ..Decision::nothing() }
        }
    }
}

fn of_live(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    settings: Settings,
    now: Timestamp,
    budget: usize,
) -> Decision {
    let evaluation = evaluate(facts, entry, now);
    let (mut decision, recorded) = of_judged(facts, entry, &evaluation, settings, budget);
    let mut unseen = UnseenNodes::default();
    if entry.spec().is_some_and(|spec| spec.scope == Scope::Node) && !evaluation.groups.is_empty() {
        let (found, events) = marks::unseen(facts, &decision.actions, evaluation.now);
        decision.events.extend(events);
        decision.wake_at =
            decision.wake_at.into_iter().chain(marks::next_overdue(facts, evaluation.now)).min();
        unseen = found;
    }
    let nodes = evaluation.nodes.into_judgements();
    Decision { keep: Keep::Sequence { recorded: Box::new(recorded), nodes, unseen }, ..decision }
}

fn of_judged(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    evaluation: &Evaluation,
    settings: Settings,
    budget: usize,
) -> (Decision, Recorded) {
    let status = status(facts, entry, evaluation);
    let recorded = recorded(entry, evaluation, &status);
    let events = events(facts, entry, evaluation, &status, entry.recorded(), &recorded);
    let mut decision = Decision {
        urgent: urgent(facts, entry, &recorded),
        report: Some(Report::Sequence(Box::new(status))),
        events,
        wake_at: evaluation.wake_at,
        ..Decision::nothing()
    };
    let Some(spec) = entry.spec().filter(|_| !evaluation.groups.is_empty()) else {
        // A sequence that may no longer use taints removes those that it has set.
        let taints_are_wrong = |stall: &Reason| {
            matches!(
                stall,
                Reason::TaintsNotPermitted { .. }
                    | Reason::TemplateLacksToleration { .. }
                    | Reason::NotPermitted { .. }
            )
        };
        if evaluation.stall.as_ref().is_some_and(taints_are_wrong) {
            decision.actions.extend(marks::untaint(facts, entry.sequence.uid).take(budget));
        }
        return (decision, recorded);
    };
    if spec.scope == Scope::Node {
        decision.actions.extend(marks::marks(facts, entry, spec, evaluation).take(budget));
        decision.more = decision.actions.len() >= budget;
    }
    let budget = budget - decision.actions.len();
    decision.actions.extend(note_action(facts, entry, spec, settings));
    // The note is written first: if the sequence is deleted while the controller is down, the note says which pods to release.
    let noted = !decision.actions.iter().any(|action| matches!(action, Action::WriteNote { .. }));
    if noted && (!spec.suspend || planted(Bug::SuspendIgnored)) {
        let mut releases = Releases::new(facts, entry, spec, evaluation.now, budget);
        for (position, view) in evaluation.groups.iter().enumerate() {
            match spec.scope {
                Scope::Cluster if view.open => releases.of_cells(position, [entry.cell(position)]),
                Scope::Cluster => {}
                Scope::Node => releases.of_nodes(position, evaluation),
            }
        }
        decision.more |= releases.more;
        decision.actions.append(&mut releases.actions);
    }
    (decision, recorded)
}

/// A deleted sequence releases all pods that it still holds, in no particular order. If a pod also belongs to an existing
/// sequence with the same gate, that sequence decides when to release it.
fn of_ghost(facts: Facts<'_>, entry: &SequenceEntry, now: Timestamp, budget: usize) -> Decision {
    let mut decision = Decision::nothing();
    let uid = entry.sequence.uid;
    let permitted = may_act(facts, entry);
    let mut in_flight = false;
    let holds =
        |spec: &&Arc<Spec>| spec.deletion_policy == DeletionPolicy::Hold && !planted(Bug::HoldIgnored);
    if let Some(spec) = entry.spec().filter(|spec| permitted && !holds(spec)) {
        let mut releases = Releases::new(facts, entry, spec, now, budget);
        for position in 0..spec.groups.len() {
            releases.of_cells(position, [entry.cell(position)]);
            in_flight |= entry.cell(position).number(Standing::Releasing) > 0;
        }
        decision.more = releases.more;
        in_flight |= releases.busy;
        decision.actions = releases.actions;
    }
    decision.actions.extend(marks::unmark(facts, uid).take(budget));
    in_flight |= facts.sequences.is_marking_any(uid) || facts.marked_for(uid).next().is_some();
    if decision.actions.is_empty() && !decision.more && !in_flight {
        decision.actions.extend(facts.sequences.note(uid).map(|_| Action::DropNote { sequence: uid }));
        decision.finished = true;
    }
    decision
}

fn note_action(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Arc<Spec>,
    settings: Settings,
) -> Option<Action> {
    let sequence = &entry.sequence;
    let known = facts.sequences.note(sequence.uid);
    match (spec.deletion_policy, settings.notes) {
        (DeletionPolicy::Hold, _) => known.map(|_| Action::DropNote { sequence: sequence.uid }),
        (DeletionPolicy::Release, false) => None,
        (DeletionPolicy::Release, true) if entry.is_noted() => None,
        (DeletionPolicy::Release, true) => {
            let (namespace, name) = (sequence.namespace.clone(), sequence.name.clone());
            let (uid, generation, spec) = (sequence.uid, sequence.generation, spec.clone());
            let note = Note { sequence: uid, version: 0, namespace, name, generation, spec };
            Some(Action::WriteNote { note: Box::new(note) })
        }
    }
}

/// Whether the new status must be written at once, because the written one lacks times or conditions that must not be lost.
fn urgent(facts: Facts<'_>, entry: &SequenceEntry, new: &Recorded) -> bool {
    let written = &entry.sequence.recorded;
    let times_missing = entry.spec().is_some_and(|spec| {
        spec.groups.iter().enumerate().any(|(position, group)| {
            let (new, written) = (new.groups.get(&group.id), written.groups.get(&group.id));
            let (new, written) = (new.copied().unwrap_or_default(), written.copied().unwrap_or_default());
            new.finished != written.finished
                || group.timeout.is_some() && new.opened_at != written.opened_at
                || new.completed_at != written.completed_at
                    && (!group.wait.is_zero() || may_vanish(facts, entry, group, position))
        })
    });
    times_missing
        || new.phase != written.phase
        || new.stalled != written.stalled
        || new.suspended != written.suspended
        || new.resumed_at != written.resumed_at
        || new.begun_again != written.begun_again
}

/// Whether the members of a complete group run to completion and may be deleted afterwards. The time of completion must then be
/// recorded, because it cannot be derived from the members later.
fn may_vanish(facts: Facts<'_>, entry: &SequenceEntry, group: &Group, position: usize) -> bool {
    let cell = entry.cell(position);
    let finished = |uid| facts.cluster.pod(uid).is_some_and(|pod| pod.phase == PodPhase::Succeeded);
    let is_job = |uid| facts.cluster.owner(uid).is_some_and(|owner| owner.kind == OwnerKind::Job);
    group.until == Until::Succeeded
        || cell.members(Standing::Arrived).next().is_some_and(|(_, uid)| finished(uid))
        || cell.owners().next().is_some_and(is_job)
}

/// Collects releases within the budget.
struct Releases<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    now: Timestamp,
    budget: usize,
    actions: Vec<Action>,
    more: bool,
    /// Whether a pod was skipped because another write to it is in flight.
    busy: bool,
    /// Evaluations of other sequences that select the same pods.
    others: BTreeMap<Uid, Evaluation<'a>>,
    /// Pods released by this decision that also belong to groups of other sequences, counted per group.
    started: BTreeMap<Membership, u32>,
}

impl<'a> Releases<'a> {
    fn new(
        facts: Facts<'a>,
        entry: &'a SequenceEntry,
        spec: &'a Spec,
        now: Timestamp,
        budget: usize,
    ) -> Releases<'a> {
        Releases {
            facts,
            entry,
            spec,
            now,
            budget,
            actions: Vec::new(),
            more: false,
            busy: false,
            others: BTreeMap::new(),
            started: BTreeMap::new(),
        }
    }

    /// In Node scope: releases the pods that belong to a node where the group is open. Pods without a node are released if the
    /// group is open on any node and all other nodes are blocked.
    fn of_nodes(&mut self, position: usize, evaluation: &Evaluation) {
        let entry = self.entry;
        let reached = evaluation.nodes.nodes_in(NodeSet::Releasable(position as u32));
        let cells = reached.filter_map(|(node, _)| entry.cell_on(node, position));
        let goes = evaluation.groups[position].open && nodes::is_guarded(evaluation, position);
        self.of_cells(position, cells.chain(goes.then(|| entry.floating(position))));
    }

    fn of_cells<'c>(&mut self, position: usize, cells: impl IntoIterator<Item = &'c Cell>) {
        let mut room = match self.entry.ghost {
            true => u32::MAX,
            false => room_to_start(self.entry, self.spec, position),
        };
        let cells: Vec<&Cell> = cells.into_iter().collect();
        let held = || cells.iter().flat_map(|cell| cell.members(Standing::Held));
        let in_flight = &self.facts.cluster.in_flight;
        let is_refused = |uid: Uid| in_flight.refusal(uid).is_some();
        // Pods whose release was rejected are retried last, so that they do not block the others.
        let again = in_flight.has_refusals().then(|| held().filter(|(_, uid)| is_refused(*uid)));
        let fresh = held().filter(|(_, uid)| !is_refused(*uid));
        for (name, uid) in fresh.chain(again.into_iter().flatten()) {
            if room == 0 {
                return;
            }
            if self.facts.cluster.is_writing_pod(uid) {
                self.busy = true;
                continue;
            }
            if !self.others_allow(uid) {
                continue;
            }
            if self.actions.len() >= self.budget {
                self.more = true;
                return;
            }
            room -= 1;
            self.count_start(uid);
            self.actions.push(Action::PatchPod(self.release(uid, name, position)));
        }
    }

    fn release(&self, uid: Uid, name: &Arc<str>, position: usize) -> PodPatch {
        let (avoid, tolerate) = self.node_constraints(uid, position);
        let pod = self.facts.cluster.pod(uid);
        let adds = !avoid.is_empty() || !tolerate.is_empty();
        let constraints = pod.and_then(|pod| pod.constraints.as_deref()).filter(|_| adds);
        let gate = &self.spec.gate;
        let place = pod.and_then(|pod| pod.gates.iter().position(|held| held == gate));
        PodPatch {
            uid,
            namespace: self.spec.pod_namespace.clone(),
            name: name.clone(),
            drop_gate: Some(DropGate { name: gate.clone(), place }),
            avoid,
            tolerate,
            constraints: constraints.cloned().unwrap_or_default(),
            annotations: Vec::new(),
        }
    }

    /// A pod that several sequences hold through the same gate is released only if all of them allow it.
    fn others_allow(&mut self, pod: Uid) -> bool {
        if planted(Bug::SharedPodOneVote) {
            return true;
        }
        let (facts, now) = (self.facts, self.now);
        for (membership, other, spec) in other_memberships(facts, self.entry, pod) {
            let judged =
                self.others.entry(membership.sequence).or_insert_with(|| evaluate(facts, other, now));
            // Without evaluated groups, the other sequence cannot act, so it does not hold the pod.
            let Some(view) = judged.groups.get(membership.group as usize) else { continue };
            if self.entry.ghost {
                return false;
            }
            let open = match spec.scope {
                Scope::Cluster => view.open,
                Scope::Node => nodes::may_release(facts, judged, pod, membership.group as usize),
            };
            let started = self.started.get(&membership).copied().unwrap_or_default();
            if !open || spec.suspend || room_to_start(other, spec, membership.group as usize) <= started {
                return false;
            }
        }
        true
    }

    /// Collects the keys that a pod must avoid and those that it must tolerate, for all sequences in Node scope that select it.
    /// A pod that is tied to a node avoids no keys.
    fn node_constraints(&self, pod: Uid, position: usize) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let (mut avoid, mut tolerate) = (BTreeSet::new(), BTreeSet::new());
        if self.entry.ghost {
            return Default::default();
        }
        let floats = self.facts.cluster.pod(pod).is_some_and(|pod| self.facts.cluster.node_of(pod).is_none());
        let own = Membership { sequence: self.entry.sequence.uid, group: position as u32 };
        let own = self.entry.spec().map(|spec| (own, self.entry, spec));
        let all = own.into_iter().chain(other_memberships(self.facts, self.entry, pod));
        for (membership, entry, spec) in all.filter(|(_, _, spec)| spec.scope == Scope::Node) {
            let position = membership.group as usize;
            avoid.extend(
                nodes::avoided(entry, spec, position).filter(|_| floats && !planted(Bug::NotSteered)),
            );
            tolerate.extend(nodes::tolerated(self.facts, entry, spec, position));
        }
        (avoid.into_iter().collect(), tolerate.into_iter().collect())
    }

    fn count_start(&mut self, pod: Uid) {
        for (membership, _, _) in other_memberships(self.facts, self.entry, pod) {
            *self.started.entry(membership).or_default() += 1;
        }
    }
}

/// Groups of other existing sequences with the same gate that the pod belongs to.
fn other_memberships<'a>(
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    pod: Uid,
) -> impl Iterator<Item = (Membership, &'a SequenceEntry, &'a Arc<Spec>)> {
    let gate = entry.spec().map(|spec| &spec.gate);
    let others = facts.memberships_of(pod).filter(|membership| membership.sequence != entry.sequence.uid);
    others.filter_map(move |membership| {
        let other = facts.sequences.get(membership.sequence).filter(|other| !other.ghost)?;
        let spec = other.spec().filter(|spec| Some(&spec.gate) == gate)?;
        Some((membership, other, spec))
    })
}

/// Returns how many more members of a group may start now, within `maxConcurrentStarts`.
pub fn room_to_start(entry: &SequenceEntry, spec: &Spec, position: usize) -> u32 {
    let cell = entry.cell(position);
    let starting = cell.number(Standing::Releasing) + cell.number(Standing::Starting);
    let limit = spec.groups[position].max_concurrent_starts.filter(|_| !planted(Bug::AllAtOnce));
    let limit = limit.unwrap_or(u32::MAX);
    limit.saturating_sub(starting)
}

/// Returns another existing sequence that holds this pod through the same gate, if any.
pub fn held_by_another<'a>(
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    pod: Uid,
    now: Timestamp,
) -> Option<(&'a SequenceEntry, Reason)> {
    other_memberships(facts, entry, pod).find_map(|(membership, other, spec)| {
        let judged = evaluate(facts, other, now);
        let view = judged.groups.get(membership.group as usize)?;
        let full = room_to_start(other, spec, membership.group as usize) == 0;
        let open = match spec.scope {
            Scope::Cluster => view.open,
            Scope::Node => nodes::may_release(facts, &judged, pod, membership.group as usize),
        };
        (!open || spec.suspend || full).then(|| {
            let group = spec.groups[membership.group as usize].title.clone();
            // The text appears in the namespace of the pod and in the status of this sequence.
            let sequence = match entry.sequence.namespace == spec.pod_namespace {
                true => other.sequence.name_in(&spec.pod_namespace),
                false => other.sequence.full_name(),
            };
            let pod = facts.cluster.pod(pod).map_or_else(|| "a pod".into(), |pod| pod.name.clone());
            (other, Reason::OtherSequence { pod, sequence, group })
        })
    })
}
