//! What to do about a sequence: a function of the facts and of `now`. Same input, same decision.

use super::{
    evaluate::{Evaluation, evaluate},
    events::{Event, events, recorded},
    reason::Reason,
    spec::{DeletionPolicy, Recorded, Spec},
    status::{Status, status},
};
use crate::{
    Timestamp, Uid,
    index::{Index, Note, SequenceEntry, Standing},
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How the controller that asks was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether notes can be written: there is a namespace of our own.
    pub notes: bool,
}

/// One thing to do, so specific that nothing is left to choose.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Take `gate` from the pod of this uid.
    Release {
        pod: Uid,
        namespace: Arc<str>,
        name: Arc<str>,
        gate: Arc<str>,
    },
    WriteNote {
        note: Box<Note>,
    },
    DropNote {
        sequence: Uid,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// There is more to release than the budget allowed; ask again when there is room.
    pub more: bool,
    /// `None` for ghosts: there is no object to write it to.
    pub status: Option<Status>,
    /// The status has something that must not wait: a phase, or a time that a later decision needs.
    pub urgent: bool,
    pub recorded: Option<Recorded>,
    pub events: Vec<Event>,
    /// When to decide again if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// A ghost that has nothing left to do.
    pub finished: bool,
}

impl Decision {
    fn nothing() -> Decision {
        Decision {
            actions: Vec::new(),
            more: false,
            status: None,
            urgent: false,
            recorded: None,
            events: Vec::new(),
            wake_at: None,
            finished: false,
        }
    }
}

/// Decides about one sequence, with at most `budget` releases. Costs O(groups + releases).
pub fn decide(index: &Index, uid: Uid, settings: Settings, now: Timestamp, budget: usize) -> Decision {
    match index.sequence(uid) {
        Some(entry) if entry.ghost => of_ghost(index, entry, now, budget),
        Some(entry) => of_live(index, entry, settings, now, budget),
        None => {
            let note = index.note(uid).map(|_| Action::DropNote { sequence: uid });
            Decision { actions: note.into_iter().collect(), ..Decision::nothing() }
        }
    }
}

fn of_live(
    index: &Index,
    entry: &SequenceEntry,
    settings: Settings,
    now: Timestamp,
    budget: usize,
) -> Decision {
    let evaluation = evaluate(index, entry, now);
    let status = status(index, entry, &evaluation);
    let recorded = recorded(entry, &evaluation, &status);
    let events = events(index, entry, &evaluation, &status, entry.recorded(), &recorded);
    let mut decision = Decision {
        urgent: urgent(entry, &recorded),
        status: Some(status),
        recorded: Some(recorded),
        events,
        wake_at: evaluation.wake_at,
        ..Decision::nothing()
    };
    let Some(spec) = entry.spec().filter(|_| !evaluation.groups.is_empty()) else { return decision };
    decision.actions.extend(note_action(index, entry, spec, settings));
    // The note comes first: if we vanish after a release, it says what is left to do.
    let noted = !decision.actions.iter().any(|action| matches!(action, Action::WriteNote { .. }));
    if noted && !spec.suspend {
        let mut releases = Releases::new(index, entry, spec, now, budget);
        for (position, view) in evaluation.groups.iter().enumerate() {
            if view.open {
                releases.of_group(position);
            }
        }
        decision.more = releases.more;
        decision.actions.append(&mut releases.actions);
    }
    decision
}

/// A deleted sequence takes its gate from all it still holds, in no order, unless a living one holds it too.
fn of_ghost(index: &Index, entry: &SequenceEntry, now: Timestamp, budget: usize) -> Decision {
    let mut decision = Decision::nothing();
    let uid = entry.sequence.uid;
    let permitted = !evaluate(index, entry, now).groups.is_empty();
    let mut in_flight = false;
    if let Some(spec) = entry.spec().filter(|_| permitted) {
        let mut releases = Releases::new(index, entry, spec, now, budget);
        for position in 0..spec.groups.len() {
            releases.of_group(position);
            in_flight |= entry.cell(position).number(Standing::Releasing) > 0;
        }
        decision.more = releases.more;
        decision.actions = releases.actions;
    }
    if decision.actions.is_empty() && !decision.more && !in_flight {
        decision.actions.extend(index.note(uid).map(|_| Action::DropNote { sequence: uid }));
        decision.finished = true;
    }
    decision
}

fn note_action(index: &Index, entry: &SequenceEntry, spec: &Arc<Spec>, settings: Settings) -> Option<Action> {
    let sequence = &entry.sequence;
    let known = index.note(sequence.uid);
    match (spec.deletion_policy, settings.notes) {
        (DeletionPolicy::Hold, _) => known.map(|_| Action::DropNote { sequence: sequence.uid }),
        (DeletionPolicy::Release, false) => None,
        (DeletionPolicy::Release, true) if known.is_some_and(|note| note.says(spec)) => None,
        (DeletionPolicy::Release, true) => {
            let (namespace, name) = (sequence.namespace.clone(), sequence.name.clone());
            let note = Note { sequence: sequence.uid, version: 0, namespace, name, spec: spec.clone() };
            Some(Action::WriteNote { note: Box::new(note) })
        }
    }
}

