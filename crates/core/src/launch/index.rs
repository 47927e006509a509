//! The pods whose containers start in order, and their progress as this process has observed it. State that must survive a
//! restart is stored in the pod itself.

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

/// The state of one pod that is not part of the pod object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The indices of the containers that have passed at least once.
    pub passed: BTreeSet<usize>,
    pub barrier: Barrier,
    /// The ranks whose keys the ConfigMap contained when it was last written or read.
    pub written: BTreeSet<Priority>,
    /// Whether the ConfigMap had no data at all at that time.
    pub has_no_data: bool,
    pub waiting: Option<StuckRank>,
    /// The reasons of the events that have been emitted for the pod.
    pub told: BTreeSet<&'static str>,
    /// The latest rejection of a write to the ConfigMap.
    pub refusal: Option<Refusal>,
}

/// An open rank that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckRank {
    pub rank: Priority,
    pub since: Timestamp,
    /// How often the kubelet was nudged to look for the key again.
    pub nudged: usize,
}

/// The last known state of a pod's ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Barrier {
    /// Not read yet. It is assumed to exist if the pod's annotation says that a rank was opened.
    #[default]
    NotSeen,
    /// Changed by another client: it must be read again.
    Lost,
    Absent,
    /// It belongs to this pod.
    Ours,
    /// It belongs to a deleted pod of the same name. Contains the uid of the ConfigMap.
    OfNamesake(Uid),
    /// It is foreign, and is never changed or deleted.
    Taken {
        by: Arc<str>,
    },
}

/// The ConfigMap of a pod, as read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenBarrier {
    /// The pod whose barrier it may be.
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
    /// Another owner, or several owners, in words.
    Other(Arc<str>),
}

impl Entry {
    /// Records the containers that have passed. A container that has passed once counts as passed even if it fails later.
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

    /// Handles a pod that was added or changed.
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

    /// Records the ConfigMap of a pod, after reading or writing it.
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

    /// Records the part of a decision that the next decision needs.
    pub fn keep(&mut self, pod: Uid, waiting: Option<StuckRank>, told: &[&'static str]) {
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
