//! A `PodSequence` as the core sees it: parsed, resolved, with every default applied.

use crate::planted::{Bug, is};
use crate::{Timestamp, Uid, facts::Pod, hash::fnv1a64, labels::Labels, selector::Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One `PodSequence` object.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: u64,
    pub generation: i64,
    /// What it asks for, or why that cannot be understood.
    pub spec: Result<Arc<Spec>, Invalid>,
    /// Groups opened by hand (`podsequence.example.com/open-groups`), as written there.
    pub opened_by_hand: BTreeSet<Arc<str>>,
    /// What its status recorded last.
    pub recorded: Recorded,
}

/// Why a spec cannot be acted on: `field: what is wrong with it`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    pub field: String,
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The namespace of its pods.
    pub target: Arc<str>,
    pub gate: Arc<str>,
    pub scope: Scope,
    pub enforcement: Enforcement,
    pub suspend: bool,
    pub deletion_policy: DeletionPolicy,
    pub guard: NodeGuard,
    pub groups: Vec<Group>,
}

/// In Node scope: what keeps a node closed for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeGuard {
    /// A label that members avoid.
    #[default]
    Labels,
    /// A taint that keeps everybody away.
    Taints,
}

/// What a node must show besides pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReady {
    /// A driver registered in its CSINode.
    CsiDriver(Arc<str>),
    /// A resource that it offers.
    Allocatable(Arc<str>),
    /// A condition that is True.
    Condition(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Order is for coming up: a group that has been complete stays passed.
    Bootstrap,
    /// Order holds at every moment: what is not complete right now holds later pods back.
    Continuous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPolicy {
    Release,
    Hold,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub id: GroupId,
    /// Its name, or `Group N`.
    pub title: Arc<str>,
    pub members: Members,
    pub expected: Option<u32>,
    pub min_ready: MinReady,
    pub until: Until,
    pub wait: Duration,
    pub timeout: Option<Duration>,
    pub on_timeout: OnTimeout,
    /// The groups it waits for, by position; all of them are earlier in the list.
    pub after: Vec<usize>,
    pub max_concurrent_starts: Option<u32>,
    /// In Node scope: the labels of the nodes that take part for this group.
    pub node_selector: Labels,
    /// In Node scope: what a node must show, besides its pods, before the group is complete there.
    pub node_ready: Option<NodeReady>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Members {
    Names(BTreeSet<Arc<str>>),
    Selector(Selector),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinReady {
    Count(u32),
    Percent(u8),
}

impl MinReady {
    /// How many of `expected` must have arrived; a fraction of a pod is a pod.
    pub fn of(self, expected: u32) -> u32 {
        match self {
            // Not capped by `expected`: of pods without an owner as many are expected as there are, and
            // "at least 3" must not be met by the only one that exists.
            MinReady::Count(count) => count,
            MinReady::Percent(percent) => (u64::from(expected) * u64::from(percent)).div_ceil(100) as u32,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Auto,
    Ready,
    Started,
    Succeeded,
}

impl Until {
    /// The rule that applies to something that does or does not run to completion.
    pub fn resolve(self, runs_to_completion: bool) -> Until {
        match self {
            Until::Auto if runs_to_completion => Until::Succeeded,
            Until::Auto => Until::Ready,
            Until::Ready | Until::Started | Until::Succeeded => self,
        }
    }

    /// Whether `pod`, out of its gate, has arrived.
    pub fn arrived(self, pod: &Pod) -> bool {
        use crate::facts::PodPhase::Succeeded;
        match self.resolve(pod.runs_to_completion) {
            Until::Auto => unreachable!("resolve never returns Auto"),
            Until::Ready => pod.ready || pod.phase == Succeeded || is(Bug::StartedIsReady) && pod.started,
            Until::Started => pod.started || pod.phase == Succeeded,
            Until::Succeeded => pod.phase == Succeeded,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    Fail,
    Continue,
}

/// What a group is recognised by when the list around it is edited: its name, or what it selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(Arc<str>);

impl GroupId {
    pub fn named(name: &str) -> GroupId {
        GroupId(Arc::from(format!("={name}")))
    }

    pub fn unnamed(members: &Members) -> GroupId {
        let text = match members {
            Members::Names(names) => {
                names.iter().fold(String::from("names"), |text, name| text + "\u{0}" + name)
            }
            Members::Selector(selector) => format!("selector\u{0}{selector}"),
        };
        GroupId(Arc::from(format!("#{:016x}", fnv1a64(text.as_bytes()))))
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

/// What the status said when it was last seen. Only the times are input to a decision; the rest keeps a
/// restart from announcing again what was announced before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    pub phase: Option<super::status::Phase>,
    pub groups: BTreeMap<GroupId, RecordedGroup>,
    pub resumed_at: Option<Timestamp>,
    pub suspended: bool,
    pub out_of_order: bool,
    pub duplicates: bool,
    pub stalled: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedGroup {
    pub opened_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub timed_out: bool,
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
}

/// A time that was written by a clock ahead of ours counts from when it was first seen here: longer than asked for, but not
/// until our clock has caught up, which could take hours.
fn here(journaled: Timestamp, ahead_since: Option<Timestamp>, now: Timestamp) -> Timestamp {
    if is(Bug::TrustsClocks) {
        return journaled;
    }
    journaled.min(ahead_since.unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_a_pod_is_a_pod() {
        for (min_ready, expected, required) in [
            (MinReady::Percent(100), 3, 3),
            (MinReady::Percent(50), 3, 2),
            (MinReady::Percent(1), 3, 1),
            (MinReady::Percent(0), 3, 0),
            (MinReady::Percent(100), 0, 0),
            (MinReady::Count(2), 3, 2),
            (MinReady::Count(5), 3, 5),
            (MinReady::Percent(33), 100, 33),
            (MinReady::Percent(67), 4_000_000_000, 2_680_000_000),
        ] {
            assert_eq!(min_ready.of(expected), required, "{min_ready:?} of {expected}");
        }
    }

    #[test]
    fn unnamed_groups_are_known_by_what_they_select() {
        let names = |list: &[&str]| Members::Names(list.iter().map(|n| Arc::from(*n)).collect());
        assert_eq!(GroupId::unnamed(&names(&["a", "b"])), GroupId::unnamed(&names(&["b", "a"])));
        assert_ne!(GroupId::unnamed(&names(&["a", "b"])), GroupId::unnamed(&names(&["ab"])));
        assert!(!GroupId::unnamed(&names(&["a"])).is_named());
        assert!(GroupId::named("#1").is_named());
    }
}
