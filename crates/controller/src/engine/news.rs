//! News from the watches, into the index.

use super::Engine;
use crate::client::Failure;
use crate::metrics::{ByKind, ByState};
use crate::watch::{Item, Message};
use rollcall_core::Uid;
use rollcall_core::index::{Kind, Object};
use std::collections::BTreeSet;

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
                self.notes_work |= kind == Kind::Note;
                tracing::debug!(kind = kind.as_str(), number = listed.len(), "listed");
            }
            Message::Applied { item } => self.take(item),
            Message::Deleted { item } => {
                if let Object::Sequence(sequence) = &item.object {
                    self.forget(sequence.uid);
                }
                self.index.delete(item.object);
            }
            Message::Alive => {}
            Message::Failed { failure } => self.watch_failed(kind, &failure),
        }
        self.health.metrics.sequences.set(self.index.sequences().count() as i64);
    }

    pub(super) fn watch_failed(&mut self, kind: Kind, failure: &Failure) {
        self.health.metrics.watch_failures.get_or_create(&ByKind { kind: kind.as_str() }).inc();
        tracing::warn!(kind = kind.as_str(), %failure, "a watch failed and will be tried again");
        // Without rights in a namespace of our own (`make run` on a bare cluster) it goes without notes.
        if kind == Kind::Note && matches!(failure.code, Some(403 | 404)) && !self.index.is_synced() {
            self.notes_work = false;
            self.index.without(Kind::Note);
            self.health.heard(kind);
        }
    }

    pub(super) fn take(&mut self, item: Item) {
        if let (Object::Sequence(sequence), Some(written)) = (&item.object, item.written) {
            self.statuses.observed(sequence.uid, *written);
        }
        self.index.apply(item.object);
    }

    pub(super) fn forget(&mut self, key: Uid) {
        self.queue.forget(key);
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
