//! Sends the decided writes: actions immediately, statuses and events when they are due.

use super::{Done, Engine, Verb};
use crate::act::{self, EventWrite, WriteAnswer};
use crate::launch::write_barrier;
use crate::repeats;
use crate::reservation;
use futures::FutureExt;
use rollcall_core::cluster::{Target, WriteEffect};
use rollcall_core::decision::{Action, BarrierWrite, NodeMarks, NodePatch, PodPatch, ToBarrier};
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::launch::NUDGE;
use rollcall_core::planted::{Bug, planted};
use tokio::time::Instant;

impl Engine {
    pub(super) fn send(&mut self, key: Key, action: Action, since: Instant) {
        if self.config.dry_run {
            return self.log_dry_run(key, &action);
        }
        match action {
            Action::PatchPod(patch) => self.patch_pod(key, patch, since),
            Action::PatchNode(patch) => self.patch_node(key, patch, since),
            Action::WriteNote { note } => {
                let target = self.note_target(note.sequence);
                let known = self.index.sequences.note(note.sequence).is_some();
                let (client, own) = (self.client.clone(), self.config.namespace.clone());
                let write = async move { act::write_note(&client, &own, &note, known).await };
                self.push_once(key, Verb::WriteNote, target, WriteEffect::default(), since, write);
            }
            Action::DropNote { sequence } => {
                let target = self.note_target(sequence);
                let (client, own) = (self.client.clone(), self.config.namespace.clone());
                let write = async move { act::drop_note(&client, &own, sequence).await };
                self.push_once(key, Verb::DropNote, target, WriteEffect::default(), since, write);
            }
            Action::WriteBarrier(barrier) => {
                let verb = match barrier.to {
                    ToBarrier::AddKeys { .. } => Verb::WriteBarrier,
                    ToBarrier::Create { .. } | ToBarrier::Delete { .. } => Verb::MakeBarrier,
                    ToBarrier::Look => Verb::GetBarrier,
                };
                let (client, target) = (self.client.clone(), barrier.target.clone());
                let write = async move { write_barrier(&client, &barrier).await };
                self.push_once(key, verb, target, WriteEffect::default(), since, write);
            }
            Action::Create(new) => {
                let (client, target) = (self.client.clone(), new.target().clone());
                let (guardians, labels) = (self.config.guardians.clone(), self.watches.labels.clone());
                let write = async move { reservation::create(&client, &new, &guardians, &labels).await };
                self.push_once(key, Verb::Create, target, WriteEffect::default(), since, write);
            }
            Action::Delete(delete) => {
                let (client, target) = (self.client.clone(), delete.target.clone());
                let effect = WriteEffect { deletes: true, ..WriteEffect::default() };
                if target.kind == Kind::Pod {
                    self.index.pod_write_sent(&target, effect);
                } else {
                    self.index.cluster.in_flight.begin(&target, effect);
                }
                let write = async move { reservation::delete(&client, &delete).await };
                self.push(Some(key), Verb::Delete, target, since, write);
            }
            Action::WriteTicket(ticket) => {
                let (client, target) = (self.client.clone(), ticket.target.clone());
                let content = reservation::content_of_record(&ticket.record);
                self.repeats.write(key.uid(), &target.name, content, Instant::now());
                let effect = ticket.effect();
                let write = async move { reservation::write_ticket(&client, &ticket).await };
                self.push_once(key, Verb::WriteTicket, target, effect, since, write);
            }
            Action::Nominate(nominate) => {
                let (client, target) = (self.client.clone(), nominate.target.clone());
                let labels = self.watches.labels.clone();
                self.index.pod_write_sent(&target, WriteEffect::default());
                let write = async move { reservation::nominate(&client, &nominate, &labels).await };
                self.push(Some(key), Verb::Nominate, target, since, write);
            }
        }
    }

    fn patch_pod(&mut self, key: Key, patch: PodPatch, since: Instant) {
        let (client, target, labels) = (self.client.clone(), patch.target(), self.watches.labels.clone());
        if patch.annotations.iter().any(|(key, _)| *key == NUDGE) {
            self.shared.metrics.nudges.inc();
        }
        if !planted(Bug::SentAgain) {
            self.index.pod_write_sent(&target, patch.effect());
        }
        let write = async move { act::patch_pod(&client, &patch, &labels).await };
        self.push(Some(key), Verb::PatchPod, target, since, write);
    }

    fn patch_node(&mut self, key: Key, patch: NodePatch, since: Instant) {
        self.index.sequences.mark_sent(patch.sequences(), &patch.name);
        let now = Instant::now();
        for NodeMarks { sequence, marks } in &patch.parts {
            self.repeats.write(*sequence, &patch.name, repeats::content_of_marks(marks), now);
        }
        let (namespace, name, uid) = ("".into(), patch.name.clone(), Some(patch.node));
        let target = Target { kind: Kind::Node, namespace, name, uid };
        let client = self.client.clone();
        let write = async move { act::patch_node(&client, &patch).await };
        self.push(Some(key), Verb::PatchNode, target, since, write);
    }

