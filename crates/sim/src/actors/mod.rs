//! The actors of the cluster: scheduler, kubelets and workload controllers. Each has its own file and the semantics of the
//! real component.
//!
//! An actor receives every commit ([`Actor::on_change`]), records the objects that it must process, and processes them in
//! its turn ([`Actor::act`]) with the functions that also serve requests. It keeps only the state that the real component
//! keeps in memory.

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
    /// Receives a commit of any author.
    fn on_change(&mut self, change: &Change, cluster: &Cluster);

    /// Does all work that is due. Returns when it must be called again even without further commits.
    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp>;
}

/// All actors of an ordinary cluster, in their order of action.
pub fn all() -> Vec<Box<dyn Actor>> {
    vec![
        Box::new(namespaces::Namespaces::default()),
        Box::new(garbage::Garbage::default()),
        Box::new(quotas::Quotas::default()),
        Box::new(volume_claims::VolumeClaims::default()),
        // A Deployment decides its next step after its ReplicaSets have carried out the previous one.
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

/// Objects to process, either now or at a given time.
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

    /// Adds an object for the given time, unless it is already due earlier.
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

    /// The next object that is due.
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
