//! The changes of pods in one reconciliation of a StatefulSet: creations, deletions of surplus pods, updates.

use super::identity::{self, Revisions, is_in_range, new_pod, ordinal, partition, replicas, revision, start};
use super::volume_claims;
use crate::actors::common::{delete_this, number, pods};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

type StoredPod = (Key, Arc<Stored>);

/// Whether this reconciliation may continue with the next pod.
#[derive(PartialEq, Eq)]
enum Go {
    On,
    Wait,
}

pub struct PodReconciler<'a> {
    key: &'a Key,
    set: &'a Stored,
    revisions: &'a Revisions,
    now: Timestamp,
    /// The existing pods within the range, by ordinal.
    replicas: BTreeMap<i64, &'a StoredPod>,
    /// The pods beyond the range, highest ordinal first.
    condemned: Vec<(i64, &'a StoredPod)>,
    /// Number of pods of the current revision that this reconciliation deleted for an update.
    pub current_replicas_ended: i64,
}

impl<'a> PodReconciler<'a> {
    pub fn new(
        key: &'a Key,
        set: &'a Stored,
        revisions: &'a Revisions,
        members: &'a [StoredPod],
        now: Timestamp,
    ) -> PodReconciler<'a> {
        let by_ordinal = members.iter().filter_map(|pod| Some((ordinal(&key.name, &pod.0.name)?, pod)));
        let (replicas, condemned): (BTreeMap<_, _>, BTreeMap<_, _>) =
            by_ordinal.partition(|(ordinal, _)| is_in_range(set, *ordinal));
        let condemned = condemned.into_iter().rev().collect();
        PodReconciler { key, set, revisions, now, replicas, condemned, current_replicas_ended: 0 }
    }

    pub fn run(&mut self, cluster: &mut Cluster) -> Result<(), Refusal> {
        let in_order = self.set["spec"]["podManagementPolicy"] != "Parallel";
        for ordinal in start(self.set)..start(self.set) + replicas(self.set) {
            if self.reconcile_replica(cluster, ordinal, in_order)? == Go::Wait && in_order {
                return Ok(());
            }
        }
        for (ordinal, (pod_key, pod)) in &self.condemned {
            volume_claims::own(cluster, self.key, self.set, (pod_key, pod), *ordinal);
        }
        let first_unavailable = self.first_unavailable();
        for (ordinal, pod) in &self.condemned {
            if self.delete_condemned(cluster, pod, first_unavailable == Some(*ordinal), in_order) == Go::Wait
                && in_order
            {
                return Ok(());
            }
        }
        if identity::is_rolling(self.set) {
            self.update(cluster);
        }
        Ok(())
    }

    /// Creates, replaces or repairs one pod of the range.
    fn reconcile_replica(&self, cluster: &mut Cluster, ordinal: i64, in_order: bool) -> Result<Go, Refusal> {
        let Some((pod_key, pod)) = self.replicas.get(&ordinal) else {
            if volume_claims::are_stale(cluster, self.key, self.set, ordinal) {
                let claim = format!("{}-{ordinal}", self.key.name);
                let why = "its claim still awaits deletion together with the previous pod";
                return Err(Refusal::conflict(Kind::Pod, &claim, why));
            }
            self.create(cluster, ordinal)?;
            return Ok(Go::Wait);
        };
        if pods::is_over(pod) {
            if !pod.is_terminating() {
                delete_this(cluster, pod_key, pod);
            }
            return Ok(Go::Wait);
        }
        if pod["status"]["phase"] == "Pending" {
            volume_claims::create(cluster, self.key, self.set, ordinal)?;
        }
        if in_order && !self.is_available(pod) {
            return Ok(Go::Wait);
        }
        volume_claims::own(cluster, self.key, self.set, (pod_key, pod), ordinal);
        if !identity::is_identified(pod) {
            cluster.update(pod_key, |pod| identity::restore(pod, ordinal))?;
        }
        Ok(Go::On)
    }

    fn create(&self, cluster: &mut Cluster, ordinal: i64) -> Result<(), Refusal> {
        volume_claims::create(cluster, self.key, self.set, ordinal)?;
        let pod = cluster.create(Kind::Pod, new_pod(self.key, self.set, self.revisions, ordinal))?;
        let pod_key = Key::from_object(Kind::Pod, &pod);
        volume_claims::own(cluster, self.key, self.set, (&pod_key, &pod), ordinal);
        Ok(())
    }

    /// Deletes one pod beyond the range, unless it must wait.
    fn delete_condemned(
        &self,
        cluster: &mut Cluster,
        pod: &StoredPod,
        is_first_unavailable: bool,
        in_order: bool,
    ) -> Go {
        let (pod_key, pod) = pod;
        if pod.is_terminating() || in_order && !self.is_available(pod) && !is_first_unavailable {
            return Go::Wait;
        }
        delete_this(cluster, pod_key, pod);
        Go::Wait
    }

    /// Deletes the pod with the highest ordinal and an old revision, if the pods above it are available.
    fn update(&mut self, cluster: &mut Cluster) {
        let first = start(self.set);
        for place in (partition(self.set)..replicas(self.set)).rev() {
            let Some((pod_key, pod)) = self.replicas.get(&(first + place)) else { return };
            if revision(pod) != self.revisions.update.name() && !pod.is_terminating() {
                if delete_this(cluster, pod_key, pod) && revision(pod) == self.revisions.current.name() {
                    self.current_replicas_ended += 1;
                }
                return;
            }
            if !self.is_available(pod) {
                return;
            }
        }
    }

    /// The lowest unavailable ordinal within the range, otherwise beyond it.
    fn first_unavailable(&self) -> Option<i64> {
        let range = start(self.set)..start(self.set) + replicas(self.set);
        let missing =
            |ordinal: &i64| self.replicas.get(ordinal).is_none_or(|(_, pod)| !self.is_available(pod));
        let beyond = || {
            let mut condemned = self.condemned.iter().rev();
            condemned.find(|(_, (_, pod))| !self.is_available(pod)).map(|(ordinal, _)| *ordinal)
        };
        range.into_iter().find(missing).or_else(beyond)
    }

    fn is_available(&self, pod: &Stored) -> bool {
        let min_ready = number(&self.set["spec"]["minReadySeconds"]);
        !pod.is_terminating()
            && pod["status"]["phase"] == "Running"
            && pods::is_available(pod, min_ready, self.now)
    }
}
