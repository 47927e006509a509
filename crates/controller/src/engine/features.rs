//! Where the loop meets the features: what each of them wants to know besides decisions. Every function goes through the
//! features; what they do is in their own folders.

use super::Engine;
use rollcall_core::index::Object;
use rollcall_core::key::{Feature, Key};
use rollcall_core::kind::{Absence, Kind};
use rollcall_core::sequence::Settings;
use std::collections::BTreeSet;
use tokio::time::Instant;

impl Engine {
    /// What a decision has to know of the process.
    pub(super) fn settings(&self, key: Key) -> Settings {
        match key {
            Key::Sequence(uid) => Settings { notes: self.can_note(uid) },
            Key::Launch(_) | Key::Order(_) | Key::Ticket(_) | Key::Claim(_) => Settings::default(),
        }
    }

    /// A decision has been carried out; `finished` if nothing is left to do for its key.
    pub(super) fn decided(&mut self, key: Key, finished: bool) {
        match key {
            Key::Sequence(uid) if finished => {
                self.index.remove_finished_ghost(uid);
                self.queue.forget(key);
                self.forget_reports(uid);
            }
            // Its end was not told but found out, by a list.
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

    /// Tells the webhook what has changed. Every replica does so, leading or not.
    pub(super) fn update_admission_roster(&self, touched: &BTreeSet<Key>, synced: bool) {
        let served = self.index.is_synced(Feature::Reservation);
        let (lacking, other) = {
            let roster = self.shared.roster();
            (synced && !roster.is_complete(), roster.reservers.is_served() != served)
        };
        if !touched.is_empty() || lacking || other {
            let mut roster = self.shared.roster_mut();
            roster.reservers.set_served(served);
            roster.follow(&self.index, touched);
            if lacking {
                roster.completed();
            }
        }
    }

    /// An object is about to be forgotten, because it was deleted.
    pub(super) fn deleted(&mut self, object: &Object) {
        if let Object::Sequence(sequence) = object {
            self.queue.forget(Key::Sequence(sequence.uid));
            self.forget_reports(sequence.uid);
        }
        if let Object::Note(note) = object {
            self.note_lost(note.sequence);
        }
    }

    /// A kind has been listed.
    pub(super) fn listed(&mut self, kind: Kind) {
        if kind == Kind::Note {
            self.notes_listed();
        }
    }

    /// The API server does not serve a kind, or forbids to read it. Where the controller can do without it, its watch counts as alive.
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
        self.shared.health.heard(kind);
    }
}
