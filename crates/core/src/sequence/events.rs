//! What is worth announcing: the differences between what was recorded last and what is decided now.

use super::{
    evaluate::{Evaluation, GroupView},
    reason::{Reason, of},
    spec::{Enforcement, OnTimeout, Recorded, RecordedGroup, Spec},
    status::{Condition, ConditionKind, Phase, Status},
};
use crate::{index::Index, index::SequenceEntry};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Normal,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub reason: &'static str,
    pub message: String,
}

/// What this decision leaves to be recorded.
pub fn recorded(entry: &SequenceEntry, evaluation: &Evaluation, status: &Status) -> Recorded {
    let groups = match entry.spec() {
        // Not judged now (permission withdrawn, say): what was known about the groups stays.
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
        suspended: entry.is_suspended(),
        out_of_order: holds(ConditionKind::OutOfOrder),
        duplicates: entry.duplicates().next().is_some(),
        stalled: evaluation.stall.as_ref().map(|stall| Arc::from(stall.code())),
    }
}

fn of_view(view: &GroupView) -> RecordedGroup {
    let GroupView { opened_at, completed_at, timed_out, opened_ahead, completed_ahead, .. } = *view;
    RecordedGroup { opened_at, completed_at, timed_out, opened_ahead, completed_ahead }
}

/// The events of the step from `before` to `after`.
pub fn events(
    index: &Index,
    entry: &SequenceEntry,
    evaluation: &Evaluation,
    status: &Status,
    before: &Recorded,
    after: &Recorded,
) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(spec) = entry.spec().filter(|_| !evaluation.groups.is_empty()) {
        of_groups(spec, evaluation, before, &mut events);
        of_duplicates(index, entry, spec, before, after, &mut events);
    }
    if after.out_of_order && !before.out_of_order {
        let disorder = status.conditions.iter().find(|condition| condition.kind == ConditionKind::OutOfOrder);
        let message = disorder.map_or(String::new(), |condition| condition.message.clone());
        events.push(Event { kind: EventKind::Warning, reason: "OutOfOrder", message });
    }
    if let Some(stall) = evaluation.stall.as_ref().filter(|_| after.stalled != before.stalled) {
        events.push(Event { kind: EventKind::Warning, reason: stall.code(), message: stall.sentence() });
    }
    if after.suspended != before.suspended {
        let (reason, message) = match after.suspended {
            true => ("Suspended", "nothing is released until spec.suspend is false again"),
            false => ("Resumed", "the sequence goes on; timeouts start anew"),
        };
        events.push(Event { kind: EventKind::Normal, reason, message: message.into() });
    }
    if after.phase != before.phase && status.phase == Phase::Completed {
        events.push(Event { kind: EventKind::Normal, reason: "Completed", message: status.message.clone() });
    }
    events
}

fn of_groups(spec: &Spec, evaluation: &Evaluation, before: &Recorded, events: &mut Vec<Event>) {
    for (group, view) in spec.groups.iter().zip(&evaluation.groups) {
        let was = before.groups.get(&group.id).copied().unwrap_or_default();
        let title = &group.title;
        if view.opened_at.is_some() && was.opened_at.is_none() {
            let message = format!("\"{title}\" is open, {} of its pods exist", view.present);
            events.push(Event { kind: EventKind::Normal, reason: "GroupOpened", message });
        }
        if view.completed_at.is_some() && was.completed_at.is_none() {
            let message = format!("\"{title}\" is complete: {} arrived", of(view.arrived, view.required));
            events.push(Event { kind: EventKind::Normal, reason: "GroupComplete", message });
        }
        if spec.enforcement == Enforcement::Continuous
            && view.completed_at.is_none()
            && was.completed_at.is_some()
        {
            let message =
                format!("\"{title}\" is not complete any more: {} arrived", of(view.arrived, view.required));
            events.push(Event { kind: EventKind::Normal, reason: "GroupIncomplete", message });
        }
        if view.timed_out && !was.timed_out && group.on_timeout == OnTimeout::Continue {
            let after = group.timeout.unwrap_or_default();
            let (arrived, required) = (view.arrived, view.required);
            let timeout = Reason::Timeout { group: title.clone(), after, arrived, required };
            let message = format!("{}; the sequence goes on (onTimeout: Continue)", timeout.sentence());
            events.push(Event { kind: EventKind::Warning, reason: "Timeout", message });
        }
    }
}

fn of_duplicates(
    index: &Index,
    entry: &SequenceEntry,
    spec: &Spec,
    before: &Recorded,
    after: &Recorded,
    events: &mut Vec<Event>,
) {
    if !after.duplicates || before.duplicates {
        return;
    }
    let Some((position, pod)) = entry.duplicates().next() else { return };
    let first = index.claims_on(pod).find(|claim| claim.sequence == entry.sequence.uid);
    let (Some(first), Some(pod)) = (first, index.pod(pod)) else { return };
    let message = format!(
        "{} is in \"{}\" and in \"{}\"; it belongs to \"{}\", which comes first",
        pod.name,
        spec.groups[first.group as usize].title,
        spec.groups[position].title,
        spec.groups[first.group as usize].title,
    );
    events.push(Event { kind: EventKind::Warning, reason: "DuplicateMember", message });
}
