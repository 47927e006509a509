//! Sequences coming, changing and going; the ghosts of deleted ones; the notes they leave.

use super::{Cell, Claim, Index, Kind};
use crate::{
    Uid,
    sequence::{
        Sequence,
        spec::{DeletionPolicy, Members, Recorded, Scope, Spec},
    },
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A sequence with its counts.
#[derive(Debug)]
pub struct SequenceEntry {
    pub sequence: Sequence,
    /// Deleted; what is left of it takes its gate from the pods it still holds.
    pub ghost: bool,
    cells: Vec<Cell>,
    /// Pods that a group of this sequence claims and an earlier one has, by group.
    lost: BTreeMap<u32, BTreeSet<Uid>>,
    /// What was decided last, newer than what the status has recorded.
    remembered: Option<Recorded>,
}

/// What must still be done if a sequence is deleted while nobody watches; see `Note` in the docs of the
/// controller. Says everything a ghost needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The uid of the sequence it speaks of.
    pub sequence: Uid,
    pub version: u64,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub spec: Arc<Spec>,
}

impl Note {
    /// Whether it tells all that would have to be done for `spec`.
    pub fn says(&self, spec: &Spec) -> bool {
        let members = |spec: &Spec| spec.groups.iter().map(|group| group.members.clone()).collect::<Vec<_>>();
        self.spec.target == spec.target && self.spec.gate == spec.gate && members(&self.spec) == members(spec)
    }
}

impl SequenceEntry {
    fn new(sequence: Sequence, ghost: bool) -> SequenceEntry {
        let groups = sequence.spec.as_ref().map_or(0, |spec| spec.groups.len());
        let cells = std::iter::repeat_with(Cell::default).take(groups).collect();
        SequenceEntry { sequence, ghost, cells, lost: BTreeMap::new(), remembered: None }
    }

    /// Its spec, if it can be acted on: valid, and of a scope this index counts.
    pub fn spec(&self) -> Option<&Arc<Spec>> {
        self.sequence.spec.as_ref().ok().filter(|spec| spec.scope == Scope::Cluster)
    }

    pub fn cell(&self, group: usize) -> &Cell {
        &self.cells[group]
    }

    pub(super) fn cell_mut(&mut self, group: u32) -> &mut Cell {
        &mut self.cells[group as usize]
    }

    /// How many pods a group lists or selects that belong to an earlier group.
    pub fn lost(&self, group: usize) -> u32 {
        self.lost.get(&(group as u32)).map_or(0, |pods| pods.len() as u32)
    }

    /// The pods that two groups of this sequence claim.
    pub fn duplicates(&self) -> impl Iterator<Item = (usize, Uid)> {
        self.lost.iter().flat_map(|(group, pods)| pods.iter().map(move |pod| (*group as usize, *pod)))
    }

    pub(super) fn lost_to_an_earlier_group(&mut self, claim: Claim, pod: Uid, lost: bool) {
        let pods = self.lost.entry(claim.group).or_default();
        match lost {
            true => pods.insert(pod),
            false => pods.remove(&pod),
        };
        if pods.is_empty() {
            self.lost.remove(&claim.group);
        }
    }

    /// The times that decisions go by: what was decided last, else what the status has recorded.
    pub fn recorded(&self) -> &Recorded {
        self.remembered.as_ref().unwrap_or(&self.sequence.recorded)
    }

    /// The pods counted in any of its groups.
    fn members(&self) -> BTreeSet<Uid> {
        let standings = super::Standing::ALL;
        let cells = self.cells.iter();
        let counted =
            cells.flat_map(|cell| standings.into_iter().flat_map(|standing| cell.members(standing)));
        counted.map(|(_, uid)| uid).collect()
    }

    fn templates(&self) -> BTreeSet<Uid> {
        self.cells.iter().flat_map(Cell::owners).collect()
    }
}

impl Index {
    pub(super) fn apply_sequence(&mut self, sequence: Sequence) {
        self.saw(Kind::Sequence, sequence.version);
        let uid = sequence.uid;
        if self.tombstones.contains(&uid) {
            return;
        }
        self.touched.insert(uid);
        match self.sequences.get_mut(&uid) {
            Some(known) if known.sequence.version >= sequence.version && !known.ghost => return,
            Some(known) if known.sequence.spec == sequence.spec && !known.ghost => {
                known.sequence = sequence;
                return;
            }
            Some(_) | None => {}
        }
        let remembered = self.sequences.get_mut(&uid).and_then(|known| known.remembered.take());
        let entry = SequenceEntry { remembered, ..SequenceEntry::new(sequence, false) };
        self.change_sequence(uid, Some(entry));
    }

    pub(super) fn delete_sequence(&mut self, uid: Uid) {
        let Some(entry) = self.sequences.get(&uid).filter(|entry| !entry.ghost) else { return };
        let leaves_a_ghost = entry.spec().is_some_and(|spec| spec.deletion_policy == DeletionPolicy::Release);
        let ghost = leaves_a_ghost.then(|| SequenceEntry::new(entry.sequence.clone(), true));
        self.bury(uid);
        self.touched.insert(uid);
        // Its end was seen, so what is to be done is known here; its note is only waiting to be removed.
        if self.notes.contains_key(&uid) {
            self.settled.insert(uid);
        }
        self.change_sequence(uid, ghost);
    }

