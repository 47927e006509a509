//! What to do for one pod. Its order rests on one rule: the key of a rank is written only when all containers of the ranks above have
//! passed; everything else only makes that happen soon.

use super::facts::{Launch, is_alive, is_gated};
use super::index::{Barrier, Entry, Launches, Waiting, barrier_of};
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

/// The kubelet starts a container within a second when it is told to look. If it has not, it is told again after these times, and
/// then left to its own ten seconds.
const NUDGES: [SignedDuration; 3] =
    [SignedDuration::from_secs(2), SignedDuration::from_secs(10), SignedDuration::from_secs(30)];
/// We do not watch ConfigMaps. After the last time the one of a pod that does not move is looked at, less and less often, so many times
/// in all.
const MOST_LOOKS: usize = 10;
/// One that is in the way is looked at again.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The annotations of ours on a pod.
pub const RANK: &str = "podsequence.example.com/launch-rank";
pub const NUDGE: &str = "podsequence.example.com/launch-nudge";
pub const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";
pub const RESTART_DEPENDENTS: &str = "podsequence.example.com/restart-dependents";

/// What decisions about pods rest on.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub cluster: &'a Cluster,
    pub launches: &'a Launches,
}

/// What is next for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something has to happen to its ConfigMap first.
    Barrier(ToBarrier),
    /// Its ConfigMap is somebody else's: nothing can be done.
    Blocked { by: Arc<str> },
    /// The first rank can start.
    DropGate,
    /// All containers of the ranks above these have passed.
    WriteKeys(Vec<Priority>),
    /// The key is there; the kubelet is to look.
    Announce(Priority),
    /// The containers of this rank have not passed.
    Wait(Priority),
    /// They have, and it is the last one.
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
        Step::Barrier(to) => decision.actions.push(Action::WriteBarrier(write(pod, to))),
        Step::Blocked { .. } => {
            let rank = launch.current().unwrap_or_default();
            let mut blocked = entry.waiting.unwrap_or(Waiting { rank, since: now, nudged: 0 });
            if blocked.since + LOOK_AGAIN <= now {
                blocked.since = now;
                decision.actions.push(Action::WriteBarrier(write(pod, ToBarrier::Look)));
            }
            decision.wake_at = Some(blocked.since + LOOK_AGAIN);
            waiting = Some(blocked);
        }
        Step::DropGate => {
            let place = pod.gates.iter().position(|gate| **gate == *gates::LAUNCH);
            let gate = DropGate { name: gates::LAUNCH.into(), place };
            decision.actions.push(patch(pod, Some(gate), first_annotations(launch)));
        }
        Step::WriteKeys(ranks) => {
            let keys = ranks.iter().flat_map(|rank| launch.keys(*rank)).collect();
            let to = ToBarrier::AddKeys { keys, first: entry.has_no_data };
            decision.actions.push(Action::WriteBarrier(write(pod, to)));
        }
        Step::Announce(rank) => {
            let before = entry.waiting.filter(|waiting| waiting.rank == rank);
            let mut announced = before.unwrap_or(Waiting { rank, since: now, nudged: 0 });
            // Somebody takes the annotation away, or the API server does not want it: not as fast as it can say so.
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
        Step::Wait(rank) | Step::Done(rank) => {
            waiting = entry.waiting.filter(|waiting| waiting.rank == rank);
            if launch.is_stuck(rank) && !planted(Bug::StuckForgotten) {
                let stuck = waiting.get_or_insert(Waiting { rank, since: now, nudged: 0 });
                match next_time(stuck) {
                    Some(due) if due <= now => {
                        if stuck.nudged < NUDGES.len() {
                            let nudge = (NUDGE, launch.nudges.wrapping_add(1).to_string());
                            decision.actions.push(patch(pod, None, vec![nudge]));
                        }
                        stuck.nudged += 1;
                        // Somebody may have taken the ConfigMap or a key away, which nobody tells us.
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

/// When something is to be done again for a rank that does not move.
fn next_time(waiting: &Waiting) -> Option<Timestamp> {
    let last = NUDGES.len() - 1;
    let after = match waiting.nudged {
        number if number <= last => NUDGES[number],
        number if number < MOST_LOOKS => NUDGES[last] * (1 << (number - last)),
        _ => return None,
    };
    Some(waiting.since + after)
}

/// What the patch says that lets a pod go. A pod that was copied with its annotations says how far another one was.
fn first_annotations(launch: &Launch) -> Vec<(&'static str, String)> {
    let Some(first) = launch.current() else { return Vec::new() };
    let last = launch.is_last(first);
    let rank = launch.copied.then(|| (RANK, first.to_string()));
    let done = (launch.copied || last).then(|| (COMPLETED, last.to_string()));
    rank.into_iter().chain(done).collect()
}

/// What is next for a pod that is alive and has containers to order.
pub fn step(pod: &Pod, launch: &Launch, entry: &Entry) -> Step {
    let Some(current) = launch.current() else { return Step::Done(0) };
    let gated = is_gated(pod);
    let begun = launch.rank.is_some();
    // A pod that says how far it is had its ConfigMap then.
    let barrier = match &entry.barrier {
        Barrier::Ours => None,
        Barrier::NotSeen if begun && !gated => None,
        Barrier::NotSeen if gated => Some(create(launch, current)),
        Barrier::NotSeen | Barrier::Lost => Some(ToBarrier::Look),
        Barrier::Absent => Some(create(launch, current)),
        Barrier::OfNamesake(config_map) => Some(ToBarrier::Delete { config_map: *config_map }),
        Barrier::Taken { by } => return Step::Blocked { by: by.clone() },
    };
    match barrier {
        Some(to) if !(gated && planted(Bug::GateBeforeBarrier)) => return Step::Barrier(to),
        _ => {}
    }
    let lacking: Vec<Priority> = match entry.barrier {
        Barrier::Ours => launch.ranks().into_iter().filter(|rank| *rank >= current).collect(),
        _ => Vec::new(),
    };
    // Somebody has taken them away, or has made the ConfigMap without them.
    let lacking: Vec<Priority> = lacking.into_iter().filter(|rank| !entry.written.contains(rank)).collect();
    if !lacking.is_empty() && !planted(Bug::AnnouncedBeforeKey) && !planted(Bug::GateBeforeBarrier) {
        return Step::WriteKeys(lacking);
    }
    if gated {
        return Step::DropGate;
    }
    // It has no gate, so its containers may have looked for the first key before it was there.
    let late =
        launch.of_rank(current).any(|(_, container)| container.waits_for_key) || launch.is_last(current);
    if !begun && late {
        return Step::Announce(current);
    }
    if planted(Bug::AnnouncedBeforeKey) && begun && !entry.written.contains(&current) {
        return Step::WriteKeys(vec![current]);
    }
    let has_passed = |(place, _): (usize, _)| entry.passed.contains(&place);
    let passed = match planted(Bug::OnePassesForAll) {
        true => launch.of_rank(current).any(has_passed),
        false => launch.of_rank(current).all(has_passed),
    };
    match launch.next_after(current) {
        _ if !passed => Step::Wait(current),
        Some(next) if entry.written.contains(&next) || planted(Bug::AnnouncedBeforeKey) => {
            Step::Announce(next)
        }
        Some(next) => Step::WriteKeys(vec![next]),
        None => Step::Done(current),
    }
}

fn create(launch: &Launch, current: Priority) -> ToBarrier {
    let open = launch.ranks().into_iter().filter(|rank| *rank >= current || planted(Bug::AllKeysAtOnce));
    ToBarrier::Create { keys: open.flat_map(|rank| launch.keys(rank)).collect() }
}

fn completed() -> (&'static str, String) {
    (COMPLETED, "true".into())
}

/// The ConfigMap of a pod, known by the uid of the pod: that of a namesake before is another one.
pub fn barrier_target(pod: &Pod) -> Target {
    let (namespace, name) = (pod.namespace.clone(), barrier_of(pod));
    Target { kind: Kind::Barrier, namespace, name, uid: Some(pod.uid) }
}

fn write(pod: &Pod, to: ToBarrier) -> BarrierWrite {
    BarrierWrite { pod: pod.uid, pod_name: pod.name.clone(), target: barrier_target(pod), to }
}

fn patch(pod: &Pod, drop_gate: Option<DropGate>, annotations: Vec<(&'static str, String)>) -> Action {
    let (uid, namespace, name) = (pod.uid, pod.namespace.clone(), pod.name.clone());
    Action::PatchPod(PodPatch { drop_gate, annotations, ..PodPatch::of(uid, namespace, name) })
}

/// What people have to be told, once.
fn tell(cluster: &Cluster, pod: &Pod, launch: &Launch, entry: &Entry) -> (Vec<Event>, Vec<&'static str>) {
    let taken = match &entry.barrier {
        Barrier::Taken { by, .. } => Some((
            "BarrierTaken",
            format!(
                "its containers cannot start in order: the ConfigMap {} belongs to {by}; rename or delete it",
                barrier_of(pod)
            ),
        )),
        _ => None,
    };
    let refused = entry.refusal.as_ref().map(|refusal| {
        let text = format!(
            "its containers cannot start in order: the ConfigMap {} cannot be written: {}",
            barrier_of(pod),
            refusal.message
        );
        ("BarrierRefused", text)
    });
    let unpatched = cluster.in_flight.refusal(pod.uid).map(|refusal| {
        let text =
            format!("its containers cannot start in order: the pod cannot be patched: {}", refusal.message);
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
