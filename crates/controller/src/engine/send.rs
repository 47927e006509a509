//! Sending what was decided: releases and notes at once, statuses and events when they are due.

use super::{Done, Engine};
use crate::act::{self, EventWrite, Release, StatusWrite};
use futures::FutureExt;
use rollcall_api::sequence::KnownSpec;
use rollcall_core::Uid;
use rollcall_core::planted::{Bug, is};
use rollcall_core::sequence::Action;
use tokio::time::Instant;

impl Engine {
    pub(super) fn send(&mut self, key: Uid, action: Action, since: Instant) {
        if self.config.dry_run {
            return self.say(key, &action);
        }
        let client = self.client.clone();
        match action {
            Action::Release { pod, namespace, name, gate, avoid, tolerate } => {
                let known = self.index.pod(pod);
                let release = Release {
                    wishes: known.and_then(|known| known.wishes.as_deref().cloned()).unwrap_or_default(),
                    place: known.and_then(|known| known.gates.iter().position(|held| *held == gate)),
                    pod,
                    namespace,
                    name,
                    gate: gate.clone(),
                    avoid,
                    tolerate,
                };
                if !is(Bug::SentAgain) {
                    self.index.release_sent(pod, &gate);
                }
                self.push(async move {
                    let answer = act::release(&client, &release).await;
                    Done::Released { pod, key, since, answer }
                });
            }
            Action::WriteNote { note } => {
                if self.noting.insert(key) {
                    let (own, known) = (self.config.namespace.clone(), self.index.note(key).is_some());
                    self.push(async move {
                        let answer = act::write_note(&client, &own, &note, known).await;
                        Done::Noted { key, answer }
                    });
                }
            }
            Action::Mark { sequence, node, name, marks } => {
                self.index.mark_sent(sequence, &name);
                self.push(async move {
                    let answer = act::mark(&client, sequence, node, &name, &marks).await;
                    Done::Marked { key: sequence, node: name, answer }
                });
            }
            Action::DropNote { sequence } => {
                if self.noting.insert(key) {
                    let own = self.config.namespace.clone();
                    self.push(async move {
                        let answer = act::drop_note(&client, &own, sequence).await;
                        Done::NoteDropped { key, answer }
                    });
                }
            }
        }
    }

    /// What would be done, once for each pod.
    pub(super) fn say(&mut self, key: Uid, action: &Action) {
        match action {
            Action::Mark { name, .. } => {
                tracing::debug!(sequence = %key, node = %name, "dry run: would write to the node");
            }
            Action::Release { pod, namespace, name, gate, .. } => {
                if self.would.insert(*pod) {
                    tracing::info!(%namespace, %name, %gate, "dry run: would release");
                }
            }
            Action::WriteNote { .. } | Action::DropNote { .. } => {
                tracing::debug!(sequence = %key, "dry run: would write or remove the note");
            }
        }
    }

    pub(super) fn push(&mut self, write: impl Future<Output = Done> + Send + 'static) {
        self.sent = self.sent.wrapping_add(1);
        self.in_flight.push(write.boxed());
    }

    /// Writes one status or one event that is due; says whether there was one.
    pub(super) fn report_one(&mut self, now: Instant) -> bool {
        if self.config.dry_run {
            return false;
        }
        if let Some(due) = self.statuses.pop(now, self.clock.now()) {
            let Some(entry) = self.index.sequence(due.uid).filter(|entry| !entry.ghost) else { return true };
            let write = StatusWrite {
                uid: due.uid,
                namespace: entry.sequence.namespace.to_string(),
                name: entry.sequence.name.to_string(),
                resource_version: due.resource_version,
                status: due.status,
                spec: KnownSpec::from(&entry.sequence),
            };
            let client = self.client.clone();
            let key = due.uid;
            self.push(
                async move { Done::StatusWritten { key, answer: act::write_status(&client, write).await } },
            );
            return true;
        }
        let Some((uid, event)) = self.announcer.pop(now) else { return false };
        let Some(entry) = self.index.sequence(uid).filter(|entry| !entry.ghost) else { return true };
        let write = EventWrite {
            uid,
            namespace: entry.sequence.namespace.to_string(),
            name: entry.sequence.name.to_string(),
            resource_version: self.statuses.resource_version(uid).unwrap_or_default().to_owned(),
            event,
            at: self.clock.now(),
            instance: self.config.identity.clone(),
        };
        let client = self.client.clone();
        self.push(async move { Done::Announced { answer: act::write_event(&client, write).await } });
        true
    }

    /// Asks about pods whose release has no known outcome, one GET each.
    pub(super) fn look_at_unsure(&mut self, now: Instant) {
        while self.room() > 0 {
            let Some((at, pod)) = self.unsure.first().copied().filter(|(at, _)| *at <= now) else { return };
            self.unsure.remove(&(at, pod));
            // The watch has told in the meantime.
            if !self.index.in_flight(pod) {
                continue;
            }
            let Some(known) = self.index.pod(pod) else { continue };
            let (client, namespace, name) =
                (self.client.clone(), known.namespace.clone(), known.name.clone());
            self.push(async move {
                let answer = act::look(&client, &namespace, &name).await;
                Done::Looked { pod, answer }
            });
        }
    }
}
