//! The pods whose containers start in order, and what was seen of them since this process began. All that must outlive the process
//! stands on the pod itself.

use super::facts::Launch;
use super::ranks::{Priority, barrier_name};
use crate::{
    Timestamp, Uid,
    cluster::{Cluster, Refusal},
    facts::Pod,
    key::Touched,
    planted::{Bug, planted},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Launches {
    entries: BTreeMap<Uid, Entry>,
}

/// What is known of one pod besides its facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The places of the containers that have passed.
    pub passed: BTreeSet<usize>,
    pub barrier: Barrier,
    /// The ranks whose keys were in the ConfigMap when it was last written or looked at.
    pub written: BTreeSet<Priority>,
    /// There was nothing in it at all.
    pub has_no_data: bool,
    pub waiting: Option<Waiting>,
    /// What people have been told about the pod, once each.
    pub told: BTreeSet<&'static str>,
    /// What the API server said when it did not want to write the ConfigMap.
    pub refusal: Option<Refusal>,
}

/// A rank that is open and has not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub rank: Priority,
    pub since: Timestamp,
    /// How often the kubelet was told to look again.
    pub nudged: usize,
}

/// The ConfigMap of a pod, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Barrier {
    /// Nobody has looked. It is there if the pod says that a rank was opened.
    #[default]
    NotSeen,
    /// It is not what the pod says: somebody has to look.
    Lost,
    Absent,
    /// It belongs to this pod.
    Ours,
    /// It belongs to a pod that had the same name and is gone; with its own uid.
    OfNamesake(Uid),
    /// It belongs to somebody else, and is never touched.
    Taken {
        by: Arc<str>,
    },
}

/// The ConfigMap of a pod as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenBarrier {
    /// The pod that it is looked at for.
    pub pod: Uid,
    pub uid: Uid,
    pub version: u64,
    pub owner: BarrierOwner,
    pub keys: BTreeSet<String>,
    pub has_no_data: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BarrierOwner {
    Nobody,
    Pod(Uid),
    /// Something else, or several: in words.
    Other(Arc<str>),
}

impl Entry {
    /// Who has passed has passed, whatever becomes of it.
    pub fn see(&mut self, launch: &Launch) {
        let passed = launch.containers.iter().enumerate().filter(|(_, container)| container.passed);
        self.passed.extend(passed.map(|(place, _)| place));
    }
}

impl Launches {
    pub fn get(&self, pod: Uid) -> Option<&Entry> {
        self.entries.get(&pod)
    }

    pub fn pods(&self) -> impl Iterator<Item = Uid> {
        self.entries.keys().copied()
    }

    /// A pod has come or changed.
    pub fn pod_enters(&mut self, pod: &Pod, touched: &mut Touched) {
        let Some(launch) = pod.launch.as_deref() else { return };
        let new = !self.entries.contains_key(&pod.uid);
        let entry = self.entries.entry(pod.uid).or_default();
        entry.see(launch);
        if let Some(rank) = launch.rank.filter(|_| new && planted(Bug::RankTrusted)) {
            entry.passed.extend(launch.of_rank(rank).map(|(place, _)| place));
        }
        touched.launch(pod.uid);
    }

    pub fn pod_gone(&mut self, pod: Uid, touched: &mut Touched) {
        if self.entries.remove(&pod).is_some() {
            touched.launch(pod);
        }
    }

    /// The ConfigMap of a pod, by a look or by a write.
    pub fn barrier_seen(&mut self, cluster: &Cluster, seen: &SeenBarrier, touched: &mut Touched) {
        let barrier = match &seen.owner {
            BarrierOwner::Pod(owner) if *owner == seen.pod || planted(Bug::NamesakeReused) => Barrier::Ours,
            BarrierOwner::Pod(owner) if cluster.pod(*owner).is_none() => Barrier::OfNamesake(seen.uid),
            BarrierOwner::Pod(_) => Barrier::Taken { by: "another pod".into() },
            BarrierOwner::Other(owner) => Barrier::Taken { by: owner.clone() },
            BarrierOwner::Nobody if planted(Bug::StrangersBarrierGoes) => Barrier::OfNamesake(seen.uid),
            BarrierOwner::Nobody => Barrier::Taken { by: "no pod".into() },
        };
        let launch = cluster.pod(seen.pod).and_then(|pod| pod.launch.as_deref());
        if let (Some(entry), Some(launch), Barrier::Ours) =
            (self.entries.get_mut(&seen.pod), launch, &barrier)
        {
            let ranks = launch.ranks().into_iter();
            entry.has_no_data = seen.has_no_data;
            entry.written = ranks.filter(|rank| launch.keys(*rank).is_subset(&seen.keys)).collect();
        }
        self.barrier_is(seen.pod, barrier, touched);
    }

    pub fn barrier_is(&mut self, pod: Uid, barrier: Barrier, touched: &mut Touched) {
        if let Some(entry) = self.entries.get_mut(&pod) {
            (entry.barrier, entry.refusal) = (barrier, None);
            touched.launch(pod);
        }
    }

    pub fn barrier_refused(&mut self, pod: Uid, refusal: Refusal) {
        if let Some(entry) = self.entries.get_mut(&pod) {
            entry.refusal = Some(refusal.after(entry.refusal.as_ref()));
        }
    }

    /// Keeps what the next decision is to know.
    pub fn keep(&mut self, pod: Uid, waiting: Option<Waiting>, told: &[&'static str]) {
        if let Some(entry) = self.entries.get_mut(&pod) {
            entry.waiting = waiting;
            entry.told.extend(told);
        }
    }
}

/// The name of the ConfigMap of a pod.
pub fn barrier_of(pod: &Pod) -> Arc<str> {
    barrier_name(&pod.name).into()
}
