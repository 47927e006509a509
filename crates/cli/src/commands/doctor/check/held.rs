//! Pods held by gates of launch order or reservations that no controller removes.

use super::{Case, number, some};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::Mode;
use crate::output::age;
use jiff::SignedDuration;
use rollcall_api::names;
use rollcall_core::facts::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Minimum age of a held pod to be reported. A feature removes its gate within moments, or a little later after a restart of the
/// controller.
const TAKES: SignedDuration = SignedDuration::from_secs(60);

/// A gate, and the feature that removes it.
pub struct Gate {
    pub name: &'static str,
    /// Completes the sentence "Lite mode does not …".
    pub feature: &'static str,
    /// Whether the gate is removed only when the pod has no other gates.
    pub last: bool,
    /// Why no controller can remove the gate, with the command that repairs it, if a prerequisite of the feature is missing.
    pub missing: Option<(String, String)>,
}

/// Whether a controller leads. If the caller may not read the lease, assumes that one does.
fn somebody_leads(case: &Case<'_>) -> bool {
    let Case { seen, installed, .. } = case;
    let alone = installed.ready > 0 && !installed.leader_elect;
    let unseen = seen.lease.forbidden().is_some();
    unseen || alone || seen.leader().is_some_and(|leader| leader.alive)
}

/// Findings about pods that the gate holds, one per namespace. Another check reports it if pods cannot be listed.
pub fn held_by(case: &Case<'_>, gate: &Gate) -> Vec<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let lite = installed.is_lite();
    let nobody = lite || gate.missing.is_some() || !somebody_leads(case);
    let mut held: BTreeMap<Arc<str>, Vec<Pod>> = BTreeMap::new();
    for pod in seen.unbound.value().into_iter().flatten().map(|pod| pod.facts()) {
        let long = seen.now.duration_since(pod.created) > TAKES && (!gate.last || pod.gates.len() == 1);
        if !pod.terminating && pod.gates.iter().any(|carried| **carried == *gate.name) && (nobody || long) {
            held.entry(pod.namespace.clone()).or_default().push(pod);
        }
    }
    let one = |(namespace, pods): (&Arc<str>, &Vec<Pod>)| {
        let names: Vec<String> = pods.iter().map(|pod| pod.name.to_string()).collect();
        let oldest = pods.iter().map(|pod| pod.created).min().unwrap_or(seen.now);
        let (why, fix) = if lite {
            let full = command_line.install(installed, Mode::Full, None);
            (format!("Lite mode does not {}", gate.feature), full)
        } else if let Some(missing) = &gate.missing {
            missing.clone()
        } else if nobody {
            let pods = format!("get pods -l app.kubernetes.io/name={}", names::CONTROLLER);
            ("no controller leads".to_owned(), command_line.kubectl_here(pods))
        } else {
            let explain = command_line.rollcall(format!("explain pod/{} -n {namespace}", names[0]));
            ("the controller has not removed the gate".to_owned(), explain)
        };
        let text = format!(
            "{} held by {} in namespace {namespace} for up to {}; {why}: {}",
            number(pods.len(), "pod"),
            gate.name,
            age(oldest, seen.now),
            some(&names)
        );
        Check::Leftovers.problem(text).fix(fix)
    };
    held.iter().map(one).collect()
}
