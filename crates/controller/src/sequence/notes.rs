//! The notes of sequences: written before the first release, and removed after their sequence is deleted. Notes are optional:
//! if they cannot be written, the controller logs a warning and works without them.

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

/// Back-off after notes were forbidden or had no namespace: first and longest wait.
const TRY_AGAIN: Duration = Duration::from_secs(5);
const TRY_AGAIN_AT_MOST: Duration = Duration::from_secs(600);
/// How often a note that another party deletes is re-created. A user deletes it once, but another controller that does not know
/// the sequence would delete it indefinitely.
const WRITE_AGAIN: u32 = 3;

#[derive(Default)]
pub struct Notes {
    /// Time of the next attempt while notes are disabled. `failed` counts the consecutive failures.
    off_until: Option<Instant>,
    failed: u32,
    /// Sequences whose note is rejected or repeatedly deleted, with the generation that the note was created from.
    refused: BTreeMap<Uid, i64>,
    /// How often another party deleted the note of an existing sequence.
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

    /// Disables notes for a while, with exponential back-off.
    fn switch_off(&mut self, now: Instant) {
        if self.off_until.is_none() {
            let wait = TRY_AGAIN.saturating_mul(1 << self.failed.min(8)).min(TRY_AGAIN_AT_MOST);
            self.off_until = Some(now + wait);
            self.failed += 1;
        }
    }
}

impl Engine {
    /// The target of a write to a note. A note is identified by the uid of its sequence.
    pub(crate) fn note_target(&self, sequence: Uid) -> Target {
        let name = rollcall_api::sequence::note::name(sequence).into();
        Target {
            kind: Kind::Note,
            namespace: self.config.namespace.as_str().into(),
            name,
            uid: Some(sequence),
        }
    }

    /// Whether a note can be written for this sequence.
    pub(crate) fn can_note(&self, sequence: Uid) -> bool {
        let generation = self.index.sequences.get(sequence).map(|entry| entry.sequence.generation);
        let refused = self.notes.refused.get(&sequence).copied();
        // A dry run writes no notes, so its releases must not wait for them.
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
                // The sequence may be deleted by now, and then this decision is the last chance to remove the note.
                return self.queue.add(key, now);
            }
            Err(failure) => failure,
        };
        match failure.code {
            // Our own namespace does not exist, or permissions are missing in it.
            Some(403 | 404) => {
                tracing::warn!(%failure, "could not write notes; sequences that are deleted while the controller is down leave their pods held");
                self.notes.switch_off(now);
                self.queue.add(key, now);
            }
            Some(400 | 413 | 422) => {
                tracing::warn!(%failure, %sequence, "the API server rejects the note of this sequence; if the sequence is deleted while the controller is down, its pods stay held");
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

    /// Handles the deletion of a note by another party.
    pub(crate) fn note_lost(&mut self, sequence: Uid) {
        let Some(entry) = self.index.sequences.get(sequence).filter(|entry| !entry.ghost) else { return };
        let removed = self.notes.removed.entry(sequence).or_default();
        *removed += 1;
        if *removed > WRITE_AGAIN {
            tracing::warn!(%sequence, "another party repeatedly deletes the note of this sequence, so it is not written any more; if the sequence is deleted while the controller is down, its pods stay held");
            self.notes.refused.insert(sequence, entry.sequence.generation);
        }
    }

    /// Enables notes after the existing ones have been listed.
    pub(crate) fn notes_listed(&mut self) {
        self.notes.off_until = None;
    }

    /// Disables notes because they cannot be read, for example with `make run` on a cluster without our namespace.
    pub(crate) fn notes_unreadable(&mut self, now: Instant) {
        if self.notes.off_until.is_none() {
            let namespace = &self.config.namespace;
            tracing::warn!(%namespace, "notes are disabled: the namespace does not exist or is not accessible; sequences that are deleted while the controller is down leave their pods held");
        }
        self.notes.switch_off(now);
    }

    /// Enables notes again when the back-off has ended.
    pub(crate) fn try_notes_again(&mut self, now: Instant) {
        if self.notes.off_until.is_some_and(|at| at <= now) {
            self.notes.off_until = None;
            self.ask_for_notes(now);
        }
    }

    /// Queues every sequence without a note for a decision.
    pub(crate) fn ask_for_notes(&mut self, now: Instant) {
        let lacking = self.index.sequences.iter().filter(|entry| !entry.ghost && !entry.is_noted());
        lacking.for_each(|entry| self.queue.add(Key::Sequence(entry.sequence.uid), now));
    }
}
