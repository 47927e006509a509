//! Facts about a pod whose containers start in order.

use super::ranks::{Priority, Spelling};
use crate::{
    Timestamp,
    facts::{Pod, PodPhase},
    gates,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The launch order of a pod's containers, and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The containers that wait for a key in the ConfigMap of the pod, in the order of `spec.containers`.
    pub containers: Box<[LaunchContainer]>,
    /// The rank that was opened last, from the pod's annotation. Usually absent until the second rank is opened.
    pub rank: Option<Priority>,
    /// How often the kubelet was nudged to look for a key again, from the pod's annotation.
    pub nudges: u32,
    /// Whether the pod's annotation says that every rank is open.
    pub completed: bool,
    /// Whether the pod has progress annotations while it is still gated: it was copied from another pod with them. `rank` and
    /// `completed` then ignore these annotations.
    pub copied: bool,
    /// Whether the pod has the annotation `restart-dependents`, which is not supported.
    pub asks_restart: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchContainer {
    pub name: Arc<str>,
    pub spelling: Spelling,
    pub priority: Priority,
    /// Whether it is ready or, in a pod whose containers exit and are not restarted, has terminated with exit code 0.
    pub passed: bool,
    /// Whether the kubelet has not found its key. The kubelet retries after ten seconds, or when the pod changes.
    pub waits_for_key: bool,
    /// The problem that Kubernetes reports in its status.
    pub trouble: Option<Arc<str>>,
    /// Since when it has been running.
    pub since: Option<Timestamp>,
}

impl Launch {
    /// Returns this boxed, or `None` if launch order does not concern the pod.
    pub fn kept(self) -> Option<Box<Launch>> {
        (!self.containers.is_empty() || self.asks_restart).then(|| Box::new(self))
    }

    /// All ranks, highest first.
    pub fn ranks(&self) -> Vec<Priority> {
        let all: BTreeSet<Priority> = self.containers.iter().map(|container| container.priority).collect();
        all.into_iter().rev().collect()
    }

    /// The rank that was opened last, according to the pod. The first rank is open as soon as the ConfigMap exists.
    pub fn current(&self) -> Option<Priority> {
        let highest = self.containers.iter().map(|container| container.priority).max();
        highest.map(|highest| self.rank.map_or(highest, |rank| rank.min(highest)))
    }

    /// The highest rank below this one.
    pub fn next_after(&self, rank: Priority) -> Option<Priority> {
        self.containers.iter().map(|container| container.priority).filter(|priority| *priority < rank).max()
    }

    pub fn is_last(&self, rank: Priority) -> bool {
        self.next_after(rank).is_none()
    }

    /// The containers of a rank, with their indices in `containers`.
    pub fn of_rank(&self, rank: Priority) -> impl Iterator<Item = (usize, &LaunchContainer)> {
        self.containers.iter().enumerate().filter(move |(_, container)| container.priority == rank)
    }

    /// Whether a container of an open rank waits for its key, although that should exist.
    pub fn is_stuck(&self, current: Priority) -> bool {
        self.containers.iter().any(|container| container.priority >= current && container.waits_for_key)
    }

    /// The keys of a rank: one, unless a user has mixed both spellings in the pod.
    pub fn keys(&self, rank: Priority) -> BTreeSet<String> {
        self.of_rank(rank).map(|(_, container)| container.spelling.key(rank)).collect()
    }
}

/// Whether a pod may still start containers: it is neither terminating nor finished.
pub fn is_alive(pod: &Pod) -> bool {
    !pod.terminating && !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

pub fn is_gated(pod: &Pod) -> bool {
    pod.gates.iter().any(|gate| **gate == *gates::LAUNCH)
}