    /// A ghost has done its work.
    pub fn lay_to_rest(&mut self, uid: Uid) {
        if self.sequences.get(&uid).is_some_and(|entry| entry.ghost) {
            self.change_sequence(uid, None);
        }
    }

    /// Replaces a sequence by another version of itself, or by nothing, and counts all pods concerned anew.
    fn change_sequence(&mut self, uid: Uid, entry: Option<SequenceEntry>) {
        let (mut pods, mut templates) = (BTreeSet::new(), BTreeSet::new());
        if let Some(old) = self.sequences.get(&uid) {
            pods.extend(old.members());
            templates.extend(old.templates());
        }
        if let Some(new) = entry.as_ref().and_then(SequenceEntry::spec) {
            self.find_members(new, &mut pods, &mut templates);
        }
        pods.iter().for_each(|pod| self.unplace(*pod));
        templates.iter().for_each(|owner| self.unplace_template(*owner));
        self.unregister(uid);
        if let Some(entry) = entry {
            self.register(uid, entry);
        }
        templates.iter().for_each(|owner| self.place_template(*owner));
        for pod in pods {
            self.resolve_claims(pod);
            self.place(pod);
        }
    }

    fn register(&mut self, uid: Uid, entry: SequenceEntry) {
        if let Some(spec) = entry.spec() {
            self.claims.insert(uid, spec);
        }
        if let Ok(spec) = &entry.sequence.spec
            && spec.target != entry.sequence.namespace
        {
            self.guests.entry(spec.target.clone()).or_default().insert(uid);
        }
        self.sequences.insert(uid, entry);
    }

    fn unregister(&mut self, uid: Uid) {
        let Some(entry) = self.sequences.remove(&uid) else { return };
        if let Some(spec) = entry.spec() {
            self.claims.remove(uid, spec);
        }
        if let Ok(spec) = &entry.sequence.spec
            && let Some(guests) = self.guests.get_mut(&spec.target)
        {
            guests.remove(&uid);
        }
    }

    fn find_members(&self, spec: &Spec, pods: &mut BTreeSet<Uid>, templates: &mut BTreeSet<Uid>) {
        for group in &spec.groups {
            match &group.members {
                Members::Names(names) => {
                    let known = self.pod_names.get(&spec.target);
                    pods.extend(names.iter().filter_map(|name| known?.get(name)));
                }
                Members::Selector(selector) => {
                    pods.extend(self.pod_labels.candidates(&spec.target, selector));
                    templates.extend(self.template_labels.candidates(&spec.target, selector));
                }
            }
        }
    }

    /// Keeps what was decided, until the status has it.
    pub fn remember(&mut self, uid: Uid, recorded: Recorded) {
        if let Some(entry) = self.sequences.get_mut(&uid) {
            entry.remembered = Some(recorded);
        }
    }

    pub(super) fn live_sequences(&self) -> impl Iterator<Item = Uid> {
        self.sequences.iter().filter(|(_, entry)| !entry.ghost).map(|(uid, _)| *uid)
    }

    pub(super) fn apply_note(&mut self, note: Note) {
        self.saw(Kind::Note, note.version);
        let uid = note.sequence;
        if self.notes.get(&uid).is_some_and(|known| known.version >= note.version) {
            return;
        }
        self.notes.insert(uid, note);
        self.touched.insert(uid);
        if self.synced.contains(&Kind::Sequence) && self.synced.contains(&Kind::Note) {
            self.adopt_notes();
        }
    }

    /// A note has been written; this is what it says now.
    pub fn note_written(&mut self, note: Note) {
        self.apply_note(note);
    }

    pub fn delete_note(&mut self, sequence: Uid) {
        self.notes.remove(&sequence);
        self.settled.remove(&sequence);
        self.touched.insert(sequence);
    }

    /// Raises a ghost for every note whose sequence is gone. Only called after a successful list of the
    /// sequences: that a list failed, or that the kind itself is not there, proves nothing.
    pub(super) fn adopt_notes(&mut self) {
        let orphan = |note: &&Note| {
            !self.sequences.contains_key(&note.sequence) && !self.settled.contains(&note.sequence)
        };
        let orphans: Vec<Note> = self.notes.values().filter(orphan).cloned().collect();
        for Note { sequence: uid, version, namespace, name, spec } in orphans {
            let recorded = Recorded::default();
            let opened_by_hand = BTreeSet::new();
            let spec = Ok(spec);
            let sequence =
                Sequence { uid, namespace, name, version, generation: 0, spec, opened_by_hand, recorded };
            self.touched.insert(uid);
            self.change_sequence(uid, Some(SequenceEntry::new(sequence, true)));
        }
    }
}
