//! Distributes a new replica count over the existing ReplicaSets.

use super::limits::{is_rolling, max_surge, replicas};
use super::revision::tell_size;
use super::sets::{DESIRED, MAX, Set, Sets, by_size};
use crate::actors::common::number;
use crate::cluster::Cluster;
use crate::server::refusal::Refusal;
use crate::store::Stored;

pub fn scale(cluster: &mut Cluster, deployment: &Stored, sets: &Sets) -> Result<(), Refusal> {
    let wanted = replicas(deployment);
    if let Some(only) = sets.active_or_latest() {
        return resize(cluster, deployment, &only, wanted, false).map(drop);
    }
    if sets.new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        for old in sets.old.iter().filter(|old| old.replicas() > 0) {
            resize(cluster, deployment, old, 0, false)?;
        }
        return Ok(());
    }
    if !is_rolling(deployment) {
        return Ok(());
    }
    let mut active = sets.active();
    let allowed = if wanted > 0 { wanted + max_surge(deployment) } else { 0 };
    let to_add = allowed - active.iter().map(Set::replicas).sum::<i64>();
    by_size(&mut active, to_add > 0);
    let mut added = 0;
    let mut sizes = Vec::new();
    for set in &active {
        let part = proportion(deployment, set, to_add, added);
        added += part;
        sizes.push(set.replicas() + part);
    }
    // The largest ReplicaSet takes the rounding difference.
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    for (set, size) in active.iter().zip(sizes) {
        resize(cluster, deployment, set, size, true)?;
    }
    Ok(())
}

/// Resizes a ReplicaSet. With `anyway`, it writes the annotations even if the size stays the same.
pub fn resize(
    cluster: &mut Cluster,
    deployment: &Stored,
    set: &Set,
    size: i64,
    anyway: bool,
) -> Result<bool, Refusal> {
    if set.replicas() == size && !anyway {
        return Ok(false);
    }
    cluster.update(&set.key, |object| {
        object["spec"]["replicas"] = size.into();
        tell_size(object, deployment);
    })?;
    Ok(set.replicas() != size)
}

/// Whether the new ReplicaSet has all desired pods, and all of them are available.
fn is_saturated(deployment: &Stored, set: &Set) -> bool {
    let wanted = replicas(deployment);
    let told = set.annotation(DESIRED).parse::<i64>().ok();
    set.replicas() == wanted && told == Some(wanted) && set.available() == wanted
}

/// The share of a ReplicaSet in a change of the replica count.
fn proportion(deployment: &Stored, set: &Set, to_add: i64, added: i64) -> i64 {
    if set.replicas() == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let share = share(deployment, set);
    let allowed = to_add - added;
    if to_add > 0 { share.min(allowed) } else { share.max(allowed) }
}

fn share(deployment: &Stored, set: &Set) -> i64 {
    let wanted = replicas(deployment);
    if wanted == 0 {
        return -set.replicas();
    }
    let told = set.annotation(MAX).parse::<i64>().ok().filter(|told| *told > 0);
    let before = told.unwrap_or_else(|| number(&deployment["status"]["replicas"]));
    if before == 0 {
        return 0;
    }
    // Rounds half away from zero, in integer arithmetic.
    let scaled = set.replicas() * (wanted + max_surge(deployment));
    (2 * scaled + before).div_euclid(2 * before) - set.replicas()
}
