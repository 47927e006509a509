//! Decides the next step for one pod. One rule ensures the order: the key of a rank is written only when all containers of the
//! higher ranks have passed. All other steps only make this happen sooner.

use super::facts::{Launch, is_alive, is_gated};
use super::index::{Barrier, Entry, Launches, StuckRank, barrier_of};
use super::ranks::Priority;
use crate::{
    Timestamp, Uid,
    cluster::{Cluster, Target},
    decision::{
        Action, BarrierWrite, Decision, DropGate, Event, EventKind, Keep, PodPatch, Subject, ToBarrier,
    },
    facts::Pod,
    gates,
    kind::Kind,
    planted::{Bug, planted},
};
use jiff::SignedDuration;
use std::sync::Arc;

/// Delays after which the kubelet is nudged again. A nudge, a change of the pod, makes the kubelet look for the key within a
/// second. After the last nudge, only the kubelet's own retry every ten seconds remains.
const NUDGES: [SignedDuration; 3] =
    [SignedDuration::from_secs(2), SignedDuration::from_secs(10), SignedDuration::from_secs(30)];
/// Maximum number of times that the ConfigMap of a stuck pod is read. ConfigMaps are not watched, so the controller reads it with
/// every nudge, and then at increasing intervals.
const MOST_LOOKS: usize = 10;
/// Interval between reads of a foreign ConfigMap with the name of a barrier.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Annotations of launch order on a pod.
pub const RANK: &str = "podsequence.example.com/launch-rank";
pub const NUDGE: &str = "podsequence.example.com/launch-nudge";
pub const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";
pub const RESTART_DEPENDENTS: &str = "podsequence.example.com/restart-dependents";

/// The facts that decisions about launch order use.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub cluster: &'a Cluster,
    pub launches: &'a Launches,
}

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchStep {
    /// Read, create or delete its ConfigMap first.
    Barrier(ToBarrier),
    /// A foreign ConfigMap has the name of its barrier: no step is possible.
    Blocked { by: Arc<str> },
    /// Remove the gate: the first rank can start.
    DropGate,
    /// Write the keys of these ranks: all containers of the higher ranks have passed.
    WriteKeys(Vec<Priority>),
    /// Set the rank annotation, so that the kubelet looks for the key of this rank, which exists.
    Announce(Priority),
    /// Wait until the containers of this rank have passed.
    Wait(Priority),
    /// Nothing: the containers of this rank, the last one, have passed.
    Done(Priority),
}

