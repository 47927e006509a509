//! What each controller has been shown. A controller may only change an object that it was shown, and can only keep the rules of
//! a sequence that it was shown.

use rollcall_core::Uid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As every object has it; and what asks a sequence to begin again, which is as long in these runs.
const FIELDS: [&[u8]; 2] = [b"\"uid\":\"", b"\"podsequence.example.com/begin-again\":\""];
const LENGTH: usize = 36;

#[derive(Default)]
struct State {
    /// Counts what is shown and sent: of two events, the earlier one has the smaller number.
    moment: u64,
    /// When each process began, each time.
    lives: BTreeMap<usize, Vec<u64>>,
    /// By process and life.
    shown: BTreeMap<(usize, u64, Uid), u64>,
    /// When the write was sent that is carried out now.
    sent: u64,
}

#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<State>>);

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins, and knows nothing.
    pub fn begins(&self, process: usize) {
        let mut state = self.state();
        state.moment += 1;
        let moment = state.moment;
        state.lives.entry(process).or_default().push(moment);
    }

    /// A process is shown these objects.
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

    /// A write is sent; says when.
    pub fn send(&self) -> u64 {
        let mut state = self.state();
        state.moment += 1;
        state.moment
    }

    /// How much has been shown and sent.
    pub fn moment(&self) -> u64 {
        self.state().moment
    }

    /// When the write was sent that is carried out now.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// The write that was sent then is carried out from here on.
    pub fn carry_out(&self, sent: u64) {
        self.state().sent = sent;
    }

    /// Whether the process had been shown this object, or what asks it to begin again, when it sent the write that is carried out now. It may have ended since.
    pub fn knew(&self, process: usize, uid: &str) -> bool {
        let state = self.state();
        let life = state.life(process, state.sent);
        state.shown.get(&(process, life, Uid::new(uid))).is_some_and(|shown| *shown < state.sent)
    }
}

impl State {
    /// When the process began that ran at a moment.
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
        assert!(knew(1, late), "it was sent before");
        assert!(!knew(1, seen.send()), "it knows nothing yet");
    }
}
