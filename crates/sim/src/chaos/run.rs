//! A single run. The same seed and plan give the same history, byte for byte.

use super::fault::{Counts, Fault};
use super::hand_over_order::LiftedGuarantees;
use super::history::Violation;
use super::lab::Lab;
use super::launch_order::OrderedPod;
use super::mischief::Mischief;
use super::plan::FaultPlan;
use super::process::Handle;
use super::world::{self, When};
use crate::chance::Chance;
use jiff::Timestamp;
use rollcall_controller::metrics::ByInvariant;
use rollcall_controller::shared::Shared as Controller;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The run must reach its end state this long after the last fault.
const CONVERGES_WITHIN: Duration = Duration::from_secs(60);
/// Upper bound of the duration of one fault: a silent watch (two minutes), a pause, or an expiring lease.
const LONGEST_FAULT: Duration = Duration::from_secs(180);
/// A permanently dead watch is detected after ten minutes.
const DEAD_WATCH_NOTICED: Duration = Duration::from_secs(640);
/// Time without writes that must follow the end state.
const QUIET_PERIOD: Duration = Duration::from_secs(30);
/// Time until a silent watch is detected.
const SILENT_WATCH_NOTICED: Duration = Duration::from_secs(120);
/// Interval of the checks of the cluster's state.
const POLL: Duration = Duration::from_secs(1);
/// Faults that may delay news of pods much more than news of nodes.
const POD_NEWS_LATE: [Fault; 5] =
    [Fault::Hang, Fault::Silence, Fault::Behind, Fault::Unseen, Fault::ServerRestart];
/// The invariants that the controller checks itself before each write.
const AUDITED: [&str; 8] = ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S9"];

#[derive(Clone, Debug)]
pub struct RunOutcome {
    pub violations: Vec<Violation>,
    pub hash: u64,
    /// Number of all commits, by any author.
    pub commits: u64,
    pub counts: Counts,
    /// Number of write requests of the controllers, including lease writes.
    pub writes: u64,
    /// Number of write requests of the controllers, without lease writes.
    pub requests: u64,
    /// Number of these requests that were committed.
    pub written: u64,
    /// Number of controller starts.
    pub starts: u64,
    /// Number of events that the controllers must react to.
    pub disturbances: u64,
    pub end_state: Vec<String>,
    /// The pods whose containers start in order.
    pub ordered: Vec<OrderedPod>,
    /// Milliseconds until the end state was reached.
    pub took: u64,
}

/// Runs a plan to its end, on its own runtime with virtual time.
pub fn run(plan: &FaultPlan) -> RunOutcome {
    run_on_own_runtime(plan, false).0
}

/// Like [`run`], and also returns a log with one line per commit.
pub fn run_logged(plan: &FaultPlan) -> (RunOutcome, Vec<String>) {
    run_on_own_runtime(plan, true)
}

fn run_on_own_runtime(plan: &FaultPlan, logged: bool) -> (RunOutcome, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without sockets needs nothing").block_on(run_once(plan, logged))
}

async fn run_once(plan: &FaultPlan, logged: bool) -> (RunOutcome, Vec<String>) {
    let (lab, embedded) = Lab::new(plan);
    lab.history.state().log = logged.then(Vec::new);
    // A second process runs if both must believe that they lead, or if they must elect a leader.
    let both_lead = plan.has(Fault::TwoLeaders);
    let elect = plan.has(Fault::Pause) && !both_lead;
    {
        let mut state = lab.history.state();
        state.release_order.clocks_are_wrong = plan.has(Fault::ClockJump);
        state.node_order.clocks_are_wrong = plan.has(Fault::ClockJump);
        state.node_order.views_are_old = POD_NEWS_LATE.iter().any(|fault| plan.has(*fault));
        state.release_order.two_act = both_lead;
        state.writes_come_late = plan.has(Fault::SlowCommit);
        state.hand_over_order.lifted_guarantees = LiftedGuarantees::from_plan(plan);
    }
    let second = async {
        match both_lead || elect {
            true => lab.process(1, elect).run_for_ever().await,
            false => std::future::pending().await,
        }
    };
    let mischief = Mischief {
        world: lab.world,
        shared: lab.shared.clone(),
        faults: lab.faults.clone(),
        processes: lab.handles.clone(),
        chance: Chance::seeded(plan.seed ^ 0x6d69_7363),
    };
    let (over, scripted) = (AtomicBool::new(false), AtomicBool::new(false));
    let mischief = async {
        mischief.run(plan.faults.clone()).await;
        over.store(true, Ordering::Relaxed);
    };
    let convergence = ConvergenceWait { plan, lab: &lab, over: &over, scripted: &scripted };
    let ended = tokio::select! {
        biased;
        ended = convergence.wait() => ended,
        () = embedded.run() => unreachable!("the cluster never ends"),
        () = lab.process(0, elect).run_for_ever() => unreachable!("the process is always restarted"),
        () = second => unreachable!("the process is always restarted"),
        () = then_never_end(mischief) => unreachable!("it never ends"),
        () = then_never_end(follow_script(&lab, &over, &scripted)) => unreachable!("it never ends"),
    };
    let Lab { shared, faults, history, handles, .. } = &lab;
    let mut state = history.state();
    let log = state.log.take().unwrap_or_default();
    let mut violations = state.violations.clone();
    violations.extend(handles.iter().flat_map(audited));
    violations.extend(ended.violation);
    let processes = 1 + u64::from(both_lead || elect);
    let struck: u64 = faults.counts().values().sum();
    let outcome = RunOutcome {
        violations,
        hash: state.hash,
        commits: state.commits,
        counts: faults.counts(),
        writes: faults.writes(),
        requests: faults.requests(),
        written: state.written,
        starts: faults.starts(),
        disturbances: struck + state.disturbed + faults.starts().saturating_sub(processes),
        end_state: world::end_state(lab.world, &shared.lock()),
        ordered: state.launch_order.pods(),
        took: ended.took,
    };
    (outcome, log)
}

