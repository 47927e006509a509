//! The notes of sequences: written before the first release, removed when their sequence is gone. Better no notes than no
//! controller: where they cannot be written, it goes on without them and says so.

use crate::client::Failure;
use crate::engine::Engine;
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::index::Object;
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// After how long notes are tried again that were forbidden or had no namespace, at first and at most.
const TRY_AGAIN: Duration = Duration::from_secs(5);
const TRY_AGAIN_AT_MOST: Duration = Duration::from_secs(600);
/// How often a note is written again that somebody removes: a person does so once, but another controller that has not heard
/// of the sequence would do so for ever.
const WRITE_AGAIN: u32 = 3;

#[derive(Default)]
pub struct Notes {
    /// While notes cannot be written at all: when to try again; and how often they could not be in a row.
    off_until: Option<Instant>,
    failed: u32,
    /// Sequences whose note is not accepted, or not left alone, with the generation it was made of.
    refused: BTreeMap<Uid, i64>,
    /// How often the note of a living sequence was removed by somebody.
    removed: BTreeMap<Uid, u32>,
}

impl Notes {
    pub fn next_moment(&self) -> Option<Instant> {
        self.off_until
    }

    pub fn forget(&mut self, sequence: Uid) {
        self.refused.remove(&sequence);
        self.removed.remove(&sequence);
    }

    /// No notes for a while, longer each time.
    fn switch_off(&mut self, now: Instant) {
        if self.off_until.is_none() {
            let wait = TRY_AGAIN.saturating_mul(1 << self.failed.min(8)).min(TRY_AGAIN_AT_MOST);
            self.off_until = Some(now + wait);
            self.failed += 1;
        }
    }
}

impl Engine {
    /// The object of a write to a note. A note is known by the uid of its sequence.
    pub(crate) fn note_target(&self, sequence: Uid) -> Target {
        let name = rollcall_api::sequence::note::name(sequence).into();
        Target {
            kind: Kind::Note,
            namespace: self.config.namespace.as_str().into(),
            name,
            uid: Some(sequence),
        }
    }

    /// Whether there can be a note of this sequence.
    pub(crate) fn can_note(&self, sequence: Uid) -> bool {
        let generation = self.index.sequences.get(sequence).map(|entry| entry.sequence.generation);
        let refused = self.notes.refused.get(&sequence).copied();
        // A dry run writes none, so its releases must not wait for one.
        !self.config.dry_run
            && self.notes.off_until.is_none()
            && (refused.is_none() || refused != generation)
            && self.has_own_namespace()
    }

    pub(crate) fn has_own_namespace(&self) -> bool {
        self.index.cluster.namespace(&self.config.namespace).is_some()
    }

    pub(crate) fn note_written(&mut self, sequence: Uid, answer: Result<Object, Failure>, now: Instant) {
        let key = Key::Sequence(sequence);
        let failure = match answer {
            Ok(object) => {
                if let Object::Note(note) = object {
                    self.index.note_written(note);
                }
                self.notes.failed = 0;
                self.queue.succeeded(key);
                // Its sequence may be gone by now: then the note can be removed only from here on.
                return self.queue.add(key, now);
            }
            Err(failure) => failure,
        };
        match failure.code {
            // There is no namespace of ours, or no right in it.
            Some(403 | 404) => {
                tracing::warn!(%failure, "notes cannot be written: sequences deleted while the controller is away will leave their pods held");
                self.notes.switch_off(now);
                self.queue.add(key, now);
            }
            Some(400 | 413 | 422) => {
                tracing::warn!(%failure, %sequence, "this sequence can have no note: deleted while the controller is away it will leave its pods held");
                let generation = self.index.sequences.get(sequence).map(|entry| entry.sequence.generation);
                self.notes.refused.extend(generation.map(|generation| (sequence, generation)));
                self.queue.add(key, now);
            }
            Some(_) | None => self.queue.failed(key, now),
        }
    }

    pub(crate) fn note_dropped(&mut self, sequence: Uid, done: bool, now: Instant) {
        let key = Key::Sequence(sequence);
        match done {
            true => {
                self.index.delete_note(sequence);
                self.queue.succeeded(key);
            }
            false => self.queue.failed(key, now),
        }
    }

    /// Somebody removed a note.
    pub(crate) fn note_lost(&mut self, sequence: Uid) {
        let Some(entry) = self.index.sequences.get(sequence).filter(|entry| !entry.ghost) else { return };
        let removed = self.notes.removed.entry(sequence).or_default();
        *removed += 1;
        if *removed > WRITE_AGAIN {
            tracing::warn!(%sequence, "the note of this sequence is removed again and again and not written any more: deleted while the controller is away it will leave its pods held");
            self.notes.refused.insert(sequence, entry.sequence.generation);
        }
    }

    /// The notes there are have been read: there is a place for them.
    pub(crate) fn notes_listed(&mut self) {
        self.notes.off_until = None;
    }

    /// Without rights in a namespace of our own (`make run` on a bare cluster) it goes without notes.
    pub(crate) fn notes_unreadable(&mut self, now: Instant) {
        if self.notes.off_until.is_none() {
            let namespace = &self.config.namespace;
            tracing::warn!(%namespace, "going without notes, for there is no such namespace or no right in it: sequences deleted while the controller is away will leave their pods held");
        }
        self.notes.switch_off(now);
    }

    /// After a while without notes they are tried again.
    pub(crate) fn try_notes_again(&mut self, now: Instant) {
        if self.notes.off_until.is_some_and(|at| at <= now) {
            self.notes.off_until = None;
            self.ask_for_notes(now);
        }
    }

    /// Every sequence that has no note is looked at again.
    pub(crate) fn ask_for_notes(&mut self, now: Instant) {
        let lacking = self.index.sequences.iter().filter(|entry| !entry.ghost && !entry.is_noted());
        lacking.for_each(|entry| self.queue.add(Key::Sequence(entry.sequence.uid), now));
    }
}