/// Whether the status as the API server has it lacks something that must not be lost or late.
fn urgent(entry: &SequenceEntry, new: &Recorded) -> bool {
    let written = &entry.sequence.recorded;
    let times_missing = entry.spec().is_some_and(|spec| {
        spec.groups.iter().any(|group| {
            let (new, written) = (new.groups.get(&group.id), written.groups.get(&group.id));
            let (new, written) = (new.copied().unwrap_or_default(), written.copied().unwrap_or_default());
            group.timeout.is_some() && new.opened_at != written.opened_at
                || !group.wait.is_zero() && new.completed_at != written.completed_at
        })
    });
    times_missing
        || new.phase != written.phase
        || new.stalled != written.stalled
        || new.suspended != written.suspended
        || new.resumed_at != written.resumed_at
}

/// Collects releases within the budget.
struct Releases<'a> {
    index: &'a Index,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    now: Timestamp,
    budget: usize,
    actions: Vec<Action>,
    more: bool,
    /// Other sequences that claim the same pods, judged once.
    others: BTreeMap<Uid, Evaluation>,
}

impl<'a> Releases<'a> {
    fn new(
        index: &'a Index,
        entry: &'a SequenceEntry,
        spec: &'a Spec,
        now: Timestamp,
        budget: usize,
    ) -> Releases<'a> {
        Releases {
            index,
            entry,
            spec,
            now,
            budget,
            actions: Vec::new(),
            more: false,
            others: BTreeMap::new(),
        }
    }

    fn of_group(&mut self, position: usize) {
        let entry = self.entry;
        let mut room = match entry.ghost {
            true => u32::MAX,
            false => room_to_start(entry, self.spec, position),
        };
        for (name, uid) in entry.cell(position).members(Standing::Held) {
            if room == 0 {
                return;
            }
            if self.index.in_flight(uid) || !self.others_allow(uid) {
                continue;
            }
            if self.actions.len() == self.budget {
                self.more = true;
                return;
            }
            room -= 1;
            let (namespace, gate) = (self.spec.target.clone(), self.spec.gate.clone());
            self.actions.push(Action::Release { pod: uid, namespace, name: name.clone(), gate });
        }
    }

    /// A pod that several sequences claim through the same gate goes when all of them let it.
    fn others_allow(&mut self, pod: Uid) -> bool {
        for claim in self.index.claims_on(pod) {
            let Some(other) = self.index.sequence(claim.sequence) else { continue };
            if claim.sequence == self.entry.sequence.uid || other.ghost {
                continue;
            }
            let Some(spec) = other.spec().filter(|spec| spec.gate == self.spec.gate) else { continue };
            let now = self.now;
            let judged =
                self.others.entry(claim.sequence).or_insert_with(|| evaluate(self.index, other, now));
            // No groups: it may not act here at all, so it has no say.
            let Some(view) = judged.groups.get(claim.group as usize) else { continue };
            if !view.open || spec.suspend || room_to_start(other, spec, claim.group as usize) == 0 {
                return false;
            }
        }
        true
    }
}

/// How many more members of a group may be starting at the same time.
pub fn room_to_start(entry: &SequenceEntry, spec: &Spec, position: usize) -> u32 {
    let cell = entry.cell(position);
    let starting = cell.number(Standing::Releasing) + cell.number(Standing::Starting);
    let limit = spec.groups[position].max_concurrent_starts.unwrap_or(u32::MAX);
    limit.saturating_sub(starting)
}

/// Which living sequence, if any, holds this pod back through the same gate.
pub fn held_by_another<'a>(
    index: &'a Index,
    entry: &SequenceEntry,
    pod: Uid,
    now: Timestamp,
) -> Option<(&'a SequenceEntry, Reason)> {
    let gate = &entry.spec()?.gate;
    index.claims_on(pod).find_map(|claim| {
        let other = index.sequence(claim.sequence).filter(|other| !other.ghost)?;
        let spec = other.spec().filter(|spec| spec.gate == *gate)?;
        let judged = evaluate(index, other, now);
        let view = judged.groups.get(claim.group as usize)?;
        let holds = claim.sequence != entry.sequence.uid && (!view.open || spec.suspend);
        holds.then(|| {
            let group = spec.groups[claim.group as usize].title.clone();
            (other, Reason::OtherSequence { sequence: other.sequence.name.to_string(), group })
        })
    })
}
