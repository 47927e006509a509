//! What the answers to our writes mean.

use super::{Done, Engine, LOOK_AFTER, NOTE_AGAIN, NOTES_AGAIN, NOTES_AGAIN_AT_MOST};
use crate::client::{Failure, Meaning};
use crate::metrics::ByKind;
use crate::statuses::Outcome;
use rollcall_core::Uid;
use rollcall_core::facts::Pod;
use rollcall_core::index::{Answer, Note};
use rollcall_core::node::Node;
use rollcall_core::planted::{Bug, is};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl Engine {
    pub(super) fn answered(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Released { pod, key, since, answer } => self.released(pod, key, since, answer, now),
            Done::Looked { pod, answer } => self.looked(pod, answer, now),
            Done::Noted { key, answer } => self.noted(key, answer, now),
            Done::NoteDropped { key, answer } => {
                self.noting.remove(&key);
                match self.outcome("note", answer) {
                    Ok(()) => {
                        self.index.delete_note(key);
                        self.queue.succeeded(key);
                    }
                    Err(_) => self.queue.failed(key, now),
                }
            }
            Done::StatusWritten { key, answer } => {
                let outcome = match self.outcome("status", answer) {
                    Ok(item) => {
                        self.take_answer(item);
                        Outcome::Done
                    }
                    Err(failure) if failure.meaning() == Meaning::Moved => Outcome::Moved,
                    Err(_) => Outcome::Failed,
                };
                self.statuses.answered(key, outcome, now);
            }
            // An event that cannot be written is dropped: the status says the same and stays.
            Done::Announced { answer } => drop(self.outcome("event", answer)),
            Done::Marked { key, node, answer } => self.marked(key, &node, answer, now),
        }
    }

    pub(super) fn outcome<T>(
        &mut self,
        action: &'static str,
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let metrics = &self.health.metrics;
        match &answer {
            Ok(_) => metrics.wrote(action, "done"),
            Err(failure) => {
                metrics.wrote(action, failure.kind());
                metrics.api_errors.get_or_create(&ByKind { kind: failure.kind() }).inc();
                match failure.meaning() {
                    Meaning::Moved => tracing::debug!(action, %failure, "the world moved"),
                    Meaning::Refused | Meaning::Unknown => tracing::warn!(action, %failure, "a write failed"),
                }
            }
        }
        answer
    }

    pub(super) fn released(
        &mut self,
        pod: Uid,
        key: Uid,
        since: Instant,
        answer: Result<Pod, Failure>,
        now: Instant,
    ) {
        match self.outcome("release", answer) {
            Ok(facts) => {
                let held = self.clock.now().duration_since(facts.created);
                let held = Duration::try_from(held).unwrap_or_default();
                self.health.metrics.release_answered(now.duration_since(since), held);
                tracing::debug!(namespace = %facts.namespace, name = %facts.name, "released");
                self.index.release_answered(pod, Answer::Done(Box::new(facts)));
                self.queue.succeeded(key);
            }
            Err(failure) => match failure.meaning() {
                // The watch will tell that it is gone. Until then it is left alone, and not taken for gone: should the
                // answer be wrong, nobody would ever look at the pod again.
                Meaning::Moved if failure.code == Some(404) => {
                    self.unsure.insert((now + LOOK_AFTER, pod));
                }
                Meaning::Refused if is(Bug::RefusedForgotten) => {}
                Meaning::Unknown if is(Bug::UnsureForgotten) => {}
                Meaning::Moved | Meaning::Refused => {
                    self.index.release_answered(pod, Answer::NotDone);
                    self.queue.failed(key, now);
                }
                Meaning::Unknown => {
                    self.unsure.insert((now + LOOK_AFTER, pod));
                    self.queue.failed(key, now);
                }
            },
        }
    }

    pub(super) fn looked(&mut self, pod: Uid, answer: Result<Pod, Failure>, now: Instant) {
        match self.outcome("look", answer) {
            // Done or not, the pod as it is now tells.
            Ok(facts) if facts.uid == pod => self.index.release_answered(pod, Answer::Done(Box::new(facts))),
            Ok(_) => self.index.release_answered(pod, Answer::Gone),
            Err(failure) if failure.code == Some(404) => self.index.release_answered(pod, Answer::NotDone),
            Err(_) => {
                self.unsure.insert((now + LOOK_AFTER, pod));
            }
        }
    }

    /// A node has been written to, or not. To do so again does no harm, so what is not known need not be found out.
    fn marked(&mut self, key: Uid, node: &Arc<str>, answer: Result<Node, Failure>, now: Instant) {
        let answer = self.outcome("mark", answer);
        match &answer {
            Ok(_) => self.queue.succeeded(key),
            Err(_) => self.queue.failed(key, now),
        }
        self.index.mark_answered(key, node, answer.ok());
    }

    pub(super) fn noted(&mut self, key: Uid, answer: Result<Note, Failure>, now: Instant) {
        self.noting.remove(&key);
        match self.outcome("note", answer) {
            Ok(note) => {
                self.index.note_written(note);
                self.notes_failed = 0;
                self.queue.succeeded(key);
                // Its sequence may be gone by now: then the note can be removed only from here on.
                self.queue.add(key, now);
            }
            Err(failure) => match failure.code {
                // There is no namespace of ours, or no right in it: better without notes than not at all.
                Some(403 | 404) => {
                    tracing::warn!(%failure, "notes cannot be written: sequences deleted while the controller is away will leave their pods held");
                    self.without_notes(now);
                    self.queue.add(key, now);
                }
                Some(400 | 413 | 422) => {
                    tracing::warn!(%failure, sequence = %key, "this sequence can have no note: deleted while the controller is away it will leave its pods held");
                    let generation = self.index.sequence(key).map(|entry| entry.sequence.generation);
                    self.unnotable.extend(generation.map(|generation| (key, generation)));
                    self.queue.add(key, now);
                }
                Some(_) | None => self.queue.failed(key, now),
            },
        }
    }

    /// Somebody removed a note.
    pub(super) fn note_lost(&mut self, key: Uid) {
        let Some(entry) = self.index.sequence(key).filter(|entry| !entry.ghost) else { return };
        let lost = self.notes_lost.entry(key).or_default();
        *lost += 1;
        if *lost > NOTE_AGAIN {
            tracing::warn!(sequence = %key, "the note of this sequence is removed again and again and not written any more: deleted while the controller is away it will leave its pods held");
            self.unnotable.insert(key, entry.sequence.generation);
        }
    }

    /// No notes for a while, longer each time.
    pub(super) fn without_notes(&mut self, now: Instant) {
        if self.notes_off.is_none() {
            let wait = NOTES_AGAIN.saturating_mul(1 << self.notes_failed.min(8)).min(NOTES_AGAIN_AT_MOST);
            self.notes_off = Some(now + wait);
            self.notes_failed += 1;
        }
    }

    /// After a while without notes they are tried again.
    pub(super) fn try_notes_again(&mut self, now: Instant) {
        if self.notes_off.is_some_and(|at| at <= now) {
            self.notes_off = None;
            self.ask_for_notes(now);
        }
    }

    /// Every sequence that has no note is looked at again.
    pub(super) fn ask_for_notes(&mut self, now: Instant) {
        let lacking = self.index.sequences().filter(|entry| !entry.ghost && !entry.is_noted());
        lacking.for_each(|entry| self.queue.add(entry.sequence.uid, now));
    }
}
