//! The auditor: whether what was decided for a pod keeps the order of its containers. It does not use `step`: it goes through the
//! containers one by one.

use super::decide::{COMPLETED, Facts, NUDGE, RANK, barrier_target};
use super::facts::Launch;
use super::index::{Barrier, Entry};
use super::ranks::Priority;
use crate::{
    Uid,
    decision::{Action, BarrierWrite, Decision, PodPatch, ToBarrier, Violation},
    facts::Pod,
    gates,
};

pub fn check(facts: Facts<'_>, uid: Uid, decision: &Decision) -> Vec<Violation> {
    let violation = |invariant, detail: String| Violation { invariant, detail };
    if decision.actions.is_empty() {
        return Vec::new();
    }
    let found = facts.cluster.pod(uid).zip(facts.launches.get(uid));
    let launch = found.and_then(|(pod, entry)| Some((pod, pod.launch.as_deref()?, entry)));
    let Some((pod, launch, entry)) = launch else {
        return vec![violation("S7", format!("a write for pod {uid}, of which nothing is known"))];
    };
    let problems = decision.actions.iter().filter_map(|action| match action {
        Action::PatchPod(patch) => audit_patch(patch, pod, launch, entry),
        Action::WriteBarrier(write) => audit_barrier(write, pod, launch, entry),
        Action::PatchNode(_)
        | Action::WriteNote { .. }
        | Action::DropNote { .. }
        | Action::Create(_)
        | Action::Delete(_)
        | Action::WriteTicket(_)
        | Action::Nominate(_) => {
            Some(("S6", "the order of containers writes to pods and their ConfigMaps alone".to_owned()))
        }
    });
    problems.map(|(invariant, detail)| violation(invariant, format!("{}: {detail}", pod.name))).collect()
}

fn audit_patch(
    patch: &PodPatch,
    pod: &Pod,
    launch: &Launch,
    entry: &Entry,
) -> Option<(&'static str, String)> {
    let PodPatch { uid, drop_gate, annotations, avoid, tolerate, .. } = patch;
    if *uid != pod.uid || pod.terminating {
        return Some(("S7", "a patch of another pod, or of one that ends".into()));
    }
    if !avoid.is_empty() || !tolerate.is_empty() {
        return Some(("S2", "nodes are none of its business".into()));
    }
    match drop_gate {
        Some(gate) if *gate.name != *gates::LAUNCH => {
            return Some(("S2", format!("the gate {} is not ours", gate.name)));
        }
        Some(_) if entry.barrier != Barrier::Ours => {
            return Some(("S5", "the gate goes before the ConfigMap is there".into()));
        }
        Some(_) | None => {}
    }
    annotations.iter().find_map(|(key, value)| match *key {
        RANK => {
            let rank: Option<Priority> = value.parse().ok();
            let open = rank.is_some_and(|rank| may_open(launch, entry, rank));
            (!open).then(|| ("S5", format!("rank {value} is announced and may not be open")))
        }
        COMPLETED | NUDGE => None,
        other => Some(("S2", format!("the annotation {other} is not ours"))),
    })
}

fn audit_barrier(
    write: &BarrierWrite,
    pod: &Pod,
    launch: &Launch,
    entry: &Entry,
) -> Option<(&'static str, String)> {
    if write.pod != pod.uid || write.target != barrier_target(pod) || pod.terminating {
        return Some(("S7", "a ConfigMap of another pod, or of one that ends".into()));
    }
    let keys: Vec<&String> = match &write.to {
        ToBarrier::Create { keys } | ToBarrier::AddKeys { keys, .. } => keys.iter().collect(),
        ToBarrier::Delete { config_map } if entry.barrier != Barrier::OfNamesake(*config_map) => {
            return Some(("S7", "the ConfigMap of somebody else is deleted".into()));
        }
        ToBarrier::Delete { .. } | ToBarrier::Look => Vec::new(),
    };
    keys.into_iter().find_map(|key| {
        let rank =
            launch.containers.iter().find(|container| container.spelling.key(container.priority) == *key);
        let open = rank.is_some_and(|container| may_open(launch, entry, container.priority));
        (!open).then(|| ("S5", format!("the key {key} is written before the ranks above have passed")))
    })
}

/// Whether every container of the ranks above has passed, here or before the pod said that a lower rank is open.
fn may_open(launch: &Launch, entry: &Entry, rank: Priority) -> bool {
    launch.containers.iter().enumerate().all(|(place, container)| {
        container.priority <= rank
            || entry.passed.contains(&place)
            || launch.rank.is_some_and(|opened| opened < container.priority)
    })
}
