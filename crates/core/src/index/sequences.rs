//! Sequences coming, changing and going; the ghosts of deleted ones; the notes they leave.

use super::claims::{BELONGS, own_word};
use super::{Board, Cell, Claim, Index, Kind, Mode, Object, no_cells};
use crate::{
    Timestamp, Uid,
    facts::Owner,
    planted::{Bug, is},
    selector::{Operator, Requirement, Selector},
    sequence::{
        NodeView, Sequence,
        keys::{UNSEEN, keys, prefix},
        spec::{DeletionPolicy, Enforcement, Members, Recorded, Scope, Spec},
        status::Phase,
        views::Judgements,
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
    unlisted: BTreeMap<u32, u32>,
    /// What was decided last, newer than what the status has recorded.
    remembered: Option<Recorded>,
    /// Its note tells all that would have to be done for its spec. Kept here, because a decision must not
    /// compare thousands of names each time.
    noted: bool,
    mode: Mode,
    /// In Node scope: what is counted and was judged, per node, and of the pods that belong to none yet.
    board: Board,
    floating: Vec<Cell>,
    /// In Node scope: the key of each group.
    keys: Vec<Arc<str>>,
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
    /// Of the sequence, when this was written.
    pub generation: i64,
    pub spec: Arc<Spec>,
}

impl Note {
    /// Whether it tells all that would have to be done for `spec`.
    pub fn says(&self, spec: &Spec) -> bool {
        let members = self.spec.groups.iter().map(|group| &group.members);
        self.spec.target == spec.target
            && self.spec.gate == spec.gate
            && members.eq(spec.groups.iter().map(|group| &group.members))
    }
}

impl SequenceEntry {
    fn new(sequence: Sequence, ghost: bool, mode: Mode) -> SequenceEntry {
        let groups = sequence.spec.as_ref().map_or(0, |spec| spec.groups.len());
        let keys = match &sequence.spec {
            Ok(spec) if spec.scope == Scope::Node => {
                let prefix = prefix(spec.guard, mode.taint_prefix);
                keys(prefix, &sequence.namespace, &sequence.name, &spec.groups)
            }
            Ok(_) | Err(_) => Vec::new(),
        };
        SequenceEntry {
            sequence,
            ghost,
            cells: no_cells(groups),
            lost: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            remembered: None,
            noted: false,
            mode,
            board: Board::new(groups),
            floating: no_cells(groups),
            keys,
        }
    }

    /// Its name, if its pods are in its own namespace: only those can name it.
    fn name_at_home(&self) -> Option<&str> {
        let spec = self.spec()?;
        (spec.target == self.sequence.namespace).then_some(&*self.sequence.name)
    }

    /// In Node scope: what keeps a node closed for a group.
    pub fn key(&self, group: usize) -> &Arc<str> {
        &self.keys[group]
    }

    pub fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    /// The members of a group that belong to a node; `None` if there are none of any group.
    pub fn cell_on(&self, node: &str, group: usize) -> Option<&Cell> {
        self.board.cell(node, group)
    }

    /// The members of a group that belong to no node yet.
    pub fn floating(&self, group: usize) -> &Cell {
        &self.floating[group]
    }

    pub(super) fn change_cell_at(
        &mut self,
        node: Option<(&Arc<str>, bool)>,
        group: u32,
        change: impl FnOnce(&mut Cell),
    ) {
        match node {
            Some((node, exists)) => self.board.change_cell(node, exists, group, change),
            None => change(&mut self.floating[group as usize]),
        }
    }

    /// What is known of each node.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Something about a node has changed. If it is gone, or another one has its name, what was decided about it is void.
    pub(super) fn look_again(&mut self, node: &Arc<str>, there: bool, another: bool) {
        if (another || !there) && !is(Bug::NodeNameNotUid) {
            self.board.forget(node);
        }
        if there {
            self.board.look_again(node);
        }
    }

    /// What was decided last about a node.
    pub fn view_of(&self, node: &str) -> Option<&NodeView> {
        self.board.judged(node).map(|judged| &judged.view)
    }

    /// Whether its note tells all that would have to be done.
    pub fn is_noted(&self) -> bool {
        self.noted
    }

    /// Whether `spec.suspend` is set; a spec that cannot be understood leaves that as it was.
    pub fn is_suspended(&self) -> bool {
        self.sequence.spec.as_ref().map_or(self.recorded().suspended, |spec| spec.suspend)
    }

    /// Its spec, if it can be acted on: valid, and of a scope this index counts.
    pub fn spec(&self) -> Option<&Arc<Spec>> {
        self.sequence.spec.as_ref().ok().filter(|spec| spec.scope == Scope::Cluster || self.mode.full)
    }

    pub fn cell(&self, group: usize) -> &Cell {
        &self.cells[group]
    }

    pub(super) fn cell_mut(&mut self, group: u32) -> &mut Cell {
        &mut self.cells[group as usize]
    }

    /// A workload wants another number of pods; says whether any of its are members.
    pub(super) fn recount(&mut self, owner: &Owner) -> bool {
        let Some(spec) = self.spec().cloned() else { return false };
        let mut concerned = false;
        for (group, cell) in spec.groups.iter().zip(&mut self.cells) {
            if cell.is_of(owner.uid) {
                cell.recount(owner.uid, Some(owner), group.until);
                concerned = true;
            }
        }
        concerned
    }

    /// Pods of a group that its list does not name: they say themselves that they belong to it.
    pub fn unlisted(&self, group: usize) -> u32 {
        self.unlisted.get(&(group as u32)).copied().unwrap_or_default()
    }

    pub(super) fn count_unlisted(&mut self, group: u32, add: bool) {
        let number = self.unlisted.entry(group).or_default();
        *number = if add { *number + 1 } else { number.saturating_sub(1) };
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

    /// Another controller that acts at the same time may have journaled other times for the same steps. The later
    /// ones hold, for both of them, or each would write its own over the other's for ever. In Bootstrap a time
    /// counts that only the other one has; in Continuous its absence may be the newer fact.
    fn agree_with(&mut self, seen: &Sequence) {
        let Some(remembered) = &mut self.remembered else { return };
        // What has begun has begun, whoever began it.
        if remembered.phase == Some(Phase::Pending)
            && matches!(seen.recorded.phase, Some(Phase::InProgress | Phase::Completed))
        {
            remembered.phase = seen.recorded.phase;
        }
        let bootstrap = seen.spec.as_ref().is_ok_and(|spec| spec.enforcement == Enforcement::Bootstrap);
        let later = |ours: Option<Timestamp>, theirs: Option<Timestamp>| match ours {
            None if !bootstrap => None,
            ours => ours.max(theirs),
        };
        for (id, ours) in &mut remembered.groups {
            let Some(theirs) = seen.recorded.groups.get(id) else { continue };
            ours.opened_at = later(ours.opened_at, theirs.opened_at);
            ours.completed_at = later(ours.completed_at, theirs.completed_at);
        }
        remembered.resumed_at = later(remembered.resumed_at, seen.recorded.resumed_at);
    }

    /// The times that decisions go by: what was decided last, else what the status has recorded.
    pub fn recorded(&self) -> &Recorded {
        self.remembered.as_ref().unwrap_or(&self.sequence.recorded)
    }
}

impl Index {
    pub(super) fn apply_sequence(&mut self, mut sequence: Sequence) {
        self.saw(Kind::Sequence, sequence.version);
        let uid = sequence.uid;
        if self.tombstones.contains(&uid) {
            return;
        }
        self.touched.insert(uid);
        if is(Bug::JournalForgotten) && !self.sequences.contains_key(&uid) {
            sequence.recorded = Recorded::default();
        }
        if is(Bug::GenerationBack) && !self.sequences.contains_key(&uid) {
            sequence.generation = 1;
        }
        match self.sequences.get_mut(&uid) {
            Some(known) if known.sequence.version >= sequence.version && !known.ghost => {
                return;
            }
            Some(known) if known.sequence.spec == sequence.spec && !known.ghost => {
                known.agree_with(&sequence);
                known.sequence = sequence;
                return;
            }
            Some(_) | None => {}
        }
        let remembered = self.sequences.get_mut(&uid).and_then(|known| {
            known.agree_with(&sequence);
            known.remembered.take()
        });
        let entry = SequenceEntry { remembered, ..SequenceEntry::new(sequence, false, self.mode) };
        self.change_sequence(uid, Some(entry));
    }

    pub(super) fn delete_sequence(&mut self, uid: Uid) {
        self.bury(uid);
        let Some(entry) = self.sequences.get(&uid).filter(|entry| !entry.ghost) else { return };
        let ghost = self.ghost_of(entry);
        self.touched.insert(uid);
        // Its end was seen, so what is to be done is known here; its note is only waiting to be removed.
        if self.notes.contains_key(&uid) {
            self.settled.insert(uid);
        }
        self.change_sequence(uid, ghost);
    }

    /// What is left to do of a sequence that goes. If its last spec cannot be acted on, an earlier one may have
    /// left pods behind: its note knows them.
    fn ghost_of(&self, entry: &SequenceEntry) -> Option<SequenceEntry> {
        match (&entry.sequence.spec, entry.spec()) {
            // It has nothing to let go; but on nodes nothing of it may stay.
            (Ok(spec), _)
                if spec.deletion_policy == DeletionPolicy::Hold
                    && spec.scope == Scope::Cluster
                    && !is(Bug::HoldIgnored) =>
            {
                None
            }
            (_, Some(_)) => Some(SequenceEntry::new(entry.sequence.clone(), true, self.mode)),
            (_, None) => {
                self.notes.get(&entry.sequence.uid).cloned().map(|note| ghost_of_note(note, self.mode))
            }
        }
    }

    /// A sequence that a restored cluster does not have: nobody deleted it, so nothing is to be done for it.
    pub(super) fn forget_sequence(&mut self, uid: Uid) {
        self.touched.insert(uid);
        self.change_sequence(uid, None);
    }

    /// A ghost has done its work.
    pub fn lay_to_rest(&mut self, uid: Uid) {
        if self.sequences.get(&uid).is_some_and(|entry| entry.ghost) {
            // Or its note, until that is removed, would raise it again.
            if self.notes.contains_key(&uid) {
                self.settled.insert(uid);
            }
            self.change_sequence(uid, None);
        }
    }

    /// Replaces a sequence by another version of itself, or by nothing, and counts all pods concerned anew.
    fn change_sequence(&mut self, uid: Uid, entry: Option<SequenceEntry>) {
        let (mut pods, mut templates) = (BTreeSet::new(), BTreeSet::new());
        // By its claims, not by its counts: terminating pods are claimed too, and not counted.
        for known in self.sequences.get(&uid).into_iter().chain(&entry) {
            if let Some(spec) = known.spec() {
                self.find_members(spec, known.name_at_home(), &mut pods, &mut templates);
            }
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
        self.compare_note(uid);
    }

    fn register(&mut self, uid: Uid, entry: SequenceEntry) {
        if let Some(spec) = entry.spec() {
            self.claims.insert(uid, spec, entry.name_at_home());
        }
        if let Ok(spec) = &entry.sequence.spec
            && spec.target != entry.sequence.namespace
        {
            self.guests.entry(spec.target.clone()).or_default().insert(uid);
        }
        if entry.spec().is_some_and(|spec| spec.scope == Scope::Node) {
            self.node_scoped.insert(uid);
            self.node_scoped_since += 1;
        }
        self.sequences.insert(uid, entry);
    }

    fn unregister(&mut self, uid: Uid) {
        let Some(entry) = self.sequences.remove(&uid) else { return };
        if self.node_scoped.remove(&uid) {
            self.node_scoped_since += 1;
            // For some of them it may have been the last to be waited for.
            if self.nodes().any(|node| node.labels.get(UNSEEN).is_some()) {
                self.touched.extend(self.node_scoped.iter());
            }
        }
        if let Some(spec) = entry.spec() {
            self.claims.remove(uid, spec);
        }
        if let Ok(spec) = &entry.sequence.spec
            && let Some(guests) = self.guests.get_mut(&spec.target)
        {
            guests.remove(&uid);
        }
    }

    fn find_members(
        &self,
        spec: &Spec,
        name_at_home: Option<&str>,
        pods: &mut BTreeSet<Uid>,
        templates: &mut BTreeSet<Uid>,
    ) {
        for (position, group) in spec.groups.iter().enumerate() {
            if let Some(name) = name_at_home {
                let operator = Operator::In(vec![own_word(name, position)]);
                let requirements = vec![Requirement { key: BELONGS.into(), operator }];
                let own_word = Selector { requirements };
                pods.extend(self.pod_labels.candidates(&spec.target, &own_word));
                templates.extend(self.template_labels.candidates(&spec.target, &own_word));
            }
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

    /// Keeps what was judged about nodes.
    pub fn remember_nodes(&mut self, uid: Uid, judgements: Judgements) {
        let nodes = &self.nodes;
        if let Some(entry) = self.sequences.get_mut(&uid) {
            entry.board.remember(judgements, |name| nodes.takes_part(name));
        }
    }

    /// Makes the next decision judge every node anew, as if nothing were kept. It must come out the same.
    pub fn doubt(&mut self, uid: Uid) {
        if let Some(entry) = self.sequences.get_mut(&uid) {
            entry.board.doubt();
        }
    }

    /// Keeps what was decided, until the status has it.
    pub fn remember(&mut self, uid: Uid, recorded: Recorded) {
        if let Some(entry) = self.sequences.get_mut(&uid) {
            entry.remembered = Some(recorded);
        }
    }

    pub(super) fn live_sequences(&self) -> impl Iterator<Item = &Sequence> {
        self.sequences.values().filter(|entry| !entry.ghost).map(|entry| &entry.sequence)
    }

    pub(super) fn apply_note(&mut self, note: Note) {
        self.saw(Kind::Note, note.version);
        let uid = note.sequence;
        if self.notes.get(&uid).is_some_and(|known| known.version >= note.version) {
            return;
        }
        self.notes.insert(uid, note);
        self.touched.insert(uid);
        self.compare_note(uid);
        self.adopt_notes();
    }

    /// A note has been written; this is what it says now. If the watch is further than that and knows of no such note, it has
    /// been removed since.
    pub fn note_written(&mut self, note: Note) {
        let seen = self.newest.get(&Kind::Note).is_some_and(|newest| note.version <= *newest);
        if !seen || self.notes.contains_key(&note.sequence) {
            self.apply_answer(Object::Note(note));
        }
    }

    pub fn delete_note(&mut self, sequence: Uid) {
        self.notes.remove(&sequence);
        self.settled.remove(&sequence);
        self.touched.insert(sequence);
        self.compare_note(sequence);
    }

    /// Settles whether a note tells what its sequence needs, or has no sequence that is known.
    fn compare_note(&mut self, uid: Uid) {
        let (note, entry) = (self.notes.get(&uid), self.sequences.get_mut(&uid));
        let orphaned = note.is_some() && entry.is_none() && !self.settled.contains(&uid);
        if let Some(entry) = entry {
            entry.noted = match (note, entry.sequence.spec.as_ref()) {
                // One of a newer generation was written by somebody who has heard more, and is not ours to correct.
                (Some(note), Ok(spec)) => note.says(spec) || note.generation > entry.sequence.generation,
                (_, _) => false,
            };
        }
        match orphaned {
            true => self.orphans.insert(uid),
            false => self.orphans.remove(&uid),
        };
    }

    /// Raises a ghost for every note whose sequence is gone. That it is not known here proves nothing: its note
    /// may be seen before it is. Either its end was seen, or a list of the sequences taken after the note was
    /// written lacks it: by its version, which one cluster counts for all kinds, or by the order of events here.
    pub(super) fn adopt_notes(&mut self) {
        if self.orphans.is_empty()
            || !self.synced.contains(&Kind::Sequence)
            || !self.synced.contains(&Kind::Note)
        {
            return;
        }
        let listed = self.lists.get(&Kind::Sequence).map(|list| list.version);
        let gone = |note: &&Note| {
            self.tombstones.contains(&note.sequence)
                || self.asked_for.contains(&note.sequence)
                || listed.is_some_and(|listed| note.version <= listed)
        };
        let orphans = self.orphans.iter().filter_map(|uid| self.notes.get(uid));
        let orphans: Vec<Note> = orphans.filter(gone).cloned().collect();
        for note in orphans {
            let uid = note.sequence;
            self.touched.insert(uid);
            self.change_sequence(uid, Some(ghost_of_note(note, self.mode)));
        }
    }
}

fn ghost_of_note(note: Note, mode: Mode) -> SequenceEntry {
    let Note { sequence: uid, version, namespace, name, generation, spec } = note;
    let (spec, opened_by_hand, recorded) = (Ok(spec), BTreeSet::new(), Recorded::default());
    let sequence = Sequence { uid, namespace, name, version, generation, spec, opened_by_hand, recorded };
    SequenceEntry::new(sequence, true, mode)
}