pub fn decide(facts: Facts<'_>, uid: Uid, now: Timestamp) -> Decision {
    let Facts { cluster, launches } = facts;
    let found = cluster.pod(uid).zip(launches.get(uid));
    let Some((pod, entry)) = found.filter(|(pod, _)| is_alive(pod)) else {
        return Decision { finished: found.is_none(), ..Decision::nothing() };
    };
    let Some(launch) = pod.launch.as_deref() else { return Decision::nothing() };
    let mut decision = Decision::nothing();
    let mut waiting = None;
    let busy = cluster.is_writing_pod(uid) || cluster.in_flight.is_writing(&barrier_target(pod));
    match step(pod, launch, entry) {
        _ if launch.containers.is_empty() => {}
        _ if busy => waiting = entry.waiting,
        LaunchStep::Barrier(to) => decision.actions.push(Action::WriteBarrier(write(pod, to))),
        LaunchStep::Blocked { .. } => {
            let rank = launch.current().unwrap_or_default();
            let mut blocked = entry.waiting.unwrap_or(StuckRank { rank, since: now, nudged: 0 });
            if blocked.since + LOOK_AGAIN <= now {
                blocked.since = now;
                decision.actions.push(Action::WriteBarrier(write(pod, ToBarrier::Look)));
            }
            decision.wake_at = Some(blocked.since + LOOK_AGAIN);
            waiting = Some(blocked);
        }
        LaunchStep::DropGate => {
            let place = pod.gates.iter().position(|gate| **gate == *gates::LAUNCH);
            let gate = DropGate { name: gates::LAUNCH.into(), place };
            decision.actions.push(patch(pod, Some(gate), first_annotations(launch)));
        }
        LaunchStep::WriteKeys(ranks) => {
            let keys = ranks.iter().flat_map(|rank| launch.keys(*rank)).collect();
            let to = ToBarrier::AddKeys { keys, first: entry.has_no_data };
            decision.actions.push(Action::WriteBarrier(write(pod, to)));
        }
        LaunchStep::Announce(rank) => {
            let before = entry.waiting.filter(|waiting| waiting.rank == rank);
            let mut announced = before.unwrap_or(StuckRank { rank, since: now, nudged: 0 });
            // If another client removes the annotation, or the API server rejects it, the write is repeated only after a delay.
            match next_time(&announced).filter(|due| before.is_some() && *due > now) {
                Some(due) => decision.wake_at = Some(due),
                None => {
                    announced.nudged += usize::from(before.is_some());
                    let mut annotations = vec![(RANK, rank.to_string())];
                    annotations
                        .extend((launch.is_last(rank) || planted(Bug::CompletedEarly)).then(completed));
                    decision.actions.push(patch(pod, None, annotations));
                }
            }
            waiting = Some(announced);
        }
        LaunchStep::Wait(rank) | LaunchStep::Done(rank) => {
            waiting = entry.waiting.filter(|waiting| waiting.rank == rank);
            if launch.is_stuck(rank) && !planted(Bug::StuckForgotten) {
                let stuck = waiting.get_or_insert(StuckRank { rank, since: now, nudged: 0 });
                match next_time(stuck) {
                    Some(due) if due <= now => {
                        if stuck.nudged < NUDGES.len() {
                            let nudge = (NUDGE, launch.nudges.wrapping_add(1).to_string());
                            decision.actions.push(patch(pod, None, vec![nudge]));
                        }
                        stuck.nudged += 1;
                        // Another client may have removed the ConfigMap or a key. ConfigMaps are not watched, so read it.
                        decision.actions.push(Action::WriteBarrier(write(pod, ToBarrier::Look)));
                        decision.wake_at = next_time(stuck);
                    }
                    due => decision.wake_at = due,
                }
            }
        }
    }
    let (events, told) = tell(cluster, pod, launch, entry);
    decision.events = events;
    decision.keep = Keep::Launch { waiting, told };
    decision
}

/// Returns when to act again for a rank that makes no progress; `None` if the limit is reached.
fn next_time(waiting: &StuckRank) -> Option<Timestamp> {
    let last = NUDGES.len() - 1;
    let after = match waiting.nudged {
        number if number <= last => NUDGES[number],
        number if number < MOST_LOOKS => NUDGES[last] * (1 << (number - last)),
        _ => return None,
    };
    Some(waiting.since + after)
}

/// Returns the annotations to set when the gate is removed. If the pod was copied, its annotations describe the progress of the
/// original pod, so they are overwritten.
fn first_annotations(launch: &Launch) -> Vec<(&'static str, String)> {
    let Some(first) = launch.current() else { return Vec::new() };
    let last = launch.is_last(first);
    let rank = launch.copied.then(|| (RANK, first.to_string()));
    let done = (launch.copied || last).then(|| (COMPLETED, last.to_string()));
    rank.into_iter().chain(done).collect()
}

/// Returns the next step for a pod that is alive and has containers to order.
pub fn step(pod: &Pod, launch: &Launch, entry: &Entry) -> LaunchStep {
    let Some(current) = launch.current() else { return LaunchStep::Done(0) };
    let gated = is_gated(pod);
    let begun = launch.rank.is_some();
    // If the pod has a rank annotation, its ConfigMap existed when that was written.
    let barrier = match &entry.barrier {
        Barrier::Ours => None,
        Barrier::NotSeen if begun && !gated => None,
        Barrier::NotSeen if gated => Some(create(launch, current)),
        Barrier::NotSeen | Barrier::Lost => Some(ToBarrier::Look),
        Barrier::Absent => Some(create(launch, current)),
        Barrier::OfNamesake(config_map) => Some(ToBarrier::Delete { config_map: *config_map }),
        Barrier::Taken { by } => return LaunchStep::Blocked { by: by.clone() },
    };
    match barrier {
        Some(to) if !(gated && planted(Bug::GateBeforeBarrier)) => return LaunchStep::Barrier(to),
        _ => {}
    }
    let lacking: Vec<Priority> = match entry.barrier {
        Barrier::Ours => launch.ranks().into_iter().filter(|rank| *rank >= current).collect(),
        _ => Vec::new(),
    };
    // Keys of open ranks are missing if another client has removed them, or has created the ConfigMap without them.
    let lacking: Vec<Priority> = lacking.into_iter().filter(|rank| !entry.written.contains(rank)).collect();
    if !lacking.is_empty() && !planted(Bug::AnnouncedBeforeKey) && !planted(Bug::GateBeforeBarrier) {
        return LaunchStep::WriteKeys(lacking);
    }
    if gated {
        return LaunchStep::DropGate;
    }
    // The pod has no gate, so the kubelet may have looked for the first key before it existed.
    let late =
        launch.of_rank(current).any(|(_, container)| container.waits_for_key) || launch.is_last(current);
    if !begun && late {
        return LaunchStep::Announce(current);
    }
    if planted(Bug::AnnouncedBeforeKey) && begun && !entry.written.contains(&current) {
        return LaunchStep::WriteKeys(vec![current]);
    }
    let has_passed = |(place, _): (usize, _)| entry.passed.contains(&place);
    let passed = match planted(Bug::OnePassesForAll) {
        true => launch.of_rank(current).any(has_passed),
        false => launch.of_rank(current).all(has_passed),
    };
    match launch.next_after(current) {
        _ if !passed => LaunchStep::Wait(current),
        Some(next) if entry.written.contains(&next) || planted(Bug::AnnouncedBeforeKey) => {
            LaunchStep::Announce(next)
        }
        Some(next) => LaunchStep::WriteKeys(vec![next]),
        None => LaunchStep::Done(current),
    }
}

