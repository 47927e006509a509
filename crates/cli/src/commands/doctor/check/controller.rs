//! The controller: whether it is installed, ready and leading, and its version.

use super::{Case, number};
use crate::commands::doctor::command_line::mode_name;
use crate::commands::doctor::fetched::{DEPLOYMENT, Fetched};
use crate::commands::doctor::finding::{Check, DoctorFinding};
use crate::commands::install::Mode;
use crate::output::age;
use rollcall_api::names;

pub fn check(case: &Case<'_>) -> Vec<DoctorFinding> {
    let mut findings = vec![deployment(case)];
    findings.extend(lease(case));
    findings.extend(version(case));
    findings.extend(spare(case));
    findings
}

/// Number of replicas in the manifests.
fn usual(mode: Mode) -> i64 {
    match mode {
        Mode::Lite => 1,
        Mode::Full => 2,
    }
}

fn deployment(case: &Case<'_>) -> DoctorFinding {
    let Case { seen, installed, command_line } = case;
    let (name, namespace) = (names::CONTROLLER, &seen.namespace);
    let outside = seen.leader().filter(|leader| leader.alive);
    match (seen.object(DEPLOYMENT), &outside) {
        (Fetched::Forbidden(why), _) => Check::Controller.unknown("the controller's Deployment", why),
        (Fetched::Absent, Some(leader)) => Check::Controller.note(format!(
            "Deployment {name} not found in namespace {namespace}; controller {} runs elsewhere",
            leader.holder
        )),
        (Fetched::Absent, None) => {
            let text = format!("no controller: Deployment {name} not found in namespace {namespace}");
            let mode = if installed.has_admission() { Mode::Full } else { installed.mode };
            Check::Controller.problem(text).fix(command_line.install(installed, mode, None))
        }
        (Fetched::Found(_), Some(leader)) if installed.replicas == 0 => Check::Controller.note(format!(
            "Deployment {name} is scaled to 0 replicas; controller {} runs elsewhere",
            leader.holder
        )),
        (Fetched::Found(_), None) if installed.replicas == 0 => {
            let scale = format!("scale deployment/{name} --replicas={}", usual(installed.mode));
            let text = format!("no controller: Deployment {name} is scaled to 0 replicas");
            Check::Controller.problem(text).fix(command_line.kubectl_here(scale))
        }
        (Fetched::Found(_), _) => ready(case),
    }
}

fn ready(case: &Case<'_>) -> DoctorFinding {
    let Case { seen, installed, command_line } = case;
    let (ready, replicas) = (installed.ready, installed.replicas);
    let mode = mode_name(installed.mode);
    let text = format!("{} mode, {ready} of {} ready", capital(mode), number(replicas as usize, "replica"));
    if ready >= replicas {
        return Check::Controller.ok(text);
    }
    let pods = seen.replicas.value().into_iter().flatten().map(|pod| pod.facts());
    let trouble = pods.filter(|pod| !pod.ready && !pod.terminating).find_map(|pod| {
        let trouble = pod.trouble.as_ref()?;
        Some(format!(": pod {}: {}", pod.name, trouble.what))
    });
    let text = text + &trouble.unwrap_or_default();
    let finding = if ready == 0 { Check::Controller.problem(text) } else { Check::Controller.note(text) };
    finding.fix(
        command_line.kubectl_here(format!("describe pods -l app.kubernetes.io/name={}", names::CONTROLLER)),
    )
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

fn lease(case: &Case<'_>) -> Option<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let restart = || command_line.kubectl_here(format!("rollout restart deployment/{}", names::CONTROLLER));
    let runs = installed.replicas > 0;
    match (&seen.lease, seen.leader()) {
        (Fetched::Forbidden(why), _) => Some(Check::Controller.unknown("leader", why)),
        (_, Some(leader)) if leader.alive => {
            let renewed = age(leader.renewed, seen.now);
            Some(
                Check::Controller.ok(format!("{} is the leader; lease renewed {renewed} ago", leader.holder)),
            )
        }
        (_, Some(leader)) if runs => {
            let renewed = age(leader.renewed, seen.now);
            let text = format!("no leader: {} has not renewed the lease for {renewed}", leader.holder);
            Some(Check::Controller.problem(text).fix(restart()))
        }
        // Replicas that are not ready cannot lead, and are reported already.
        (_, None) if runs && installed.ready > 0 && installed.leader_elect => {
            let ready = number(installed.ready as usize, "replica");
            let text = format!("no leader: {ready} ready, but the lease {} has no holder", names::LEASE);
            Some(Check::Controller.problem(text).fix(restart()))
        }
        (_, Some(_) | None) => None,
    }
}

fn version(case: &Case<'_>) -> Option<DoctorFinding> {
    let ours = env!("CARGO_PKG_VERSION");
    let leader = case.seen.leader().filter(|leader| leader.alive)?;
    let Some(version) = leader.version else {
        return Some(Check::Controller.note(format!(
            "the controller does not report its version, so it is older than rollcall {ours}"
        )));
    };
    let image = case.installed.image.as_deref().unwrap_or_default();
    Some(match version == ours {
        true => Check::Controller.ok(format!("the controller is rollcall {version}, like this program")),
        false => {
            let finding = Check::Controller
                .note(format!("the controller is rollcall {version}, but this program is {ours}"));
            // An image whose tag is the version can be replaced by one with the version of this program.
            match image.strip_suffix(&version).filter(|_| case.seen.newer().is_none()) {
                Some(name) => finding.fix(case.command_line.kubectl_here(format!(
                    "set image deployment/{} controller={name}{ours}",
                    names::CONTROLLER
                ))),
                None => finding,
            }
        }
    })
}

/// Whether a standby exists and survives node drains. Lite mode is intended to have one replica.
fn spare(case: &Case<'_>) -> Option<DoctorFinding> {
    let Case { seen, installed, command_line } = case;
    let name = names::CONTROLLER;
    if installed.mode == Mode::Full && installed.replicas == 1 {
        let text = "1 replica: with 2, the standby takes over within the lease duration";
        return Some(
            Check::Controller
                .note(text)
                .fix(command_line.kubectl_here(format!("scale deployment/{name} --replicas=2"))),
        );
    }
    if installed.replicas < 2 {
        return None;
    }
    let budgets = match &seen.budgets {
        Fetched::Found(budgets) => budgets.len(),
        Fetched::Absent => 0,
        Fetched::Forbidden(why) => return Some(Check::Controller.unknown("PodDisruptionBudget", why)),
    };
    (budgets == 0).then(|| {
        let text = format!(
            "{} replicas but no PodDisruptionBudget: node drains may evict all of them at once",
            installed.replicas
        );
        let selector = format!("--selector=app.kubernetes.io/name={name}");
        Check::Controller.note(text).fix(
            command_line
                .kubectl_here(format!("create poddisruptionbudget {name} {selector} --max-unavailable=1")),
        )
    })
}
