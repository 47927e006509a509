//! Which statuses are to be written, and when: at once for a phase or a journaled time, else at most every ten
//! seconds; never one that changes nothing.

use crate::watch::Written;
use jiff::Timestamp;
use rollcall_api::sequence::{PodSequenceStatus, report};
use rollcall_core::Uid;
use rollcall_core::sequence::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// What is not urgent is written at most this often per sequence.
const COALESCE: Duration = Duration::from_secs(10);
/// A write that failed is tried again after this long, unless news of the object comes first.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Statuses {
    books: BTreeMap<Uid, Book>,
    due: BTreeSet<(Instant, Uid)>,
}

#[derive(Default)]
struct Book {
    wanted: Option<Status>,
    written: Option<Written>,
    due: Option<Instant>,
    /// When the last write was sent.
    sent: Option<Instant>,
    in_flight: bool,
}

/// A status that differs from the one the object has.
pub struct Due {
    pub uid: Uid,
    pub resource_version: String,
    pub status: PodSequenceStatus,
}

impl Statuses {
    /// The object was seen, with what its status says.
    pub fn observed(&mut self, uid: Uid, written: Written) {
        self.books.entry(uid).or_default().written = Some(written);
    }

    pub fn resource_version(&self, uid: Uid) -> Option<&str> {
        Some(&self.books.get(&uid)?.written.as_ref()?.resource_version)
    }

    pub fn want(&mut self, uid: Uid, status: Status, urgent: bool, now: Instant) {
        let book = self.books.entry(uid).or_default();
        let same = book.wanted.as_ref() == Some(&status);
        book.wanted = Some(status);
        if same && book.due.is_some() && !urgent {
            return;
        }
        let coalesced = book.sent.map_or(now, |sent| sent + COALESCE);
        let at = if urgent { now } else { coalesced.max(now) };
        let at = book.due.map_or(at, |due| due.min(at));
        self.set_due(uid, Some(at));
    }

    fn set_due(&mut self, uid: Uid, at: Option<Instant>) {
        let Some(book) = self.books.get_mut(&uid) else { return };
        if let Some(old) = book.due.take() {
            self.due.remove(&(old, uid));
        }
        if let Some(at) = at {
            book.due = Some(at);
            self.due.insert((at, uid));
        }
    }

    pub fn next_moment(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next status to be written now. What turned out to change nothing is dropped on the way.
    pub fn pop(&mut self, now: Instant, wall: Timestamp) -> Option<Due> {
        while let Some((_, uid)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.set_due(uid, None);
            let Some(book) = self.books.get_mut(&uid) else { continue };
            if book.in_flight {
                continue; // it is looked at again when the answer is there
            }
            let (Some(wanted), Some(written)) = (&book.wanted, &book.written) else { continue };
            let status = report(wanted, written.status.as_ref(), wall);
            if written.status.as_ref() == Some(&status) {
                continue;
            }
            book.in_flight = true;
            book.sent = Some(now);
            return Some(Due { uid, resource_version: written.resource_version.clone(), status });
        }
        None
    }

    /// A write was answered; `done` says whether the status is now as it was sent.
    pub fn answered(&mut self, uid: Uid, done: bool, now: Instant) {
        let Some(book) = self.books.get_mut(&uid) else { return };
        book.in_flight = false;
        let at = if done { book.sent.map_or(now, |sent| sent + COALESCE) } else { now + RETRY };
        let at = book.due.map_or(at, |due| due.min(at));
        self.set_due(uid, Some(at));
    }

    pub fn forget(&mut self, uid: Uid) {
        self.set_due(uid, None);
        self.books.remove(&uid);
    }
}
