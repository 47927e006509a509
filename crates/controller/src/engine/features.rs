//! The interface between the loop and the features, apart from decisions. Each function here dispatches to all features; their
//! code is in their own folders.

use super::Engine;
use rollcall_core::index::Object;
use rollcall_core::key::{Feature, Key};
use rollcall_core::kind::{Absence, Kind};
use rollcall_core::sequence::Settings;
use std::collections::BTreeSet;
use tokio::time::Instant;

impl Engine {
    /// The settings of the process that a decision needs.
    pub(super) fn settings(&self, key: Key) -> Settings {
        match key {
            Key::Sequence(uid) => Settings { notes: self.can_note(uid) },
            Key::Launch(_) | Key::Order(_) | Key::Ticket(_) | Key::Claim(_) => Settings::default(),
        }
    }

    /// Updates queues and gauges after a decision was carried out. `finished`: nothing remains to be done for its key.
    pub(super) fn decided(&mut self, key: Key, finished: bool) {
        match key {
            Key::Sequence(uid) if finished => {
                self.index.remove_finished_ghost(uid);
                self.queue.forget(key);
                self.forget_reports(uid);
            }
            // Its deletion was found by a list, without a watch event.
            Key::Sequence(uid) if self.index.sequences.get(uid).is_none() => self.forget_reports(uid),
            Key::Sequence(_) => {}
            Key::Launch(pod) => {
                self.count_launch(pod);
                if finished {
                    self.queue.forget(key);
                }
            }
            Key::Order(uid) if finished => {
                self.queue.forget(key);
                self.forget_reservation(uid);
            }
            Key::Ticket(uid) => {
                self.count_ticket(uid);
                if finished {
                    self.queue.forget(key);
                    self.forget_reservation(uid);
                }
            }
            Key::Claim(pod) if finished => {
                self.count_hand_over(pod);
                self.queue.forget(key);
            }
            Key::Order(_) | Key::Claim(_) => {}
        }
    }

    /// Updates the webhook's view. Every replica does so, even if it does not lead.
    pub(super) fn update_admission_roster(&self, touched: &BTreeSet<Key>, synced: bool) {
        let served = self.index.is_synced(Feature::Reservation);
        let (lacking, other) = {
            let roster = self.shared.roster();
            (synced && !roster.is_complete(), roster.orders.is_served() != served)
        };
        if !touched.is_empty() || lacking || other {
            let mut roster = self.shared.roster_mut();
            roster.orders.set_served(served);
            roster.follow(&self.index, touched);
            if lacking {
                roster.completed();
            }
        }
    }

    /// Cleans up before a deleted object is removed from the index.
    pub(super) fn deleted(&mut self, object: &Object) {
        if let Object::Sequence(sequence) = object {
            self.queue.forget(Key::Sequence(sequence.uid));
            self.forget_reports(sequence.uid);
        }
        if let Object::Note(note) = object {
            self.note_lost(note.sequence);
        }
    }

    /// Called after a kind has been listed.
    pub(super) fn listed(&mut self, kind: Kind) {
        if kind == Kind::Note {
            self.notes_listed();
        }
    }

    /// Handles a kind that the API server does not serve, or forbids to read. If the controller can work without it, its watch
    /// counts as alive.
    pub(super) fn cannot_be_read(&mut self, kind: Kind) {
        match kind.absence() {
            Absence::Fatal => return,
            Absence::Empty if self.index.is_synced(Feature::Sequence) => {}
            Absence::Empty => {
                if kind == Kind::Note {
                    self.notes_unreadable(Instant::now());
                }
                self.index.kind_is_unavailable(kind);
            }
            Absence::Frozen => self.index.kind_is_frozen(kind),
        }
        self.shared.health.watch_reported(kind);
    }
}
