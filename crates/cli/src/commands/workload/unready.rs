//! The pod that an unfinished workload waits for, with the cause and a command that shows more.

use super::world::{Workload, World};
use rollcall_core::facts::{Pod, Trouble};
use rollcall_core::sequence::blocked;
use rollcall_core::sequence::spec::Until;

/// Returns the first unready pod of a workload. Pods with a known cause come first, and terminating pods come last.
pub fn first<'w>(world: &'w World, workload: &Workload) -> Option<&'w Pod> {
    let unready = world.pods_of(workload.uid()).filter(|pod| !pod.ready || pod.terminating);
    unready.min_by_key(|pod| (pod.terminating, pod.trouble.is_none(), pod.name.clone()))
}

/// Describes the pod, such as `pod web-1 is not ready: container server: CrashLoopBackOff`.
pub fn cause(pod: &Pod) -> String {
    match pod.terminating {
        true => format!("pod {} is being deleted", pod.name),
        false => format!("pod {}", blocked::of_starting_pod(pod, None, Until::Ready).sentence()),
    }
}

/// Returns a command that shows more: the log of a crashed container, or else the events of the pod.
pub fn hint(world: &World, pod: &Pod) -> String {
    let (name, namespace) = (&pod.name, world.namespace());
    let crash = pod.trouble.as_ref().filter(|trouble| trouble.is_crash());
    match crash {
        Some(Trouble { container: Some(container), .. }) => {
            format!("kubectl logs pod/{name} -c {container} -n {namespace}")
        }
        Some(Trouble { container: None, .. }) => format!("kubectl logs pod/{name} -n {namespace}"),
        None => format!("kubectl describe pod/{name} -n {namespace}"),
    }
}
