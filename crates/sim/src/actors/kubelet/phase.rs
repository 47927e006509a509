//! Computes the phase of a pod from the states of its containers, as the kubelet does.

use super::life::{Life, Role, Unit, UnitState};
use serde_json::Value;

#[derive(Default)]
struct Count {
    running: usize,
    waiting: usize,
    stopped: usize,
    succeeded: usize,
}

pub fn phase(life: &Life, pod: &Value) -> &'static str {
    let mut pending_init = false;
    let mut count = Count::default();
    for unit in &life.units {
        match unit.role {
            Role::Init => match ended_with(unit) {
                Some(0) => {}
                Some(code) if life.over && !unit.restarts_after(code, pod) => return "Failed",
                Some(_) if unit.is_running() => pending_init = true,
                Some(_) => {}
                None => pending_init = true,
            },
            Role::Sidecar => match &unit.state {
                UnitState::Running { .. } => {
                    pending_init |= !unit.started && !life.initialized;
                    count.running += 1;
                }
                UnitState::Ended(_) => {}
                _ if unit.last.is_some() => {}
                _ => {
                    pending_init |= !life.initialized;
                    count.waiting += 1;
                }
            },
            Role::Main => match ended_with(unit) {
                _ if unit.is_running() => count.running += 1,
                Some(code) => {
                    count.stopped += 1;
                    count.succeeded += usize::from(code == 0);
                }
                None => count.waiting += 1,
            },
        }
    }
    if life.over && life.verdict.is_some() {
        return "Failed";
    }
    let all_succeeded = count.stopped == count.succeeded;
    if pending_init || count.waiting > 0 {
        // A pod that ended before it started has failed.
        if life.over { "Failed" } else { "Pending" }
    } else if count.running > 0 {
        "Running"
    } else if count.stopped > 0 {
        // The final phase is reported only after the pod has been cleaned up.
        match (life.over, all_succeeded) {
            (true, true) => "Succeeded",
            (true, false) => "Failed",
            (false, _) => "Running",
        }
    } else {
        "Pending"
    }
}

/// The exit code of the latest run of a container that is not running.
fn ended_with(unit: &Unit) -> Option<i32> {
    match &unit.state {
        UnitState::Ended(end) => Some(end.code),
        UnitState::Running { .. } => None,
        UnitState::Waiting
        | UnitState::Creating { .. }
        | UnitState::Refused { .. }
        | UnitState::Paused { .. } => unit.last.as_ref().map(|end| end.code),
    }
}
