//! The times of groups that must survive a restart: stored in the status of a sequence and, in Node scope, on each node.

use crate::Timestamp;
use crate::planted::{Bug, planted};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The identity of a group that survives edits of the list of groups: its name, or a hash of its selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(Arc<str>);

impl GroupId {
    pub fn named(name: &str) -> GroupId {
        GroupId(Arc::from(format!("={name}")))
    }

    /// The id of an unnamed group, from a hash of its selector.
    pub fn hashed(hash: u64) -> GroupId {
        GroupId(Arc::from(format!("#{hash:016x}")))
    }

    /// The id of a later unnamed group with the same selector.
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

/// Times of the groups of a sequence on one node, as written there. A node without a journal has not been seen by the sequence
/// yet, so it is blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    pub groups: BTreeMap<GroupId, RecordedGroup>,
    /// Identifies the start that these times belong to; see [`crate::sequence::spec::Recorded::begun_again`].
    pub begun_again: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedGroup {
    pub opened_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub timed_out: bool,
    /// It was complete because its Jobs finished. This remains true after the Jobs are cleaned up, and in the next start:
    /// finished work is not repeated.
    pub finished: bool,
    /// The time, by our clock, when `opened_at` was first seen, if it was in the future then. Not journaled. Kept separately
    /// for each time: a group may be opened by a fast clock and completed by ours.
    pub opened_ahead: Option<Timestamp>,
    pub completed_ahead: Option<Timestamp>,
}

impl RecordedGroup {
    /// Records which times are in the future by our clock.
    pub fn seen(self, now: Timestamp) -> RecordedGroup {
        let mark = |journaled: Option<Timestamp>, known: Option<Timestamp>| {
            known.or(journaled.filter(|journaled| *journaled > now).map(|_| now))
        };
        let opened_ahead = mark(self.opened_at, self.opened_ahead);
        let completed_ahead = mark(self.completed_at, self.completed_ahead);
        RecordedGroup { opened_ahead, completed_ahead, ..self }
    }

    /// The time when the group opened, as the start of waits.
    pub fn opened_here(&self, opened_at: Timestamp, now: Timestamp) -> Timestamp {
        here(opened_at, self.opened_ahead, now)
    }

    /// The time when the group was complete, as the start of waits.
    pub fn completed_here(&self, completed_at: Timestamp, now: Timestamp) -> Timestamp {
        here(completed_at, self.completed_ahead, now)
    }

    /// The part that remains when the sequence starts again.
    fn begun_again(&self) -> Option<RecordedGroup> {
        self.finished.then(|| RecordedGroup { finished: true, ..RecordedGroup::default() })
    }

    /// Takes the later of both times. Another controller that is active at the same time may have journaled other times for the
    /// same steps. Unless both controllers agree on the later ones, each overwrites the other's times indefinitely. In
    /// Bootstrap, a time that only the other controller has counts; in Continuous, its absence may be the newer fact.
    pub fn agree_with(&mut self, theirs: &RecordedGroup, bootstrap: bool) {
        self.opened_at = later_of(self.opened_at, theirs.opened_at, bootstrap);
        self.completed_at = later_of(self.completed_at, theirs.completed_at, bootstrap);
        self.finished |= theirs.finished && bootstrap;
    }
}

/// Returns the journal of a new start: finished groups stay finished, all other groups have no times yet.
pub fn begun_again(groups: &BTreeMap<GroupId, RecordedGroup>) -> BTreeMap<GroupId, RecordedGroup> {
    groups.iter().filter_map(|(id, group)| Some((id.clone(), group.begun_again()?))).collect()
}

/// The later of our time and the other controller's; see [`RecordedGroup::agree_with`].
pub fn later_of(ours: Option<Timestamp>, theirs: Option<Timestamp>, bootstrap: bool) -> Option<Timestamp> {
    match ours {
        None if !bootstrap => None,
        ours => ours.max(theirs),
    }
}

/// Returns the start of a wait. A time from a clock ahead of ours counts from when it was first seen here. The wait is then
/// longer than requested, but not until our clock catches up, which could take hours.
fn here(journaled: Timestamp, ahead_since: Option<Timestamp>, now: Timestamp) -> Timestamp {
    if planted(Bug::TrustsClocks) {
        return journaled;
    }
    journaled.min(ahead_since.unwrap_or(now))
}