    /// Logs an action instead of sending it; releases are logged once per pod.
    fn log_dry_run(&mut self, key: Key, action: &Action) {
        match action {
            Action::PatchNode(NodePatch { name, .. }) => {
                tracing::debug!(key = %key.uid(), node = %name, "dry run: would write to the node");
            }
            Action::PatchPod(PodPatch { uid, namespace, name, drop_gate, .. }) => {
                let gate = drop_gate.as_ref().map_or("", |gate| &gate.name);
                if self.logged_in_dry_run.insert(*uid) {
                    tracing::info!(%namespace, %name, %gate, "dry run: would release");
                }
            }
            Action::WriteNote { .. } | Action::DropNote { .. } => {
                tracing::debug!(key = %key.uid(), "dry run: would write or remove the note");
            }
            Action::WriteBarrier(BarrierWrite { target, .. }) => {
                tracing::debug!(key = %key.uid(), config_map = %target.name, "dry run: would write the ConfigMap");
            }
            Action::Create(new) => {
                let Target { kind, name, .. } = new.target();
                tracing::debug!(key = %key.uid(), kind = kind.as_str(), %name, "dry run: would create");
            }
            Action::Delete(delete) => {
                let Target { kind, name, .. } = &delete.target;
                tracing::debug!(key = %key.uid(), kind = kind.as_str(), %name, "dry run: would delete");
            }
            Action::WriteTicket(write) => {
                tracing::debug!(key = %key.uid(), ticket = %write.target.name, "dry run: would write the status");
            }
            Action::Nominate(nominate) => {
                tracing::debug!(key = %key.uid(), pod = %nominate.target.name, "dry run: would nominate");
            }
        }
    }

    /// Sends a write unless another write to the same object is in flight.
    fn push_once(
        &mut self,
        key: Key,
        verb: Verb,
        target: Target,
        effect: WriteEffect,
        since: Instant,
        write: impl Future<Output = WriteAnswer> + Send + 'static,
    ) {
        if !self.index.cluster.in_flight.is_writing(&target) {
            self.index.cluster.in_flight.begin(&target, effect);
            self.push(Some(key), verb, target, since, write);
        }
    }

    fn push(
        &mut self,
        key: Option<Key>,
        verb: Verb,
        target: Target,
        since: Instant,
        request: impl Future<Output = WriteAnswer> + Send + 'static,
    ) {
        self.sent = self.sent.wrapping_add(1);
        self.slots.take(verb.lane(key));
        let done = request.map(move |answer| Done { key, verb, target, since, answer });
        self.in_flight.push(done.boxed());
    }

    /// Writes one status or event that is due, if a slot is free. Returns whether there was one.
    pub(super) fn report_one(&mut self, now: Instant) -> bool {
        if self.config.dry_run || self.slots.free_for(None) == 0 {
            return false;
        }
        let client = self.client.clone();
        if let Some(due) = self.reports.pop(&self.index, now, self.clock.now()) {
            if let Some((key, write)) = due {
                let target = write.target.clone();
                let write = async move { act::write_status(&client, write).await };
                self.push(Some(key), Verb::WriteStatus, target, now, write);
            }
            return true;
        }
        let Some(event) = self.announcer.pop(now) else { return false };
        // The object is deleted: drop the event.
        let Some(version) = self.index.version_of(&event.about) else { return true };
        let about = &event.about;
        let target = Target {
            kind: about.kind,
            namespace: about.namespace.clone(),
            name: about.name.clone(),
            uid: Some(about.uid),
        };
        let (at, instance) = (self.clock.now(), self.config.identity.clone());
        let action = event.about.action();
        let write = EventWrite { event, version, action, at, instance };
        let write = async move { act::write_event(&client, write).await };
        self.push(None, Verb::WriteEvent, target, now, write);
        true
    }

    /// Reads pods that have a write of unknown outcome, with one GET each.
    pub(super) fn look_at_unknown_outcomes(&mut self, now: Instant) {
        while self.slots.free_for(None) > 0 {
            let due = self.unknown_outcome.first().copied().filter(|(at, _)| *at <= now);
            let Some((at, uid)) = due else { return };
            self.unknown_outcome.remove(&(at, uid));
            // The watch has shown the outcome in the meantime.
            if !self.index.cluster.is_writing_pod(uid) {
                continue;
            }
            let Some(pod) = self.index.cluster.pod(uid) else { continue };
            let target = Target::of_pod(pod);
            let (client, asked, labels) = (self.client.clone(), target.clone(), self.watches.labels.clone());
            let get = async move { act::get_pod(&client, &asked, &labels).await };
            self.push(None, Verb::GetPod, target, now, get);
        }
    }
}
