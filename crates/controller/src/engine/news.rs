//! News from the watches, into the index.

use super::Engine;
use crate::client::Failure;
use crate::memory;
use crate::metrics::{ByKind, ByState};
use crate::watch::{Item, Message};
use rollcall_core::Uid;
use rollcall_core::index::{Index, Kind, Object};
use std::collections::BTreeSet;
use tokio::time::Instant;

impl Engine {
    pub(super) fn heard(&mut self, kind: Kind, message: Message) {
        let failed = matches!(message, Message::Failed { .. });
        if !failed {
            self.health.heard(kind);
        }
        match message {
            Message::Begins { version } => {
                self.index.list_begins(kind, version);
                self.listing.insert(kind, BTreeSet::new());
            }
            Message::Page { items } => {
                let listing = self.listing.entry(kind).or_default();
                listing.extend(items.iter().map(|item| item.object.listed()));
                items.into_iter().for_each(|item| self.take(item));
            }
            Message::Ended => {
                let listed = self.listing.remove(&kind).unwrap_or_default();
                self.index.list_ended(kind, &listed);
                let number = listed.len();
                drop(listed);
                if number >= memory::MANY {
                    memory::give_back();
                }
                if kind == Kind::Note {
                    self.notes_off = None;
                }
                tracing::debug!(kind = kind.as_str(), number, "listed");
            }
            Message::Applied { item } => self.take(item),
            Message::Deleted { item } => {
                if let Object::Sequence(sequence) = &item.object {
                    self.forget(sequence.uid);
                }
                if let Object::Note(note) = &item.object {
                    self.note_lost(note.sequence);
                }
                self.index.delete(item.object);
            }
            Message::Alive { version } => self.index.heard_until(kind, version),
            Message::Failed { failure } => self.watch_failed(kind, &failure),
        }
        self.health.metrics.sequences.set(self.index.sequence_count() as i64);
    }

    pub(super) fn watch_failed(&mut self, kind: Kind, failure: &Failure) {
        self.health.metrics.watch_failures.get_or_create(&ByKind { kind: kind.as_str() }).inc();
        tracing::warn!(kind = kind.as_str(), %failure, "a watch failed and will be tried again");
        // Whoever asks for no CSI driver need not let us see them.
        if kind == Kind::CsiNode && matches!(failure.code, Some(403 | 404)) {
            self.health.heard(kind);
            if !self.index.is_synced() {
                self.index.without(kind);
            }
        }
        // Without rights in a namespace of our own (`make run` on a bare cluster) it goes without notes.
        if kind == Kind::Note && matches!(failure.code, Some(403 | 404)) {
            self.health.heard(kind);
            if !self.index.is_synced() {
                if self.notes_off.is_none() {
                    let namespace = &self.config.namespace;
                    tracing::warn!(%namespace, "going without notes, for there is no such namespace or no right in it: sequences deleted while the controller is away will leave their pods held");
                }
                self.without_notes(Instant::now());
                self.index.without(Kind::Note);
            }
        }
    }

    pub(super) fn take(&mut self, item: Item) {
        self.take_by(item, Index::apply);
    }

    /// The answer to a write of our own.
    pub(super) fn take_answer(&mut self, item: Item) {
        self.take_by(item, Index::apply_answer);
    }

    fn take_by(&mut self, item: Item, apply: fn(&mut Index, Object)) {
        let sequence = match &item.object {
            Object::Sequence(sequence) => Some((sequence.uid, sequence.version)),
            Object::Pod(_)
            | Object::Owner(_)
            | Object::Namespace(_)
            | Object::Note(_)
            | Object::Node(_)
            | Object::Drivers(_) => None,
        };
        let home = self.index.namespace(&self.config.namespace).is_some();
        apply(&mut self.index, item.object);
        // Our own namespace has come, or come back: there is a place for notes.
        if !home && self.index.namespace(&self.config.namespace).is_some() {
            self.ask_for_notes(Instant::now());
        }
        // An older view than the one known, or one of a sequence that is gone, says nothing about its status either.
        if let (Some((uid, version)), Some(written)) = (sequence, item.written) {
            let known = self.index.sequence(uid).filter(|known| !known.ghost);
            if known.is_some_and(|known| known.sequence.version == version) {
                self.statuses.observed(uid, *written);
            }
        }
    }

    pub(super) fn forget(&mut self, key: Uid) {
        self.queue.forget(key);
        self.forget_reports(key);
    }

    /// There is nothing more to tell about a sequence.
    pub(super) fn forget_reports(&mut self, key: Uid) {
        self.unnotable.remove(&key);
        self.notes_lost.remove(&key);
        self.statuses.forget(key);
        self.announcer.forget(key);
        if let Some(old) = self.counted.remove(&key) {
            self.adjust(old, [0; 3]);
        }
    }

    /// Keeps the gauges of held, released and arrived members up to date.
    pub(super) fn count(&mut self, key: Uid, status: &rollcall_core::sequence::Status) {
        let mut new = [0i64; 3];
        for group in &status.groups {
            new[0] += i64::from(group.present - group.released);
            new[1] += i64::from(group.released);
            new[2] += i64::from(group.arrived);
        }
        let old = self.counted.insert(key, new).unwrap_or_default();
        self.adjust(old, new);
    }

    pub(super) fn adjust(&self, old: [i64; 3], new: [i64; 3]) {
        for (position, state) in ["held", "released", "arrived"].into_iter().enumerate() {
            self.health.metrics.pods.get_or_create(&ByState { state }).inc_by(new[position] - old[position]);
        }
    }
}
