//! Notes and ghosts. A note records which pods to release if a sequence is deleted while the controller is down. A ghost is the
//! entry of a deleted sequence, made from its note, that releases these pods. See docs/decisions/0001.

use super::{Mode, SequenceEntry, Sequences};
use crate::{
    Timestamp, Uid,
    cluster::Cluster,
    freshness::Freshness,
    key::Touched,
    kind::Kind,
    sequence::{
        Sequence,
        spec::{Recorded, Spec},
    },
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A record of a sequence, with all data that its ghost needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The uid of the sequence.
    pub sequence: Uid,
    pub version: u64,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// The generation of the sequence when the note was written.
    pub generation: i64,
    pub spec: Arc<Spec>,
}

impl Note {
    /// Whether the note covers all pods that `spec` can hold.
    pub fn says(&self, spec: &Spec) -> bool {
        let members = self.spec.groups.iter().map(|group| &group.members);
        self.spec.pod_namespace == spec.pod_namespace
            && self.spec.gate == spec.gate
            && members.eq(spec.groups.iter().map(|group| &group.members))
    }

    pub(super) fn ghost(self, mode: Mode) -> SequenceEntry {
        let Note { sequence: uid, version, namespace, name, generation, spec } = self;
        let (spec, opened_by_hand, recorded) = (Ok(spec), BTreeSet::new(), Recorded::default());
        let (created, begin_again) = (Timestamp::UNIX_EPOCH, None);
        let sequence = Sequence {
            uid,
            namespace,
            name,
            version,
            generation,
            created,
            spec,
            opened_by_hand,
            begin_again,
            recorded,
        };
        SequenceEntry::new(sequence, true, mode)
    }
}

#[derive(Debug, Default)]
pub struct Notes {
    pub(super) by_sequence: BTreeMap<Uid, Note>,
    /// Sequences whose deletion was seen, but whose note may still exist.
    deleted_with_note: BTreeSet<Uid>,
    /// Sequences that have a note but are unknown here.
    orphan_notes: BTreeSet<Uid>,
    /// Uids that were known, from a note or from marks on a node, before the last list of sequences began, but are missing from
    /// it. These sequences are proven to be deleted.
    absent_from_last_list: BTreeSet<Uid>,
}

impl Notes {
    pub fn get(&self, sequence: Uid) -> Option<&Note> {
        self.by_sequence.get(&sequence)
    }

    /// Records that the deletion of a sequence was seen. Its note is not needed any more and only has to be removed.
    pub(super) fn set_deleted(&mut self, sequence: Uid) {
        if self.by_sequence.contains_key(&sequence) {
            self.deleted_with_note.insert(sequence);
        }
    }
}

impl Sequences {
    pub fn note(&self, sequence: Uid) -> Option<&Note> {
        self.notes.get(sequence)
    }

    pub fn apply_note(&mut self, cluster: &mut Cluster, note: Note, touched: &mut Touched) {
        let uid = note.sequence;
        self.notes.by_sequence.insert(uid, note);
        touched.sequence(uid);
        self.compare_note(uid);
        self.adopt_notes(cluster, touched);
    }

    pub fn delete_note(&mut self, sequence: Uid, touched: &mut Touched) {
        self.notes.by_sequence.remove(&sequence);
        self.notes.deleted_with_note.remove(&sequence);
        touched.sequence(sequence);
        self.compare_note(sequence);
    }

    /// Handles the begin of a list of sequences. Sequences that are unknown now and missing from the list are deleted.
    pub fn list_begins(&mut self) {
        self.notes.absent_from_last_list = self.notes.orphan_notes.clone();
        self.notes.absent_from_last_list.extend(self.unknown_sequences_on_nodes());
    }

    pub(super) fn is_absent_from_last_list(&self, sequence: Uid) -> bool {
        self.notes.absent_from_last_list.contains(&sequence)
    }

    /// Updates whether a note covers the spec of its sequence, or has no known sequence.
    pub(super) fn compare_note(&mut self, uid: Uid) {
        let (note, entry) = (self.notes.by_sequence.get(&uid), self.entries.get_mut(&uid));
        let orphaned = note.is_some() && entry.is_none() && !self.notes.deleted_with_note.contains(&uid);
        if let Some(entry) = entry {
            entry.noted = match (note, entry.sequence.spec.as_ref()) {
                // A note with a newer generation was written by a controller with newer data, so it stays as it is.
                (Some(note), Ok(spec)) => note.says(spec) || note.generation > entry.sequence.generation,
                (_, _) => false,
            };
        }
        match orphaned {
            true => self.notes.orphan_notes.insert(uid),
            false => self.notes.orphan_notes.remove(&uid),
        };
    }

    /// Creates a ghost for each note whose sequence is proven to be deleted. An unknown sequence is no proof, because its note
    /// can be seen before the sequence. Proof is a seen deletion, or a list of sequences, taken after the note was written, that
    /// lacks it. "After" is known from resource versions, which are comparable across kinds, or from the order of events here.
    pub fn adopt_notes(&mut self, cluster: &mut Cluster, touched: &mut Touched) {
        let freshness = &cluster.freshness;
        if self.notes.orphan_notes.is_empty()
            || !freshness.is_synced(Kind::Sequence)
            || !freshness.is_synced(Kind::Note)
        {
            return;
        }
        let orphans = self.notes.orphan_notes.iter().filter_map(|uid| self.notes.get(*uid));
        let orphans: Vec<Note> = orphans.filter(|note| self.is_orphan(freshness, note)).cloned().collect();
        for note in orphans {
            let uid = note.sequence;
            touched.sequence(uid);
            self.change(cluster, uid, Some(note.ghost(self.mode)), touched);
        }
    }

    fn is_orphan(&self, freshness: &Freshness, note: &Note) -> bool {
        let listed = freshness.last_list(Kind::Sequence).map(|list| list.version);
        freshness.is_deleted(note.sequence)
            || self.is_absent_from_last_list(note.sequence)
            || listed.is_some_and(|listed| note.version <= listed)
    }
}
