//! StatefulSets that wait for something which cannot come: only the deletion of a pod helps.
//!
//! With `OrderedReady` their controller goes from pod to pod. It waits for a pod that is not ready, also where that pod is the
//! very one to be replaced or to go.

use super::world::{Workload, World};
use rollcall_core::facts::Pod;

/// The label by which a pod says of which revision it is.
const REVISION: &str = "controller-revision-hash";

type Stuck = (String, Vec<String>);

/// Scaled down, the highest pod goes first. If it is not ready, its controller waits for the lowest one that is not ready either.
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
        "{} does not go on: {} is not ready, and waits for {}, which is not ready either",
        workload.title(),
        highest.name,
        first.name
    );
    Some((why, vec![delete(world, highest)]))
}

/// Updated, a pod of another revision that is not ready is waited for, and never replaced.
pub fn update(world: &World, workload: &Workload) -> Option<Stuck> {
    if !workload.is_ordered_ready() || !workload.is_observed() {
        return None;
    }
    let newest = workload.fields.status.update_revision.as_str();
    let pods = by_ordinal(world, workload);
    let broken = pods.into_iter().rev().find(|pod| {
        let revision = pod.labels.get(REVISION);
        !pod.ready && !pod.terminating && revision.is_some_and(|revision| **revision != *newest)
    })?;
    let why = format!(
        "{} does not go on: {} is not ready and of an old revision, and is not replaced before it is ready",
        workload.title(),
        broken.name
    );
    Some((why, vec![delete(world, broken)]))
}

fn by_ordinal<'w>(world: &'w World, workload: &Workload) -> Vec<&'w Pod> {
    let ordinal = |pod: &&Pod| pod.name.rsplit_once('-').and_then(|(_, text)| text.parse::<u32>().ok());
    let mut pods: Vec<&Pod> = world.pods_of(workload.uid()).collect();
    pods.sort_by_key(ordinal);
    pods
}

fn delete(world: &World, pod: &Pod) -> String {
    format!("kubectl delete pod {} -n {}", pod.name, world.namespace())
}
