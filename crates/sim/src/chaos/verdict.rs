//! Judges a run as a whole by comparing it with a run of the same world without faults (the calm run).

use super::fault::Fault;
use super::history::Violation;
use super::launch_order::OrderedPod;
use super::plan::FaultPlan;
use super::run::RunOutcome;

/// Faults that delay or suppress the controller's watch events.
const NEWS_LOST: [Fault; 3] = [Fault::Hang, Fault::Silence, Fault::Behind];
/// Shortest interval between two status writes that are not urgent.
const REPORT_MILLIS: u64 = 10_000;
/// Number of retries of a status write in the ten minutes until a dead watch is detected.
const TRIES_WITHOUT_NEWS: u64 = 26;
/// Faults during which the server rejects writes and the controller retries.
const OUTAGES: [Fault; 4] = [Fault::ServerRestart, Fault::KindAbsent, Fault::Quota, Fault::Unseen];
/// Faults after which a sequence in Node scope writes to all nodes.
const ALL_NODES_WRITTEN: [Fault; 2] = [Fault::Edited, Fault::SequenceRecreated];
/// Faults after which nodes become complete one after the other instead of together.
const ROLLED: [Fault; 1] = [Fault::AgentsRolled];
/// Number of nodes at the end of a run.
const NODES: u64 = 3;
/// How often one process may nudge a kubelet to sync the containers of one rank again.
const NUDGES: u64 = 3;
/// Limit of writes per disturbance in worlds with reservations. The loss and return of a node affects tickets and guardians
/// of two Orders, and the pods that had claimed those tickets claim others.
const ROOM_WRITES: u64 = 16;
/// Limit of the difference in writes between two calm runs with reservations. The seed determines the names, and the names
/// determine which pods get tickets first.
const ROOM_LUCK: u64 = 20;
/// Number of tickets and claiming pods. Each retries while the server rejects writes.
const ROOMS: u64 = 12;
/// Number of retries of each sequence during one outage. In Node scope, the nodes are retried as often again.
const TRIES_WHILE_OUT: u64 = 10;

/// Returns the violations of a run. Also checks that it ends like the calm run and does not write much more.
pub fn compare(plan: &FaultPlan, outcome: &RunOutcome, calm: &RunOutcome) -> Vec<Violation> {
    let mut violations = outcome.violations.clone();
    if violations.is_empty() && outcome.end_state != calm.end_state {
        let differing = outcome.end_state.iter().zip(&calm.end_state).find(|(is, was)| is != was);
        let detail = match differing {
            Some((is, was)) => format!("found {is}, expected {was}"),
            None => format!("found {} objects, expected {}", outcome.end_state.len(), calm.end_state.len()),
        };
        violations.push(Violation { invariant: "L2", detail });
    }
    violations.extend(too_many_nudges(plan, outcome));
    if !leaders_contradict(plan) {
        violations.extend(too_many_writes(plan, outcome, calm));
    }
    violations
}

/// Whether the run wrote more than these bounds allow:
///
/// ```text
/// carried out ≤ leaders × calm.written  + each × disturbances + reports + marks + launch + luck
/// sent        ≤ leaders × calm.requests + (each + 1) × disturbances + reports + marks + launch + luck + tries
///
/// leaders = 3 with two leaders: both write, and a write of one can make a write of the other fail; otherwise 1
/// each    = ROOM_WRITES with reservations; otherwise 2
/// reports = sequences × ⌈(took − calm.took) / REPORT_MILLIS⌉
/// launch  = leaders × (2 × ranks + 1) for each pod with ranks beyond those of the calm run, and all nudges
/// marks   = NODES × (by_nodes + (2 + faults of ROLLED) × faults of ALL_NODES_WRITTEN), or 0 if by_nodes is 0
/// tries   = (sequences + pods with ranks + rooms) × (news_lost + out) + by_nodes × out
/// news_lost = TRIES_WITHOUT_NEWS × faults of NEWS_LOST
/// out       = TRIES_WHILE_OUT × faults of OUTAGES
/// by_nodes  = sequences in Node scope
/// luck      = ROOM_LUCK with reservations; otherwise 0
/// rooms     = ROOMS with reservations; otherwise 0
/// ```
///
/// A disturbance is a fault that struck, a restart of a process, or a foreign write.
fn too_many_writes(plan: &FaultPlan, outcome: &RunOutcome, calm: &RunOutcome) -> Option<Violation> {
    let leaders = if plan.has(Fault::TwoLeaders) { 3 } else { 1 };
    let count =
        |among: &[Fault]| plan.faults.iter().filter(|plan| among.contains(&plan.fault)).count() as u64;
    let each = if plan.world().reservation { ROOM_WRITES } else { 2 };
    let sequences = plan.world().rules.len() as u64;
    let by_nodes = plan.world().rules.iter().filter(|rule| rule.guard.is_some()).count() as u64;
    let out = count(&OUTAGES) * TRIES_WHILE_OUT;
    let news_lost = count(&NEWS_LOST) * TRIES_WITHOUT_NEWS;
    let (rooms, luck) = if plan.world().reservation { (ROOMS, ROOM_LUCK) } else { (0, 0) };
    let tries = (news_lost + out) * (sequences + outcome.ordered.len() as u64 + rooms) + out * by_nodes;
    let nudges: u64 = outcome.ordered.iter().map(|pod| pod.nudged).sum();
    let launch = leaders * most_written(outcome).saturating_sub(most_written(calm)) + nudges;
    let marks = match by_nodes {
        0 => 0,
        rules => NODES * (rules + (2 + count(&ROLLED)) * count(&ALL_NODES_WRITTEN)),
    };
    let reports = outcome.took.saturating_sub(calm.took).div_ceil(REPORT_MILLIS) * sequences;
    let over = |what: &str, number: u64, allowed: u64| {
        let detail = format!("{number} writes were {what}, at most {allowed} are allowed");
        (number > allowed).then_some(Violation { invariant: "L3", detail })
    };
    over(
        "carried out",
        outcome.written,
        leaders * calm.written + each * outcome.disturbances + reports + marks + launch + luck,
    )
    .or_else(|| {
        over(
            "sent",
            outcome.requests,
            leaders * calm.requests
                + (each + 1) * outcome.disturbances
                + reports
                + tries
                + marks
                + launch
                + luck,
        )
    })
}

/// Limit of the writes for the launch order of all pods.
fn most_written(outcome: &RunOutcome) -> u64 {
    outcome.ordered.iter().map(OrderedPod::most_written).sum()
}

/// Reports a pod whose kubelet was nudged too often.
fn too_many_nudges(plan: &FaultPlan, outcome: &RunOutcome) -> Option<Violation> {
    let processes = outcome.starts.max(1) * if plan.has(Fault::TwoLeaders) { 2 } else { 1 };
    let allowed = |pod: &OrderedPod| NUDGES * pod.ranks * processes;
    let pod = outcome.ordered.iter().find(|pod| pod.nudged > allowed(pod))?;
    let detail = format!("{} nudges of pod {}, at most {} are allowed", pod.nudged, pod.name, allowed(pod));
    Some(Violation { invariant: "L3", detail })
}

/// Whether two leaders have different views. They then overwrite each other's status writes for as long as this lasts.
fn leaders_contradict(plan: &FaultPlan) -> bool {
    plan.has(Fault::TwoLeaders) && NEWS_LOST.iter().any(|fault| plan.has(*fault))
}
