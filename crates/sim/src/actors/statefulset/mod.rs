//! StatefulSets: ordered pods with fixed names and their own volumes.
//!
//! - [`identity`]: ordinals and names. [`volume_claims`]: volumes. [`steps`]: changes of pods. [`status`]: the status.

mod identity;
mod status;
mod steps;
mod volume_claims;

use super::Actor;
use super::common::family::Family;
use super::common::revisions::{self, Naming};
use super::common::{number, pods, text};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Change, Key, Stored};
use identity::{Revisions, ordinal};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

const NAMING: Naming = Naming { label: "controller.kubernetes.io/hash", hash: revisions::hash_of_patch };

pub struct StatefulSets {
    family: Family,
}

impl Default for StatefulSets {
    fn default() -> StatefulSets {
        StatefulSets { family: Family::new(Kind::StatefulSet, Kind::Pod) }
    }
}

impl Actor for StatefulSets {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        self.family.on_change(change, cluster);
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.family.agenda.pop(cluster.now()) {
            let Some(set) = cluster.store.get(&key).cloned() else { continue };
            match self.reconcile(cluster, &key, &set) {
                Ok(()) => self.family.succeeded(&key),
                Err(_) => self.family.retry(cluster.now(), key),
            }
        }
        self.family.agenda.next_moment()
    }
}

impl StatefulSets {
    fn reconcile(&mut self, cluster: &mut Cluster, key: &Key, set: &Stored) -> Result<(), Refusal> {
        let is_member =
            |pod: &serde_json::Value| ordinal(&key.name, text(&pod["metadata"]["name"])).is_some();
        let members = self.family.claim(cluster, key, set, is_member);
        let mut collisions = number(&set["status"]["collisionCount"]);
        let known = revisions::of_owner(cluster, set);
        let update = revisions::current(cluster, key, set, &NAMING, &mut collisions)?;
        let current = known.into_iter().find(|one| one.name() == text(&set["status"]["currentRevision"]));
        let revisions = Revisions { current: current.unwrap_or_else(|| update.clone()), update };
        let mut reconciler = steps::PodReconciler::new(key, set, &revisions, &members, cluster.now());
        let outcome = match set.is_terminating() {
            true => Ok(()),
            false => reconciler.run(cluster),
        };
        let ended = reconciler.current_replicas_ended;
        status::write(cluster, key, set, &members, &revisions, collisions, ended);
        outcome?;
        forget_revisions(cluster, set, &members, &revisions);
        let min_ready = number(&set["spec"]["minReadySeconds"]);
        let ready = members.iter().map(|(_, pod)| &pod.value);
        if let Some(at) = pods::next_available(ready, min_ready, cluster.now()) {
            self.family.agenda.add_at(at, key.clone());
        }
        Ok(())
    }
}

fn forget_revisions(
    cluster: &mut Cluster,
    set: &Stored,
    members: &[(Key, Arc<Stored>)],
    revisions: &Revisions,
) {
    let mut in_use: BTreeSet<String> =
        members.iter().map(|(_, pod)| identity::revision(pod).to_owned()).collect();
    in_use.extend([&revisions.current, &revisions.update].map(|revision| revision.name().to_owned()));
    revisions::forget(cluster, set, &in_use, None);
}
