//! Changes of the template: scales the new ReplicaSet up and the old ones down.

use super::limits::{max_surge, max_unavailable, replicas};
use super::scale::resize;
use super::sets::{Set, Sets};
use super::{revision, status};
use crate::actors::common::{delete_this, number, pods};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use jiff::Timestamp;
use std::sync::Arc;

/// Default number of old ReplicaSets that are kept.
const HISTORY: i64 = 10;

pub fn roll(
    cluster: &mut Cluster,
    key: &Key,
    deployment: Arc<Stored>,
    sets: Sets,
) -> Result<Option<Timestamp>, Refusal> {
    let (deployment, sets) = revision::look_or_make(cluster, key, deployment, sets)?;
    if !grow(cluster, &deployment, &sets)? && !shrink(cluster, &deployment, &sets)? {
        clean_up_if_complete(cluster, &deployment, &sets);
    }
    Ok(status::write_rollout(cluster, key, &deployment, &sets))
}

/// Scales the new ReplicaSet up as far as the surge permits.
fn grow(cluster: &mut Cluster, deployment: &Stored, sets: &Sets) -> Result<bool, Refusal> {
    let Some(new) = &sets.new else { return Ok(false) };
    let wanted = replicas(deployment);
    let has = new.replicas();
    let size = match has.cmp(&wanted) {
        std::cmp::Ordering::Equal => return Ok(false),
        std::cmp::Ordering::Greater => wanted,
        std::cmp::Ordering::Less => {
            let room = wanted + max_surge(deployment) - sets.replicas();
            has + room.clamp(0, wanted - has)
        }
    };
    resize(cluster, deployment, new, size, false)
}

/// Scales old ReplicaSets down as far as enough other pods are available. Unavailable pods are removed first.
fn shrink(cluster: &mut Cluster, deployment: &Stored, sets: &Sets) -> Result<bool, Refusal> {
    let Some(new) = &sets.new else { return Ok(false) };
    let mut old: Vec<(Set, i64)> =
        sets.old.iter().filter(|set| set.replicas() > 0).map(|set| (set.clone(), set.replicas())).collect();
    let must_stay = replicas(deployment) - max_unavailable(deployment);
    let not_yet = new.replicas() - new.available();
    let mut at_most = sets.replicas() - must_stay - not_yet;
    if old.is_empty() || at_most <= 0 {
        return Ok(false);
    }
    for (set, size) in &mut old {
        let broken = (*size - set.available()).clamp(0, at_most.max(0));
        *size -= broken;
        at_most -= broken;
    }
    let mut surplus = sets.available() - must_stay;
    for (_, size) in &mut old {
        let part = surplus.clamp(0, *size);
        *size -= part;
        surplus -= part;
    }
    let mut shrunk = false;
    for (set, size) in &old {
        shrunk |= resize(cluster, deployment, set, *size, false)?;
    }
    Ok(shrunk)
}

/// Deletes all old pods before it creates new ones.
pub fn recreate(
    cluster: &mut Cluster,
    key: &Key,
    deployment: Arc<Stored>,
    sets: Sets,
) -> Result<Option<Timestamp>, Refusal> {
    let mut shrunk = false;
    for old in sets.old.iter().filter(|old| old.replicas() > 0) {
        shrunk |= resize(cluster, &deployment, old, 0, false)?;
    }
    if shrunk || sets.old.iter().any(|old| has_running_pods(cluster, old)) {
        return Ok(status::write_rollout(cluster, key, &deployment, &sets));
    }
    let (deployment, sets) = revision::look_or_make(cluster, key, deployment, sets)?;
    if let Some(new) = &sets.new {
        resize(cluster, &deployment, new, replicas(&deployment), false)?;
    }
    clean_up_if_complete(cluster, &deployment, &sets);
    Ok(status::write_rollout(cluster, key, &deployment, &sets))
}

/// Whether pods of a ReplicaSet still run, including terminating ones.
fn has_running_pods(cluster: &Cluster, set: &Set) -> bool {
    set.count("replicas") > 0
        || cluster.store.owned(set.object.uid(), Kind::Pod).any(|(_, pod)| !pods::is_over(pod))
}

fn clean_up_if_complete(cluster: &mut Cluster, deployment: &Stored, sets: &Sets) {
    if status::is_complete(deployment, &deployment["status"]) {
        clean_up(cluster, deployment, sets);
    }
}

/// Deletes the oldest ReplicaSets beyond the limit.
pub fn clean_up(cluster: &mut Cluster, deployment: &Stored, sets: &Sets) {
    let keep = deployment["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(HISTORY);
    let mut old: Vec<&Set> = sets.old.iter().filter(|set| !set.object.is_terminating()).collect();
    let surplus = (old.len() as i64 - keep).max(0) as usize;
    old.sort_by_key(|set| (set.revision(), set.age_key()));
    for set in old.into_iter().take(surplus) {
        let object = &set.object;
        let unseen =
            number(&object["metadata"]["generation"]) > number(&object["status"]["observedGeneration"]);
        if set.count("replicas") == 0 && set.replicas() == 0 && !unseen {
            delete_this(cluster, &set.key, object);
        }
    }
}
