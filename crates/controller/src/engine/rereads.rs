//! Reads namespaces again. Only labels that selectors use are stored, so when a selector uses a new key, its namespace must be
//! read again. The same applies to a sequence that starts again, because that start needs facts newer than its request. Until
//! the read ends, the members of the affected sequences are unknown, and nothing is decided about them. Other namespaces are
//! not affected.

use super::Engine;
use crate::metrics::ByKind;
use crate::watch::Message;
use futures::stream::{BoxStream, StreamExt};
use rollcall_core::index::Listed;
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;

/// Namespaces that are read concurrently, so that a large one does not delay the others.
const AT_ONCE: usize = 4;

#[derive(Default)]
pub struct Rereads {
    waiting: VecDeque<Arc<str>>,
    begun: Vec<BoxStream<'static, Read>>,
    reading: BTreeSet<Arc<str>>,
    /// By namespace: the version of the list in progress, and the objects that it has contained so far.
    listing: BTreeMap<Arc<str>, (u64, BTreeSet<Listed>)>,
}

/// Progress of reading a namespace again; `message` is `None` when the read has ended.
pub struct Read {
    namespace: Arc<str>,
    message: Option<(Kind, Message)>,
}

impl Rereads {
    /// Returns the reads that have begun since the last call, for the loop to poll.
    pub fn take_begun(&mut self) -> Vec<BoxStream<'static, Read>> {
        std::mem::take(&mut self.begun)
    }
}

impl Engine {
    /// Starts reading the namespaces whose facts are incomplete.
    pub(super) fn want_labels(&mut self) {
        for namespace in self.index.sequences.take_namespaces_to_read() {
            let keys = self.index.sequences.label_keys(&namespace).cloned().collect();
            self.watches.labels.set(&namespace, keys);
            // Before the sequences are listed, no objects with labels have been read.
            let begun = self.watches.sequences_listed.is_cancelled();
            if begun && !self.rereads.waiting.contains(&namespace) {
                self.index.sequences.set_incomplete(&namespace, true);
                self.rereads.waiting.push_back(namespace);
            }
        }
        while self.rereads.reading.len() < AT_ONCE {
            // A namespace that is already being read without the new key is read again afterwards.
            let ready = |namespace: &Arc<str>| !self.rereads.reading.contains(namespace);
            let Some(place) = self.rereads.waiting.iter().position(ready) else { return };
            let Some(namespace) = self.rereads.waiting.remove(place) else { return };
            let (of, ended) = (namespace.clone(), namespace.clone());
            let messages = self.watches.read_again(&namespace);
            let messages =
                messages.map(move |message| Read { namespace: of.clone(), message: Some(message) });
            let end = futures::stream::once(async move { Read { namespace: ended, message: None } });
            self.rereads.begun.push(messages.chain(end).boxed());
            self.rereads.reading.insert(namespace);
        }
    }

    /// Whether decisions about a key must wait until its namespace has been read.
    pub(super) fn is_being_read(&self, key: Key) -> bool {
        let namespace = match key {
            Key::Sequence(uid) => self.index.sequences.get(uid).and_then(|entry| entry.spec()),
            // These features do not select by label.
            Key::Launch(_) | Key::Order(_) | Key::Ticket(_) | Key::Claim(_) => None,
        };
        namespace.is_some_and(|spec| self.index.sequences.is_incomplete(&spec.pod_namespace))
    }

    pub(super) fn read_again(&mut self, read: Read) {
        let Read { namespace, message } = read;
        match message {
            Some((_, Message::Begins { version })) => {
                self.rereads.listing.insert(namespace, (version, BTreeSet::new()));
            }
            Some((_, Message::Page { items })) => {
                if let Some((_, listed)) = self.rereads.listing.get_mut(&namespace) {
                    listed.extend(items.iter().map(|item| item.object.listed()));
                }
                items.into_iter().for_each(|item| self.index.apply_read_again(item.object));
            }
            Some((kind, Message::Failed { failure })) => {
                self.shared.metrics.watch_failures.get_or_create(&ByKind { kind: kind.as_str() }).inc();
                tracing::warn!(kind = kind.as_str(), %namespace, %failure, "could not read the namespace again; retrying");
            }
            Some((kind, Message::Ended)) => {
                if let Some((version, listed)) = self.rereads.listing.remove(&namespace) {
                    self.index.read_again_ended(kind, &namespace, version, &listed);
                }
            }
            Some((_, Message::Applied { .. } | Message::Deleted { .. } | Message::Alive { .. })) => {}
            None => {
                tracing::debug!(%namespace, "read again");
                self.rereads.reading.remove(&namespace);
                // It may have become due again in the meantime.
                if !self.rereads.waiting.contains(&namespace) {
                    self.index.sequences.set_incomplete(&namespace, false);
                }
                let now = Instant::now();
                for sequence in self.index.sequences.selecting_in(&namespace) {
                    self.queue.add(Key::Sequence(sequence), now);
                }
            }
        }
    }
}
