//! Who else is at work in a cluster: scheduler, kubelets, controllers of workloads. Each in a file of its own, with the
//! semantics of the real one.
//!
//! An actor hears of every commit ([`Actor::heard`]), remembers what it has to look at, and does it when it is its turn
//! ([`Actor::act`]), through the same functions that a request would go through. It keeps no other state than what the
//! real one keeps in memory.

use crate::cluster::Cluster;
use crate::store::{Change, Key};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

pub mod agents;
mod bound;
pub mod common;
pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
pub mod eviction;
pub mod garbage;
pub mod job;
pub mod kubelet;
pub mod namespaces;
pub mod nodes;
pub mod podgc;
pub mod quotas;
pub mod replicaset;
pub mod scheduler;
pub mod statefulset;
pub mod volume_claims;

pub trait Actor: Send {
    /// Something was committed, by whomever.
    fn heard(&mut self, change: &Change, cluster: &Cluster);

    /// Does what can be done now; says when it wants to be asked again though nothing was committed.
    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp>;
}

/// All actors of an ordinary cluster, in the order in which they act.
pub fn all() -> Vec<Box<dyn Actor>> {
    vec![
        Box::new(namespaces::Namespaces::default()),
        Box::new(garbage::Garbage::default()),
        Box::new(quotas::Quotas::default()),
        Box::new(volume_claims::VolumeClaims::default()),
        // What a Deployment decides next, it decides when its sets have done what it decided before.
        Box::new(replicaset::ReplicaSets::default()),
        Box::new(deployment::Deployments::default()),
        Box::new(nodes::Nodes::default()),
        Box::new(eviction::Evictions::default()),
        Box::new(podgc::PodGc::default()),
        Box::new(cronjob::CronJobs::default()),
        Box::new(job::Jobs::default()),
        Box::new(job::expiry::FinishedJobs::default()),
        Box::new(daemonset::DaemonSets::default()),
        Box::new(statefulset::StatefulSets::default()),
        Box::new(disruption::Disruptions::default()),
        Box::new(scheduler::Scheduler::default()),
        Box::new(kubelet::Kubelet::default()),
        Box::new(agents::Agents::default()),
    ]
}

/// Which objects are to be looked at: now, or when their time comes.
#[derive(Debug, Default)]
pub struct Agenda {
    now: BTreeSet<Key>,
    later: BTreeSet<(Timestamp, Key)>,
    due: BTreeMap<Key, Timestamp>,
}

impl Agenda {
    pub fn add(&mut self, key: Key) {
        self.now.insert(key);
    }

    /// At this time, unless an earlier one is set for the object already.
    pub fn add_at(&mut self, at: Timestamp, key: Key) {
        match self.due.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => drop(self.later.remove(&(*known, key.clone()))),
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.later.insert((at, key));
    }

    pub fn forget(&mut self, key: &Key) {
        self.now.remove(key);
        if let Some(at) = self.due.remove(key) {
            self.later.remove(&(at, key.clone()));
        }
    }

    /// The next one whose time has come.
    pub fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while let Some((at, key)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.later.remove(&(at, key.clone()));
            self.due.remove(&key);
            self.now.insert(key);
        }
        self.now.pop_first()
    }

    pub fn next_moment(&self) -> Option<Timestamp> {
        self.later.first().map(|(at, _)| *at)
    }
}
