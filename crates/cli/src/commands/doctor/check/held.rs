//! Pods behind gates of features other than sequences, which nobody takes away.

use super::{Case, number, some};
use crate::commands::doctor::finding::{Check, Finding};
use crate::commands::install::Mode;
use crate::output::age;
use jiff::SignedDuration;
use rollcall_api::names;
use rollcall_core::facts::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A feature takes its gate away within moments, and some more after a restart of the controller.
const TAKES: SignedDuration = SignedDuration::from_secs(60);

/// A gate, and who takes it away.
pub struct Gate {
    pub name: &'static str,
    /// What Lite mode does not do: `Lite mode does not …`.
    pub feature: &'static str,
    /// It goes only when it is the last one.
    pub last: bool,
    /// Why nobody can take it away, and what repairs that: something that the feature needs is not there.
    pub missing: Option<(String, String)>,
}

/// Who may not see it is not told that it is not so.
fn somebody_leads(case: &Case<'_>) -> bool {
    let Case { seen, installed, .. } = case;
    let alone = installed.ready > 0 && !installed.leader_elect;
    let unseen = seen.lease.forbidden().is_some();
    unseen || alone || seen.leader().is_some_and(|leader| leader.alive)
}

/// The pods that are held by it, by namespace. That pods cannot be listed is said elsewhere.
pub fn held_by(case: &Case<'_>, gate: &Gate) -> Vec<Finding> {
    let Case { seen, installed, command_line } = case;
    let lite = installed.is_lite();
    let nobody = lite || gate.missing.is_some() || !somebody_leads(case);
    let mut held: BTreeMap<Arc<str>, Vec<Pod>> = BTreeMap::new();
    for pod in seen.unbound.found().into_iter().flatten().map(|pod| pod.facts()) {
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
            ("there is no controller that leads".to_owned(), command_line.kubectl_here(pods))
        } else {
            let explain = command_line.rollcall(format!("explain pod/{} -n {namespace}", names[0]));
            ("the controller has not taken it away".to_owned(), explain)
        };
        let text = format!(
            "{} held by {} in namespace {namespace}, for up to {}, and {why}: {}",
            number(pods.len(), "pod"),
            gate.name,
            age(oldest, seen.now),
            some(&names)
        );
        Check::Leftovers.problem(text).fix(fix)
    };
    held.iter().map(one).collect()
}