fn create(launch: &Launch, current: Priority) -> ToBarrier {
    let open = launch.ranks().into_iter().filter(|rank| *rank >= current || planted(Bug::AllKeysAtOnce));
    ToBarrier::Create { keys: open.flat_map(|rank| launch.keys(rank)).collect() }
}

fn completed() -> (&'static str, String) {
    (COMPLETED, "true".into())
}

/// Identifies the ConfigMap of a pod. The uid is that of the pod, so the ConfigMap of an earlier pod of the same name is a
/// different target.
pub fn barrier_target(pod: &Pod) -> Target {
    let (namespace, name) = (pod.namespace.clone(), barrier_of(pod));
    Target { kind: Kind::Barrier, namespace, name, uid: Some(pod.uid) }
}

fn write(pod: &Pod, to: ToBarrier) -> BarrierWrite {
    BarrierWrite { pod: pod.uid, pod_name: pod.name.clone(), target: barrier_target(pod), to }
}

fn patch(pod: &Pod, drop_gate: Option<DropGate>, annotations: Vec<(&'static str, String)>) -> Action {
    let (uid, namespace, name) = (pod.uid, pod.namespace.clone(), pod.name.clone());
    Action::PatchPod(PodPatch { drop_gate, annotations, ..PodPatch::new(uid, namespace, name) })
}

/// Returns the events that have not been emitted for this pod yet, and their reasons.
fn tell(cluster: &Cluster, pod: &Pod, launch: &Launch, entry: &Entry) -> (Vec<Event>, Vec<&'static str>) {
    let taken = match &entry.barrier {
        Barrier::Taken { by, .. } => Some((
            "BarrierTaken",
            format!(
                "containers cannot start in order: ConfigMap {} belongs to {by}; rename or delete that ConfigMap",
                barrier_of(pod)
            ),
        )),
        _ => None,
    };
    let refused = entry.refusal.as_ref().map(|refusal| {
        let text = format!(
            "containers cannot start in order: writing ConfigMap {} failed: {}",
            barrier_of(pod),
            refusal.message
        );
        ("BarrierRefused", text)
    });
    let unpatched = cluster.in_flight.refusal(pod.uid).map(|refusal| {
        let text = format!("containers cannot start in order: patching the pod failed: {}", refusal.message);
        ("LaunchRefused", text)
    });
    let restart = (launch.asks_restart && !launch.completed).then(|| {
        let text =
            format!("{RESTART_DEPENDENTS} has no effect: only the first start of containers is ordered");
        ("RestartDependentsIgnored", text)
    });
    let news = [taken, refused, unpatched, restart]
        .into_iter()
        .flatten()
        .filter(|(reason, _)| !entry.told.contains(reason));
    let about =
        Subject { kind: Kind::Pod, namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid };
    let event = |(reason, message)| Event { about: about.clone(), kind: EventKind::Warning, reason, message };
    let events: Vec<Event> = news.map(event).collect();
    let told = events.iter().map(|event| event.reason).collect();
    (events, told)
}
