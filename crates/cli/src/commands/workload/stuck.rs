//! Stuck StatefulSets, which continue only after a pod is deleted.
//!
//! With `OrderedReady` their controller processes one pod at a time. It waits for a pod that is not ready, even if it should
//! replace or delete that very pod.

use super::unready;
use super::world::{Workload, World};
use rollcall_core::Uid;
use rollcall_core::facts::Pod;

/// Pod label with the revision of the StatefulSet.
const REVISION: &str = "controller-revision-hash";

/// Why a wait cannot end without intervention.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// The pod that must be deleted.
    pub pod: Uid,
    pub why: String,
    /// Commands that help.
    pub hints: Vec<String>,
}

/// Detects a stuck scale-down. The controller deletes the highest pod first. If that pod is not ready, the controller waits for
/// the lowest pod that is not ready either.
pub fn scale_down(world: &World, workload: &Workload) -> Option<Stuck> {
    if !workload.is_ordered_ready() || workload.size() > 0 {
        return None;
    }
    let pods = by_ordinal(world, workload);
    let (highest, lower) = pods.split_last()?;
    if highest.terminating || highest.ready {
        return None;
    }
    let first = lower.iter().find(|pod| !pod.ready)?;
    let why = format!(
        "{} is stuck: pod {} is not ready, and its controller waits for pod {}, which is not ready either",
        workload.title(),
        highest.name,
        first.name
    );
    Some(Stuck { pod: highest.uid, why, hints: vec![delete(world, highest)] })
}

/// Detects a stuck update. The controller waits for a pod of an old revision that is not ready, and never replaces it. Pods below
/// the partition keep their old revision on purpose.
pub fn update(world: &World, workload: &Workload) -> Option<Stuck> {
    if !workload.is_ordered_ready() || !workload.is_observed() {
        return None;
    }
    let newest = workload.fields.status.update_revision.as_str();
    let lowest = workload.fields.spec.ordinals.start + workload.below_partition();
    let pods = by_ordinal(world, workload);
    let mut covered =
        pods.into_iter().rev().filter(|pod| ordinal(pod).is_none_or(|ordinal| ordinal >= lowest));
    let broken = covered.find(|pod| {
        let revision = pod.labels.get(REVISION);
        !pod.ready && !pod.terminating && revision.is_some_and(|revision| **revision != *newest)
    })?;
    let why = format!(
        "{} is stuck: {}; the pod has an old revision, and its controller does not replace it until it is ready",
        workload.title(),
        unready::cause(broken)
    );
    Some(Stuck { pod: broken.uid, why, hints: vec![delete(world, broken)] })
}

fn by_ordinal<'w>(world: &'w World, workload: &Workload) -> Vec<&'w Pod> {
    let mut pods: Vec<&Pod> = world.pods_of(workload.uid()).collect();
    pods.sort_by_key(|pod| ordinal(pod));
    pods
}

fn ordinal(pod: &Pod) -> Option<u32> {
    let (_, text) = pod.name.rsplit_once('-')?;
    text.parse().ok()
}

fn delete(world: &World, pod: &Pod) -> String {
    format!("kubectl delete pod {} -n {}", pod.name, world.namespace())
}
