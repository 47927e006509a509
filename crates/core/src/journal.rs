//! The times of groups that must survive a restart: in the status of a sequence, and on each node in Node scope.

use crate::Timestamp;
use crate::planted::{Bug, planted};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a group is recognised by when the list around it is edited: its name, or what it selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(Arc<str>);

impl GroupId {
    pub fn named(name: &str) -> GroupId {
        GroupId(Arc::from(format!("={name}")))
    }

    /// Of a group without a name: by a hash of what it selects.
    pub fn hashed(hash: u64) -> GroupId {
        GroupId(Arc::from(format!("#{hash:016x}")))
    }

    /// Of two unnamed groups that select the same, the later one.
    pub fn again(&self, occurrence: usize) -> GroupId {
        GroupId(Arc::from(format!("{}-{occurrence}", self.0)))
    }

    pub fn from_text(text: &str) -> GroupId {
        GroupId(Arc::from(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_named(&self) -> bool {
        self.0.starts_with('=')
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a sequence has written on a node: the times of its groups there. A node without a journal was never seen, so it is
/// closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    pub groups: BTreeMap<GroupId, RecordedGroup>,
    /// The start that these times are of; see [`crate::sequence::spec::Recorded::begun_again`].
    pub begun_again: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedGroup {
    pub opened_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub timed_out: bool,
    /// It was complete by Jobs that are over. That holds when they are cleaned up, and at the next start, too: what is done is not
    /// done again.
    pub finished: bool,
    /// If such a time was ahead of our clock: when, by our clock, it was first seen. Not journaled, and one for each of them:
    /// a group that opened by another clock may be complete by ours.
    pub opened_ahead: Option<Timestamp>,
    pub completed_ahead: Option<Timestamp>,
}

impl RecordedGroup {
    /// With a note of which times are ahead of our clock.
    pub fn seen(self, now: Timestamp) -> RecordedGroup {
        let mark = |journaled: Option<Timestamp>, known: Option<Timestamp>| {
            known.or(journaled.filter(|journaled| *journaled > now).map(|_| now))
        };
        let opened_ahead = mark(self.opened_at, self.opened_ahead);
        let completed_ahead = mark(self.completed_at, self.completed_ahead);
        RecordedGroup { opened_ahead, completed_ahead, ..self }
    }

    /// The time it opened, as waits count from it.
    pub fn opened_here(&self, opened_at: Timestamp, now: Timestamp) -> Timestamp {
        here(opened_at, self.opened_ahead, now)
    }

    /// The time it was complete, as waits count from it.
    pub fn completed_here(&self, completed_at: Timestamp, now: Timestamp) -> Timestamp {
        here(completed_at, self.completed_ahead, now)
    }

    /// What is left of it when everybody starts again.
    fn begun_again(&self) -> Option<RecordedGroup> {
        self.finished.then(|| RecordedGroup { finished: true, ..RecordedGroup::default() })
    }

    /// Takes over the later of both times. Another controller that acts at the same time may have journaled other times for the
    /// same steps: unless the later ones hold for both, each would write its own over the other's for ever. In Bootstrap a time
    /// counts that only the other controller has; in Continuous its absence may be the newer fact.
    pub fn agree_with(&mut self, theirs: &RecordedGroup, bootstrap: bool) {
        self.opened_at = later_of(self.opened_at, theirs.opened_at, bootstrap);
        self.completed_at = later_of(self.completed_at, theirs.completed_at, bootstrap);
        self.finished |= theirs.finished && bootstrap;
    }
}

/// The journal of a new start: what is done stays done, everything else has no time yet.
pub fn begun_again(groups: &BTreeMap<GroupId, RecordedGroup>) -> BTreeMap<GroupId, RecordedGroup> {
    groups.iter().filter_map(|(id, group)| Some((id.clone(), group.begun_again()?))).collect()
}

/// The later of our time and theirs; see [`RecordedGroup::agree_with`].
pub fn later_of(ours: Option<Timestamp>, theirs: Option<Timestamp>, bootstrap: bool) -> Option<Timestamp> {
    match ours {
        None if !bootstrap => None,
        ours => ours.max(theirs),
    }
}

/// A time that was written by a clock ahead of ours counts from when it was first seen here: longer than asked for, but not
/// until our clock has caught up, which could take hours.
fn here(journaled: Timestamp, ahead_since: Option<Timestamp>, now: Timestamp) -> Timestamp {
    if planted(Bug::TrustsClocks) {
        return journaled;
    }
    journaled.min(ahead_since.unwrap_or(now))
}
