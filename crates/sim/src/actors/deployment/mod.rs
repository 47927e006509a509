//! Deployments: one ReplicaSet per version of the template, and rollouts between them.
//!
//! - [`sets`]: the ReplicaSets. [`limits`]: limits during a rollout. [`revision`]: the ReplicaSet of the current template.
//! - [`scale`]: changes of the replica count. [`rollout`]: changes of the template. [`status`]: the status.

mod limits;
mod revision;
mod rollout;
mod scale;
mod sets;
mod status;

use super::Actor;
use super::common::controller_of;
use super::common::family::Family;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Change, Key, Stored};
use jiff::Timestamp;
use sets::{DESIRED, Sets};
use std::sync::Arc;

pub struct Deployments {
    family: Family,
}

impl Default for Deployments {
    fn default() -> Deployments {
        Deployments { family: Family::new(Kind::Deployment, Kind::ReplicaSet) }
    }
}

impl Actor for Deployments {
    fn on_change(&mut self, change: &Change, cluster: &Cluster) {
        self.family.on_change(change, cluster);
        // The Recreate strategy waits until the last old pod is deleted.
        if change.key.kind == Kind::Pod
            && change.deleted
            && let Some(deployment) = self.deployment_of_pod(change, cluster)
        {
            self.family.agenda.add(deployment);
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.family.agenda.pop(cluster.now()) {
            let Some(deployment) = cluster.store.get(&key).cloned() else { continue };
            self.family.claim(cluster, &key, &deployment, |_| true);
            match reconcile(cluster, &key, deployment) {
                Ok(check_at) => {
                    self.family.succeeded(&key);
                    if let Some(at) = check_at {
                        self.family.agenda.add_at(at, key);
                    }
                }
                Err(_) => self.family.retry(cluster.now(), key),
            }
        }
        self.family.agenda.next_moment()
    }
}

impl Deployments {
    fn deployment_of_pod(&self, change: &Change, cluster: &Cluster) -> Option<Key> {
        let reference = controller_of(&change.object)?;
        let name = reference["name"].as_str()?;
        let set = cluster.store.find(Kind::ReplicaSet, &change.key.namespace, name)?;
        let key = self.family.owner(cluster, set)?;
        (cluster.store.get(&key)?["spec"]["strategy"]["type"] == "Recreate").then_some(key)
    }
}

/// Reconciles a Deployment. Returns when to check its progress again.
fn reconcile(
    cluster: &mut Cluster,
    key: &Key,
    deployment: Arc<Stored>,
) -> Result<Option<Timestamp>, Refusal> {
    if deployment.is_terminating() {
        let sets = Sets::owned_by(cluster, &deployment);
        status::write_plain(cluster, key, &deployment, &sets);
        return Ok(None);
    }
    let deployment = status::note_pause(cluster, key, deployment)?;
    let (deployment, sets) = revision::look(cluster, key, deployment)?;
    let paused = deployment["spec"]["paused"] == true;
    if paused || is_scaling(&deployment, &sets) {
        scale::scale(cluster, &deployment, &sets)?;
        if paused {
            rollout::clean_up(cluster, &deployment, &sets);
        }
        status::write_plain(cluster, key, &deployment, &sets);
        return Ok(None);
    }
    match limits::is_rolling(&deployment) {
        true => rollout::roll(cluster, key, deployment, sets),
        false => rollout::recreate(cluster, key, deployment, sets),
    }
}

/// Whether the replica count differs from the one in the annotations of its ReplicaSets.
fn is_scaling(deployment: &Stored, sets: &Sets) -> bool {
    let wanted = limits::replicas(deployment);
    let told = |set: &sets::Set| set.annotation(DESIRED).parse::<i64>().ok();
    sets.active().iter().filter_map(told).any(|told| told != wanted)
}
