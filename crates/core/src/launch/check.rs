//! The auditor of launch order: checks that a decision for a pod preserves the start order of its containers. To be independent
//! of the decision, it does not use `step`, but checks the containers one by one.

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
        return vec![violation("S7", format!("a write for the unknown pod {uid}"))];
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
            Some(("S6", "launch order may write only to pods and their ConfigMaps".to_owned()))
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
        return Some(("S7", "a patch of another pod, or of a terminating pod".into()));
    }
    if !avoid.is_empty() || !tolerate.is_empty() {
        return Some(("S2", "launch order must not change node constraints".into()));
    }
    match drop_gate {
        Some(gate) if *gate.name != *gates::LAUNCH => {
            return Some(("S2", format!("the gate {} is foreign", gate.name)));
        }
        Some(_) if entry.barrier != Barrier::Ours => {
            return Some(("S5", "the gate is removed before the ConfigMap exists".into()));
        }
        Some(_) | None => {}
    }
    annotations.iter().find_map(|(key, value)| match *key {
        RANK => {
            let rank: Option<Priority> = value.parse().ok();
            let open = rank.is_some_and(|rank| may_open(launch, entry, rank));
            (!open).then(|| ("S5", format!("rank {value} is announced before all higher ranks have passed")))
        }
        COMPLETED | NUDGE => None,
        other => Some(("S2", format!("the annotation {other} is foreign"))),
    })
}

fn audit_barrier(
    write: &BarrierWrite,
    pod: &Pod,
    launch: &Launch,
    entry: &Entry,
) -> Option<(&'static str, String)> {
    if write.pod != pod.uid || write.target != barrier_target(pod) || pod.terminating {
        return Some(("S7", "a write to the ConfigMap of another pod, or of a terminating pod".into()));
    }
    let keys: Vec<&String> = match &write.to {
        ToBarrier::Create { keys } | ToBarrier::AddKeys { keys, .. } => keys.iter().collect(),
        ToBarrier::Delete { config_map } if entry.barrier != Barrier::OfNamesake(*config_map) => {
            return Some(("S7", "a foreign ConfigMap is deleted".into()));
        }
        ToBarrier::Delete { .. } | ToBarrier::Look => Vec::new(),
    };
    keys.into_iter().find_map(|key| {
        let rank =
            launch.containers.iter().find(|container| container.spelling.key(container.priority) == *key);
        let open = rank.is_some_and(|container| may_open(launch, entry, container.priority));
        (!open).then(|| ("S5", format!("the key {key} is written before all higher ranks have passed")))
    })
}

/// Whether a rank may be open: all containers of higher ranks must have passed. A container also counts as passed if the pod's
/// annotation names a lower rank than that of the container.
fn may_open(launch: &Launch, entry: &Entry, rank: Priority) -> bool {
    launch.containers.iter().enumerate().all(|(place, container)| {
        container.priority <= rank
            || entry.passed.contains(&place)
            || launch.rank.is_some_and(|opened| opened < container.priority)
    })
}
