//! Events: the differences between the last recorded state and the current evaluation.

use super::{
    Facts,
    evaluate::{Evaluation, GroupView},
    index::SequenceEntry,
    reason::Reason,
    spec::{Enforcement, OnTimeout, Recorded, RecordedGroup, Spec},
    status::{Condition, ConditionKind, Phase, Status},
};

use crate::{
    decision::{Event, EventKind, Subject},
    kind::Kind,
};
use std::sync::Arc;

/// Returns the state to record after this decision.
pub fn recorded(entry: &SequenceEntry, evaluation: &Evaluation, status: &Status) -> Recorded {
    let groups = match entry.spec() {
        // The groups were not evaluated (for example, because a permission was withdrawn): keep the recorded state.
        _ if evaluation.groups.is_empty() => entry.recorded().groups.clone(),
        None => entry.recorded().groups.clone(),
        Some(spec) => spec
            .groups
            .iter()
            .zip(&evaluation.groups)
            .map(|(g, view)| (g.id.clone(), of_view(view)))
            .collect(),
    };
    let holds = |kind| {
        status.conditions.iter().any(|condition: &Condition| condition.kind == kind && condition.holds)
    };
    Recorded {
        phase: Some(status.phase),
        groups,
        resumed_at: evaluation.resumed_at,
        begun_again: entry.recorded().begun_again.clone(),
        suspended: entry.is_suspended(),
        out_of_order: holds(ConditionKind::OutOfOrder),
        duplicates: entry.duplicates().next().is_some(),
        stalled: evaluation.stall.as_ref().map(|stall| Arc::from(stall.code())),
    }
}

/// The recorded part of a group evaluation.
pub(super) fn of_view(view: &GroupView) -> RecordedGroup {
    let GroupView { opened_at, completed_at, timed_out, finished, opened_ahead, completed_ahead, .. } = *view;
    RecordedGroup { opened_at, completed_at, timed_out, finished, opened_ahead, completed_ahead }
}

/// Returns the events for the change from `before` to `after`.
pub fn events(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    evaluation: &Evaluation,
    status: &Status,
    before: &Recorded,
    after: &Recorded,
) -> Vec<Event> {
    let mut events = Events { about: subject(entry), list: Vec::new() };
    if let Some(spec) = entry.spec().filter(|_| !evaluation.groups.is_empty()) {
        of_groups(spec, evaluation, before, &mut events);
        of_duplicates(facts, entry, spec, before, after, &mut events);
    }
    if after.out_of_order && !before.out_of_order {
        let disorder = status.conditions.iter().find(|condition| condition.kind == ConditionKind::OutOfOrder);
        let message = disorder.map_or(String::new(), |condition| condition.message.clone());
        events.push(EventKind::Warning, "OutOfOrder", message);
    }
    if let Some(stall) = evaluation.stall.as_ref().filter(|_| after.stalled != before.stalled) {
        events.push(EventKind::Warning, stall.code(), stall.sentence());
    }
    if after.suspended != before.suspended {
        let (reason, message) = match after.suspended {
            true => ("Suspended", "no pods are released until spec.suspend is false again"),
            false => ("Resumed", "the sequence continues; timeouts start again from zero"),
        };
        events.push(EventKind::Normal, reason, message.into());
    }
    if after.phase != before.phase && status.phase == Phase::Completed {
        events.push(EventKind::Normal, "Completed", status.message.clone());
    }
    events.list
}

struct Events {
    about: Subject,
    list: Vec<Event>,
}

impl Events {
    fn push(&mut self, kind: EventKind, reason: &'static str, message: String) {
        self.list.push(Event { about: self.about.clone(), kind, reason, message });
    }
}

fn subject(entry: &SequenceEntry) -> Subject {
    let sequence = &entry.sequence;
    Subject {
        kind: Kind::Sequence,
        namespace: sequence.namespace.clone(),
        name: sequence.name.clone(),
        uid: sequence.uid,
    }
}

fn of_groups(spec: &Spec, evaluation: &Evaluation, before: &Recorded, events: &mut Events) {
    for (position, (group, view)) in spec.groups.iter().zip(&evaluation.groups).enumerate() {
        let progress = evaluation.progress(spec, position);
        let was = before.groups.get(&group.id).copied().unwrap_or_default();
        let title = &group.title;
        if view.opened_at.is_some() && was.opened_at.is_none() {
            let message = format!("\"{title}\" is open; {} of its pods exist", view.present);
            events.push(EventKind::Normal, "GroupOpened", message);
        }
        if view.completed_at.is_some() && was.completed_at.is_none() {
            let message = format!("\"{title}\" is complete: {progress}");
            events.push(EventKind::Normal, "GroupComplete", message);
        }
        if spec.enforcement == Enforcement::Continuous
            && view.completed_at.is_none()
            && was.completed_at.is_some()
        {
            let message = format!("\"{title}\" is no longer complete: {progress}");
            events.push(EventKind::Normal, "GroupIncomplete", message);
        }
        if view.timed_out && !was.timed_out && group.on_timeout == OnTimeout::Continue {
            let after = group.timeout.unwrap_or_default();
            let timeout = Reason::Timeout { group: title.clone(), after, progress };
            let message = format!("{}; the sequence continues (onTimeout: Continue)", timeout.sentence());
            events.push(EventKind::Warning, "Timeout", message);
        }
    }
}

fn of_duplicates(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    before: &Recorded,
    after: &Recorded,
    events: &mut Events,
) {
    if !after.duplicates || before.duplicates {
        return;
    }
    let Some((position, pod)) = entry.duplicates().next() else { return };
    let first = facts.memberships_of(pod).find(|membership| membership.sequence == entry.sequence.uid);
    let (Some(first), Some(pod)) = (first, facts.cluster.pod(pod)) else { return };
    let message = format!(
        "{} is selected by groups \"{}\" and \"{}\"; it belongs to \"{}\", the first of them",
        pod.name,
        spec.groups[first.group as usize].title,
        spec.groups[position].title,
        spec.groups[first.group as usize].title,
    );
    events.push(EventKind::Warning, "DuplicateMember", message);
}