/// Awaits `work` and then waits forever.
async fn then_never_end(work: impl Future<Output = ()>) {
    work.await;
    std::future::pending().await
}

/// Performs the actions of the world's users, whatever faults occur.
async fn follow_script(lab: &Lab, over: &AtomicBool, scripted: &AtomicBool) {
    let (Lab { world, shared, .. }, begun) = (lab, Instant::now());
    for action in world.script {
        match action.when {
            When::At(milliseconds) => sleep_until(begun + Duration::from_millis(milliseconds)).await,
            When::Once(milliseconds, is_so) => {
                sleep_until(begun + Duration::from_millis(milliseconds)).await;
                while !is_so(&shared.lock()) {
                    sleep(POLL).await;
                }
            }
            When::Finished => {
                let ready = || {
                    over.load(Ordering::Relaxed) && world::unfinished(world, &shared.lock(), false).is_none()
                };
                while !ready() {
                    sleep(POLL).await;
                }
            }
        }
        (action.act)(&mut shared.lock());
        shared.notify();
    }
    scripted.store(true, Ordering::Relaxed);
}

/// Decisions that the controller's own check rejected. Nothing wrong was written, but a decision was wrong.
fn audited(handle: &Handle) -> Vec<Violation> {
    let controllers = handle.controllers();
    let refused = |invariant: &'static str| {
        let count = |controller: &Arc<Controller>| {
            controller.metrics.violations.get_or_create(&ByInvariant { invariant }).get()
        };
        let number: u64 = controllers.iter().map(count).sum();
        let detail = format!("the controller's own check rejected {number} decisions");
        (number > 0).then_some(Violation { invariant, detail })
    };
    AUDITED.into_iter().filter_map(refused).collect()
}

struct Ended {
    violation: Option<Violation>,
    took: u64,
}

struct ConvergenceWait<'a> {
    plan: &'a FaultPlan,
    lab: &'a Lab,
    /// Whether all planned faults have struck.
    over: &'a AtomicBool,
    /// Whether the users of the world have performed all actions.
    scripted: &'a AtomicBool,
}

impl ConvergenceWait<'_> {
    /// Waits until the end state is reached and stays, or until the time limit.
    async fn wait(self) -> Ended {
        let Lab { world, shared, history, faults, .. } = self.lab;
        let begun = Instant::now();
        let last = Duration::from_millis(self.plan.last_timed());
        // Faults can take effect one after the other, so their durations are added.
        let dead = if self.plan.has(Fault::Hang) { DEAD_WATCH_NOTICED } else { Duration::ZERO };
        let patience = last + CONVERGES_WITHIN + dead + LONGEST_FAULT * self.plan.faults.len() as u32;
        let quiet =
            if self.plan.has(Fault::Silence) { QUIET_PERIOD + SILENT_WATCH_NOTICED } else { QUIET_PERIOD };
        let took = |until: Instant| until.duration_since(begun).as_millis() as u64;
        let ended = |invariant: &'static str, detail: String| {
            let violation = Some(Violation { invariant, detail });
            Ended { violation, took: took(Instant::now()) }
        };
        let mut calm_since: Option<(Instant, Option<Timestamp>)> = None;
        let mut looked_at = (0, None);
        loop {
            sleep(POLL).await;
            let version = shared.lock().store.version();
            if looked_at.0 != version {
                looked_at = (version, world::unfinished(world, &shared.lock(), true));
            }
            let unfinished = looked_at.1.as_ref();
            let last_write = history.state().last_write;
            let hung = faults.hung_since();
            let over =
                self.over.load(Ordering::Relaxed) && self.scripted.load(Ordering::Relaxed) && hung.is_none();
            calm_since = match (unfinished, calm_since) {
                (None, Some((since, write))) if over && write == last_write => Some((since, write)),
                (None, _) if over => Some((Instant::now(), last_write)),
                (_, _) => None,
            };
            if let Some((since, _)) = calm_since.filter(|(since, _)| since.elapsed() >= quiet) {
                return Ended { violation: None, took: took(since) };
            }
            if hung.is_some_and(|since| since.elapsed() > DEAD_WATCH_NOTICED) {
                return ended("S11", "a watch is dead, but /livez succeeds".into());
            }
            if begun.elapsed() > patience + quiet {
                let detail = match unfinished {
                    Some(what) => format!("after {:?}: {what}", begun.elapsed()),
                    None if !over => "the users of the world have not finished".into(),
                    None => "the controllers keep writing after the end state was reached".into(),
                };
                return ended("L1", detail);
            }
        }
    }
}
