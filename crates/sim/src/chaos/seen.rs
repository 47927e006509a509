//! Records which objects each controller has received. A controller may only change objects that it has received, and only
//! follows the sequences that it has received.

use rollcall_core::Uid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The uid of an object, and the token that restarts a sequence, which has the length of a uid in these runs.
const FIELDS: [&[u8]; 2] = [b"\"uid\":\"", b"\"podsequence.example.com/begin-again\":\""];
const LENGTH: usize = 36;

#[derive(Default)]
struct SeenState {
    /// A counter of objects received and writes sent. An earlier event has a smaller number.
    moment: u64,
    /// Start moments of each process.
    lives: BTreeMap<usize, Vec<u64>>,
    /// Moments when objects were received, by process, start of the process, and uid.
    shown: BTreeMap<(usize, u64, Uid), u64>,
    /// The moment when the current write was sent.
    sent: u64,
}

#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<SeenState>>);

impl Seen {
    fn state(&self) -> MutexGuard<'_, SeenState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a process, which has received nothing yet.
    pub fn begins(&self, process: usize) {
        let mut state = self.state();
        state.moment += 1;
        let moment = state.moment;
        state.lives.entry(process).or_default().push(moment);
    }

    /// Records that a process receives these objects.
    pub fn show(&self, process: usize, bytes: &[u8]) {
        let mut state = self.state();
        state.moment += 1;
        let moment = state.moment;
        let life = state.life(process, moment);
        let places = |field: &'static [u8]| {
            memchr::memmem::find_iter(bytes, field).map(|at| at + field.len()).collect::<Vec<_>>()
        };
        for start in FIELDS.into_iter().flat_map(places) {
            if let Some(uid) = bytes.get(start..start + LENGTH).and_then(|uid| str::from_utf8(uid).ok()) {
                state.shown.entry((process, life, Uid::new(uid))).or_insert(moment);
            }
        }
    }

    /// Records that a write is sent, and returns the moment.
    pub fn send(&self) -> u64 {
        let mut state = self.state();
        state.moment += 1;
        state.moment
    }

    /// The current moment.
    pub fn moment(&self) -> u64 {
        self.state().moment
    }

    /// The moment when the current write was sent.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// Sets the current write, given the moment when it was sent.
    pub fn carry_out(&self, sent: u64) {
        self.state().sent = sent;
    }

    /// Whether the process had received this object or restart token when it sent the current write. The process may have
    /// ended since.
    pub fn knew(&self, process: usize, uid: &str) -> bool {
        let state = self.state();
        let life = state.life(process, state.sent);
        state.shown.get(&(process, life, Uid::new(uid))).is_some_and(|shown| *shown < state.sent)
    }
}

impl SeenState {
    /// The start of the process that was running at a moment.
    fn life(&self, process: usize, moment: u64) -> u64 {
        let begun = self.lives.get(&process).into_iter().flatten();
        begun.copied().filter(|begun| *begun <= moment).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_too_late_was_not_known() {
        let (seen, uid) = (Seen::default(), "0b5c9d2e-0000-4000-8000-000000000001");
        let early = seen.send();
        seen.show(1, format!("{{\"metadata\":{{\"uid\":\"{uid}\"}}}}").as_bytes());
        let late = seen.send();
        let knew = |process, sent| {
            seen.carry_out(sent);
            seen.knew(process, uid)
        };
        assert_eq!([knew(1, early), knew(1, late), knew(0, late)], [false, true, false]);
        seen.begins(1);
        assert!(knew(1, late), "the write was sent before the restart");
        assert!(!knew(1, seen.send()), "the new process has received nothing");
    }
}
