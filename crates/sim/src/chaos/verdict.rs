//! What is wrong with a run as a whole, beside the run of its world without faults.

use super::fault::Fault;
use super::history::Violation;
use super::plan::Plan;
use super::run::Outcome;

/// After which faults one hears nothing, or late.
const DEAF: [Fault; 3] = [Fault::Hang, Fault::Silence, Fault::Behind];
/// How often a status is written at most that nothing makes urgent.
const REPORT_MILLIS: u64 = 10_000;
/// How often a status is tried again in the ten minutes until a dead watch is missed.
const TRIES: u64 = 26;
/// While which faults last whatever is sent is refused, and tried again.
const OUTAGES: [Fault; 4] = [Fault::ServerRestart, Fault::KindAbsent, Fault::Quota, Fault::Unseen];
/// What makes a sequence that goes by nodes write on all of them.
const EVERYWHERE: [Fault; 2] = [Fault::Edited, Fault::SequenceRecreated];
/// As many nodes as there are in the end.
const NODES: u64 = 3;
/// How often each sequence tries during one of the outages, and once more as often what it writes on nodes.
const TRIES_WHILE_OUT: u64 = 10;

/// What a run without faults ends with and sends; every other run of the same world has to end with the same, and to send
/// not much more.
pub fn compare(plan: &Plan, outcome: &Outcome, calm: &Outcome) -> Vec<Violation> {
    let mut violations = outcome.violations.clone();
    if violations.is_empty() && outcome.picture != calm.picture {
        let differing = outcome.picture.iter().zip(&calm.picture).find(|(is, was)| is != was);
        let detail = match differing {
            Some((is, was)) => format!("{is} instead of {was}"),
            None => format!("{} objects instead of {}", outcome.picture.len(), calm.picture.len()),
        };
        violations.push(Violation { invariant: "L2", detail });
    }
    if !contradict(plan) {
        violations.extend(too_many(plan, outcome, calm));
    }
    violations
}

/// How much may be written: what is written without faults, and for each thing that happened (a fault that struck, a start of a
/// process, a write of somebody else) two that are carried out, three that are sent. Two that both lead both write, and each
/// write of the one can make one of the other fail. Who hears nothing of the sequences, or is refused everything, tries again,
/// less and less. A sequence that goes by nodes writes on each of them once more where what comes first is another thing than
/// without faults, and twice when it is changed as a whole. What takes longer is reported more often: a status in ten seconds
/// for each sequence.
fn too_many(plan: &Plan, outcome: &Outcome, calm: &Outcome) -> Option<Violation> {
    let leaders = if plan.has(Fault::TwoLeaders) { 3 } else { 1 };
    let count =
        |among: &[Fault]| plan.faults.iter().filter(|plan| among.contains(&plan.fault)).count() as u64;
    let sequences = plan.world().rules.len() as u64;
    let by_nodes = plan.world().rules.iter().filter(|rule| rule.guard.is_some()).count() as u64;
    let out = count(&OUTAGES) * TRIES_WHILE_OUT;
    let tries = (count(&DEAF) * TRIES + out) * sequences + out * by_nodes;
    let marks = match by_nodes {
        0 => 0,
        rules => NODES * (rules + 2 * count(&EVERYWHERE)),
    };
    let reports = outcome.took.saturating_sub(calm.took).div_ceil(REPORT_MILLIS) * sequences;
    let over = |what: &str, number: u64, allowed: u64| {
        let detail = format!("{number} writes were {what}, and {allowed} would do");
        (number > allowed).then_some(Violation { invariant: "L3", detail })
    };
    over("carried out", outcome.written, leaders * calm.written + 2 * outcome.disturbances + reports + marks)
        .or_else(|| {
            over(
                "sent",
                outcome.requests,
                leaders * calm.requests + 3 * outcome.disturbances + reports + tries + marks,
            )
        })
}

/// Two that both lead and see different things write each other's reports over, for as long as that lasts.
fn contradict(plan: &Plan) -> bool {
    plan.has(Fault::TwoLeaders) && DEAF.iter().any(|fault| plan.has(*fault))
}
