//! Processes the answers to requests.

use super::{Done, Engine, LOOK_AFTER, Verb};
use crate::client::{Failure, Meaning};
use crate::metrics::ByKind;
use crate::statuses::Outcome;
use crate::watch::Item;
use rollcall_core::Uid;
use rollcall_core::cluster::Refusal;
use rollcall_core::facts::Pod;
use rollcall_core::index::{Answer, Object};
use rollcall_core::key::{Feature, Key};
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl Engine {
    pub(super) fn answered(&mut self, done: Done) {
        let now = Instant::now();
        let Done { key, verb, target, since, answer } = done;
        self.slots.give_back(verb.lane(key));
        let answer = self.outcome(verb, answer);
        match (verb, key, target.uid) {
            (Verb::PatchPod, Some(key), Some(pod)) => self.pod_patched(pod, key, since, answer, now),
            (Verb::GetPod, _, Some(pod)) => self.got_pod(pod, answer, now),
            (Verb::PatchNode, Some(key), _) => self.node_patched(key, &target.name, answer, now),
            (Verb::WriteNote, _, Some(sequence)) => {
                self.index.cluster.in_flight.end(&target);
                let answer = answer.and_then(|item| item.map(|item| item.object).ok_or_else(no_object));
                self.note_written(sequence, answer, now);
            }
            (Verb::DropNote, _, Some(sequence)) => {
                self.index.cluster.in_flight.end(&target);
                self.note_dropped(sequence, answer.is_ok(), now);
            }
            (Verb::WriteBarrier | Verb::MakeBarrier | Verb::GetBarrier, Some(key), _) => {
                self.index.cluster.in_flight.end(&target);
                self.barrier_answered(key.uid(), verb == Verb::WriteBarrier, answer, now);
            }
            (Verb::Create, Some(key), _) => self.creation_answered(key, &target, answer, now),
            (Verb::Delete, Some(key), _) => self.was_deleted(key, &target, answer, now),
            (Verb::WriteTicket, Some(key), _) => self.ticket_written(key, &target, answer, now),
            (Verb::Nominate, Some(key), Some(pod)) => self.pod_patched(pod, key, since, answer, now),
            (Verb::WriteStatus, Some(key), _) => self.status_written(key, answer, now),
            // An event that cannot be written is dropped: the status contains the same information.
            (Verb::WriteEvent, ..) => {}
            (verb, key, uid) => {
                unreachable!("{verb:?} is sent with a key and a uid, not {key:?} and {uid:?}")
            }
        }
    }

    fn outcome<T>(&mut self, verb: Verb, answer: Result<T, Failure>) -> Result<T, Failure> {
        let (metrics, action) = (&self.shared.metrics, verb.as_str());
        match &answer {
            Ok(_) => metrics.wrote(action, "done"),
            Err(failure) => {
                metrics.wrote(action, failure.kind());
                metrics.api_errors.get_or_create(&ByKind { kind: failure.kind() }).inc();
                match failure.meaning() {
                    Meaning::Moved => tracing::debug!(action, %failure, "the object changed meanwhile"),
                    Meaning::Refused | Meaning::Unknown => tracing::warn!(action, %failure, "a write failed"),
                }
            }
        }
        answer
    }

    fn pod_patched(
        &mut self,
        pod: Uid,
        key: Key,
        since: Instant,
        answer: Result<Option<Item>, Failure>,
        now: Instant,
    ) {
        match answer {
            Ok(item) => {
                if let Some(facts) = item.and_then(pod_of) {
                    if key.feature() == Feature::Sequence {
                        self.count_release(&facts, now.duration_since(since));
                    }
                    self.index.pod_write_answered(pod, Answer::Done(Box::new(facts)));
                }
                self.queue.succeeded(key);
            }
            Err(failure) => match failure.meaning() {
                // The watch will report the deletion. Until then, the pod is not treated as deleted, but read after a while: if
                // the answer is wrong, no later event might correct it.
                Meaning::Moved if failure.code == Some(404) => {
                    self.unknown_outcome.insert((now + LOOK_AFTER, pod));
                    self.queue.failed(key, now);
                }
                Meaning::Refused if planted(Bug::RefusedForgotten) => {}
                Meaning::Unknown if planted(Bug::UnsureForgotten) => {}
                Meaning::Moved | Meaning::Refused => {
                    let refusal = self.refusal(&failure);
                    self.index.pod_write_answered(pod, refusal.map_or(Answer::NotDone, Answer::Refused));
                    self.queue.failed(key, now);
                }
                Meaning::Unknown => {
                    self.unknown_outcome.insert((now + LOOK_AFTER, pod));
                    self.queue.failed(key, now);
                }
            },
        }
    }

    fn count_release(&self, pod: &Pod, latency: Duration) {
        let held = Duration::try_from(self.clock.now().duration_since(pod.created)).unwrap_or_default();
        self.shared.metrics.release_answered(latency, held);
        tracing::debug!(namespace = %pod.namespace, name = %pod.name, "released");
    }

    /// Returns the rejection to show in statuses, for a write that fails until its cause is removed.
    pub(crate) fn refusal(&self, failure: &Failure) -> Option<Refusal> {
        let refusal = || Refusal::new(failure.is_forbidden(), &failure.message, self.clock.now());
        failure.is_final().then(refusal)
    }

    fn got_pod(&mut self, pod: Uid, answer: Result<Option<Item>, Failure>, now: Instant) {
        match answer.map(|item| item.and_then(pod_of)) {
            // The pod itself shows whether the write succeeded.
            Ok(Some(facts)) if facts.uid == pod => {
                self.index.pod_write_answered(pod, Answer::Done(Box::new(facts)));
            }
            Ok(_) => self.index.pod_write_answered(pod, Answer::Gone),
            Err(failure) if failure.code == Some(404) => {
                let asked_for =
                    self.index.cluster.in_flight.on(Kind::Pod, pod).is_some_and(|write| write.deletes);
                let answer = if asked_for { Answer::Gone } else { Answer::NotDone };
                self.index.pod_write_answered(pod, answer);
            }
            Err(_) => {
                self.unknown_outcome.insert((now + LOOK_AFTER, pod));
            }
        }
    }

    /// Processes the answer to a write to a node. Repeating such a write does no harm, so an unknown outcome needs no
    /// investigation.
    fn node_patched(
        &mut self,
        key: Key,
        node: &Arc<str>,
        answer: Result<Option<Item>, Failure>,
        now: Instant,
    ) {
        if answer.as_ref().is_err_and(|failure| failure.meaning() == Meaning::Moved) {
            return self.conflicts.add(node, self.index.cluster.node(node).map(|node| node.version), now);
        }
        self.conflicts.forget(node);
        match &answer {
            Ok(_) if !self.repeats.was_repeated(key.uid(), node) => self.queue.succeeded(key),
            Ok(_) | Err(_) => self.queue.failed(key, now),
        }
        if let Some(refusal) = answer.as_ref().err().and_then(|failure| self.refusal(failure)) {
            self.index.mark_refused(node, refusal);
        }
        let facts = answer.ok().flatten().and_then(|item| match item.object {
            Object::Node(node) => Some(node),
            _ => None,
        });
        self.index.mark_answered(node, facts);
    }

    /// Ends the conflicts of nodes that may be written to again.
    pub(super) fn end_conflicts(&mut self, now: Instant) {
        let cluster = &self.index.cluster;
        let version = |node: &Arc<str>| cluster.node(node).map(|node| node.version);
        for node in self.conflicts.take_ended(now, version) {
            self.index.mark_answered(&node, None);
        }
    }

    fn status_written(&mut self, key: Key, answer: Result<Option<Item>, Failure>, now: Instant) {
        let outcome = match answer {
            Ok(item) => {
                if let Some(item) = item {
                    self.apply_answer(item);
                }
                Outcome::Done
            }
            Err(failure) if failure.meaning() == Meaning::Moved => Outcome::Moved,
            Err(_) => Outcome::Failed,
        };
        self.reports.answered(key, outcome, now);
    }
}

fn pod_of(item: Item) -> Option<Pod> {
    match item.object {
        Object::Pod(pod) => Some(pod),
        _ => None,
    }
}

fn no_object() -> Failure {
    Failure { code: None, message: "the answer has no object".into() }
}
