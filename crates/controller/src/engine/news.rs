//! Applies messages of the watches to the index.

use super::Engine;
use crate::client::Failure;
use crate::memory;
use crate::metrics::ByKind;
use crate::watch::{Item, Message};
use rollcall_core::index::{Index, Object};
use rollcall_core::kind::{Absence, Kind};
use std::collections::BTreeSet;
use tokio::time::Instant;

impl Engine {
    pub(super) fn on_watch_message(&mut self, kind: Kind, message: Message) {
        let failed = matches!(message, Message::Failed { .. });
        if !failed {
            self.shared.health.watch_reported(kind);
        }
        match message {
            Message::Begins { version } => {
                self.absent.remove(&kind);
                self.index.list_begins(kind, version);
                self.listing.insert(kind, BTreeSet::new());
            }
            Message::Page { items } => {
                let listing = self.listing.entry(kind).or_default();
                listing.extend(items.iter().map(|item| item.object.listed()));
                items.into_iter().for_each(|item| self.apply(item));
            }
            Message::Ended => {
                let listed = self.listing.remove(&kind).unwrap_or_default();
                self.index.list_ended(kind, &listed);
                let number = listed.len();
                drop(listed);
                if number >= memory::MANY_OBJECTS {
                    memory::give_back();
                }
                self.listed(kind);
                if kind == Kind::Sequence {
                    self.want_labels();
                    self.watches.sequences_listed.cancel();
                }
                tracing::debug!(kind = kind.as_str(), number, "listed");
            }
            Message::Applied { item } => self.apply(item),
            Message::Deleted { item } if self.index.knows_newer(&item.object) => {}
            Message::Deleted { item } => {
                self.deleted(&item.object);
                self.index.delete(item.object);
            }
            Message::Alive { version } => self.index.heard_until(kind, version),
            Message::Failed { failure } => self.watch_failed(kind, &failure),
        }
        self.shared.metrics.sequences.set(self.index.sequences.number() as i64);
    }

    fn watch_failed(&mut self, kind: Kind, failure: &Failure) {
        if kind.absence() == Absence::Frozen && failure.code == Some(404) {
            return self.absent(kind);
        }
        self.shared.metrics.watch_failures.get_or_create(&ByKind { kind: kind.as_str() }).inc();
        tracing::warn!(kind = kind.as_str(), %failure, "a watch failed; it will be retried");
        if matches!(failure.code, Some(403 | 404)) {
            self.cannot_be_read(kind);
        }
    }

    /// Handles an optional kind that most clusters do not have: not a failure, and logged once.
    fn absent(&mut self, kind: Kind) {
        if self.absent.insert(kind) {
            tracing::info!(
                kind = kind.as_str(),
                "kind is not installed in this cluster; checking again periodically"
            );
        }
        self.cannot_be_read(kind);
    }

    fn apply(&mut self, item: Item) {
        self.apply_item(item, Index::apply);
    }

    /// Applies the object in the answer to our own write.
    pub(crate) fn apply_answer(&mut self, item: Item) {
        self.apply_item(item, Index::apply_answer);
    }

    fn apply_item(&mut self, item: Item, apply: fn(&mut Index, Object)) {
        let home = self.has_own_namespace();
        apply(&mut self.index, item.object);
        // Our own namespace has appeared or reappeared, so notes can be written.
        if !home && self.has_own_namespace() {
            self.ask_for_notes(Instant::now());
        }
        if let Some(written) = item.written {
            self.reports.observed(&self.index, *written);
        }
    }
}
