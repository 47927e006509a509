//! The pods that a Job creates and deletes.

use super::backoff::{self, Backoff};
use super::sync::{JobSync, StoredPod};
use super::{pod, spec, track};
use crate::actors::common::{born, delete_this, pods, text};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Limit of pods created or deleted in one sync.
const BURST: i64 = 500;

pub fn manage(cluster: &mut Cluster, sync: &mut JobSync, backoff: &Backoff) -> Result<(), Refusal> {
    let active = sync.active_count;
    if spec::is_suspended(sync.job) {
        let all = first_to_delete(sync, active);
        remove(cluster, sync, &all);
        return Ok(());
    }
    let parallelism = spec::parallelism(sync.job);
    let wanted = match spec::completions(sync.job) {
        // After its first success, a work queue gets no new pods.
        None if sync.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => (completions - sync.succeeded).clamp(0, parallelism),
    };
    let surplus = first_to_delete(sync, (active - wanted).max(0));
    if !surplus.is_empty() {
        remove(cluster, sync, &surplus[..surplus.len().min(BURST as usize)]);
        return Ok(());
    }
    let terminating = if spec::replaces_only_failed(sync.job) { sync.terminating } else { 0 };
    let missing = (wanted - terminating - active).min(BURST);
    if missing > 0 { create(cluster, sync, backoff, missing) } else { Ok(()) }
}

/// The pods to delete: first those with a duplicate or unwanted index, then the least advanced.
fn first_to_delete(sync: &JobSync, at_least: i64) -> Vec<StoredPod> {
    let mut left = sync.active.clone();
    left.sort_by_cached_key(|(key, pod)| {
        let phase = match text(&pod["status"]["phase"]) {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        (
            (!pods::node(pod).is_empty(), phase, pods::is_ready(pod)),
            Reverse(pods::ready_since(pod)),
            Reverse(pods::restarts(pod)),
            Reverse(born(pod)),
            key.clone(),
        )
    });
    let mut gone = Vec::new();
    if spec::is_indexed(sync.job) {
        let mut taken = BTreeSet::new();
        let mut stay = Vec::new();
        // Per completion index, keep the pod that has progressed furthest.
        for one in left.into_iter().rev() {
            match pod::index(sync.job, &one.1).is_some_and(|index| taken.insert(index)) {
                true => stay.push(one),
                false => gone.push(one),
            }
        }
        stay.reverse();
        left = stay;
    }
    let more = (at_least - gone.len() as i64).max(0) as usize;
    gone.extend(left.into_iter().take(more));
    gone
}

/// Deletes pods that the Job does not count.
fn remove(cluster: &mut Cluster, sync: &mut JobSync, some: &[StoredPod]) {
    for (key, pod) in some {
        track::let_go(cluster, key);
        delete_this(cluster, key, pod);
        sync.ready -= i64::from(pods::is_ready(pod));
    }
    sync.active_count -= some.len() as i64;
    sync.terminating += some.len() as i64;
}

fn create(cluster: &mut Cluster, sync: &mut JobSync, backoff: &Backoff, missing: i64) -> Result<(), Refusal> {
    let per_index = spec::per_index_limit(sync.job).is_some();
    if !per_index && let Some(at) = backoff.until(sync.now) {
        sync.again = Some(sync.again.map_or(at, |known| known.min(at)));
        return Ok(());
    }
    let pod = pod::new_pod(sync.key, sync.job);
    if !spec::is_indexed(sync.job) {
        for _ in 0..missing {
            cluster.create(Kind::Pod, pod.clone())?;
            sync.active_count += 1;
        }
        return Ok(());
    }
    for index in pending(sync, missing) {
        let before = sync.kept.get(&index).map(|(_, pod)| pod.clone());
        let failures = before.as_ref().map_or(0, |pod| pod::failures(pod) + 1);
        let last = before.as_ref().and_then(|pod| pod::ended(pod));
        if let Some(at) = last.and_then(|last| backoff::until(failures, last, sync.now)) {
            sync.again = Some(sync.again.map_or(at, |known| known.min(at)));
            continue;
        }
        let mut pod = pod.clone();
        pod::give_index(&mut pod, sync.key, index, per_index.then_some(failures));
        cluster.create(Kind::Pod, pod)?;
        sync.active_count += 1;
    }
    Ok(())
}

/// The lowest indexes that need a pod and have none.
fn pending(sync: &JobSync, count: i64) -> Vec<i64> {
    let taken: BTreeSet<i64> = sync
        .pods
        .iter()
        .filter(|(_, pod)| {
            pods::is_active(pod)
                || spec::replaces_only_failed(sync.job) && pod.is_terminating() && !pods::is_over(pod)
        })
        .filter_map(|(_, pod)| pod::index(sync.job, pod))
        .collect();
    let is_done = |index: &i64| {
        sync.succeeded_indexes.has(*index)
            || sync.failed_indexes.as_ref().is_some_and(|failed| failed.has(*index))
    };
    let all = 0..spec::completions(sync.job).unwrap_or_default();
    all.filter(|index| !taken.contains(index) && !is_done(index)).take(count.max(0) as usize).collect()
}
