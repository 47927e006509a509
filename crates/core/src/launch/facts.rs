//! A pod whose containers wait for keys, and how far it is.

use super::ranks::{Priority, Spelling};
use crate::{
    Timestamp,
    facts::{Pod, PodPhase},
    gates,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is known of the order of a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Those that wait for a key in the ConfigMap of the pod, in the order of the list.
    pub containers: Box<[Container]>,
    /// The rank that was opened last, as the pod's annotation says; nothing before the second one.
    pub rank: Option<Priority>,
    /// How often the kubelet was told to look again.
    pub nudges: u32,
    /// The annotation says that every rank is open.
    pub completed: bool,
    /// It says how far it is, and has not begun: it was copied from another pod. Then this says nothing of that.
    pub copied: bool,
    /// It asks for something that cannot be done: `restart-dependents`.
    pub asks_restart: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub name: Arc<str>,
    pub spelling: Spelling,
    pub priority: Priority,
    /// Ready; or, in a pod whose containers are not restarted, finished with 0.
    pub passed: bool,
    /// The kubelet has not found its key, and looks again after ten seconds or when the pod changes.
    pub waits_for_key: bool,
    /// What is wrong with it, in Kubernetes' own words.
    pub trouble: Option<Arc<str>>,
    /// Since when it runs.
    pub since: Option<Timestamp>,
}

impl Launch {
    /// To be kept, or nothing if the pod has nothing to do with it.
    pub fn kept(self) -> Option<Box<Launch>> {
        (!self.containers.is_empty() || self.asks_restart).then(|| Box::new(self))
    }

    /// All priorities, the highest first.
    pub fn ranks(&self) -> Vec<Priority> {
        let all: BTreeSet<Priority> = self.containers.iter().map(|container| container.priority).collect();
        all.into_iter().rev().collect()
    }

    /// The rank that was opened last, as far as the pod tells. The first one is open as soon as the ConfigMap is there.
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

    /// The containers of a rank, with their places in the list.
    pub fn of_rank(&self, rank: Priority) -> impl Iterator<Item = (usize, &Container)> {
        self.containers.iter().enumerate().filter(move |(_, container)| container.priority == rank)
    }

    /// Whether a container waits for a key that is there, as far as we know.
    pub fn is_stuck(&self, current: Priority) -> bool {
        self.containers.iter().any(|container| container.priority >= current && container.waits_for_key)
    }

    /// The keys of a rank: one, unless the spellings are mixed by hand.
    pub fn keys(&self, rank: Priority) -> BTreeSet<String> {
        self.of_rank(rank).map(|(_, container)| container.spelling.key(rank)).collect()
    }
}

/// Whether a pod still has containers to start: it is not ending, and not over.
pub fn is_alive(pod: &Pod) -> bool {
    !pod.terminating && !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

pub fn is_gated(pod: &Pod) -> bool {
    pod.gates.iter().any(|gate| **gate == *gates::LAUNCH)
}
