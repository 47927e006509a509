//! One run, from its seed and its plan; the same seed and plan, the same bytes.

use super::fault::{Counts, Fault};
use super::history::Violation;
use super::lab::Lab;
use super::launch_order::OrderedPod;
use super::mischief::Mischief;
use super::plan::Plan;
use super::process::Handle;
use super::reservation_order::Excuses;
use super::world::{self, When};
use crate::chance::Chance;
use jiff::Timestamp;
use rollcall_controller::metrics::ByInvariant;
use rollcall_controller::shared::Shared as Controller;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Everything must be as it should be this long after the last fault.
const CONVERGES_WITHIN: Duration = Duration::from_secs(60);
/// The longest time that one fault lasts: a silent watch (two minutes), a pause, a lease that has to run out.
const LONGEST_FAULT: Duration = Duration::from_secs(180);
/// A watch that is dead for good is noticed after ten minutes.
const DEAD_WATCH_NOTICED: Duration = Duration::from_secs(640);
/// After that nothing may be written for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(30);
/// How long a silent watch can go unnoticed.
const SILENT_WATCH_NOTICED: Duration = Duration::from_secs(120);
/// How often the state of the cluster is checked.
const POLL: Duration = Duration::from_secs(1);
/// Faults after which news of pods may be much later than news of nodes.
const POD_NEWS_LATE: [Fault; 5] =
    [Fault::Hang, Fault::Silence, Fault::Behind, Fault::Unseen, Fault::ServerRestart];
/// What the controller's own check of its decisions may find.
const AUDITED: [&str; 8] = ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S9"];

#[derive(Clone, Debug)]
pub struct RunOutcome {
    pub violations: Vec<Violation>,
    pub hash: u64,
    /// Everything that was committed, by whomever.
    pub commits: u64,
    pub counts: Counts,
    /// Write requests that our controllers sent, leases included.
    pub writes: u64,
    /// The same, leases apart.
    pub requests: u64,
    /// How many of these were committed.
    pub written: u64,
    /// How often a controller was started.
    pub starts: u64,
    /// Events that the controllers have to react to.
    pub disturbances: u64,
    pub end_state: Vec<String>,
    /// The pods whose containers start in order.
    pub ordered: Vec<OrderedPod>,
    /// Milliseconds until everything was as it should be.
    pub took: u64,
}

/// Runs a plan to its end, on a runtime of its own under virtual time.
pub fn run(plan: &Plan) -> RunOutcome {
    run_on_own_runtime(plan, false).0
}

/// The same, with every commit in a line.
pub fn run_logged(plan: &Plan) -> (RunOutcome, Vec<String>) {
    run_on_own_runtime(plan, true)
}

fn run_on_own_runtime(plan: &Plan, logged: bool) -> (RunOutcome, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without sockets needs nothing").block_on(run_once(plan, logged))
}

async fn run_once(plan: &Plan, logged: bool) -> (RunOutcome, Vec<String>) {
    let (lab, embedded) = Lab::new(plan);
    lab.history.state().log = logged.then(Vec::new);
    // A second process: both believe to lead, or they elect a leader.
    let both_lead = plan.has(Fault::TwoLeaders);
    let elect = plan.has(Fault::Pause) && !both_lead;
    {
        let mut state = lab.history.state();
        state.release_order.clocks_are_wrong = plan.has(Fault::ClockJump);
        state.node_order.clocks_are_wrong = plan.has(Fault::ClockJump);
        state.node_order.views_are_old = POD_NEWS_LATE.iter().any(|fault| plan.has(*fault));
        state.release_order.two_act = both_lead;
        state.writes_come_late = plan.has(Fault::SlowCommit);
        state.reservation_order.excuses = Excuses::of(plan);
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
        () = embedded.run() => unreachable!("the cluster runs for ever"),
        () = lab.process(0, elect).run_for_ever() => unreachable!("it is started again for ever"),
        () = second => unreachable!("it is started again for ever"),
        () = then_never_end(mischief) => unreachable!("it waits for ever"),
        () = then_never_end(follow_script(&lab, &over, &scripted)) => unreachable!("it waits for ever"),
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

/// Runs this, and then never ends.
async fn then_never_end(work: impl Future<Output = ()>) {
    work.await;
    std::future::pending().await
}

/// Does what the users of this world do, whatever goes wrong.
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

/// Decisions that the controller's own check refused: nothing wrong was done, but something wrong was decided.
fn audited(handle: &Handle) -> Vec<Violation> {
    let controllers = handle.controllers();
    let refused = |invariant: &'static str| {
        let count = |controller: &Arc<Controller>| {
            controller.metrics.violations.get_or_create(&ByInvariant { invariant }).get()
        };
        let number: u64 = controllers.iter().map(count).sum();
        let detail = format!("{number} decisions had to be refused");
        (number > 0).then_some(Violation { invariant, detail })
    };
    AUDITED.into_iter().filter_map(refused).collect()
}

struct Ended {
    violation: Option<Violation>,
    took: u64,
}

struct ConvergenceWait<'a> {
    plan: &'a Plan,
    lab: &'a Lab,
    /// All planned faults have struck.
    over: &'a AtomicBool,
    /// The users of the world have done all that they do.
    scripted: &'a AtomicBool,
}

impl ConvergenceWait<'_> {
    /// Waits until everything is as it should be and stays so; or until that has taken too long.
    async fn wait(self) -> Ended {
        let Lab { world, shared, history, faults, .. } = self.lab;
        let begun = Instant::now();
        let last = Duration::from_millis(self.plan.last_timed());
        // What follows one after the other takes as long as all of them.
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
                return ended("S11", "a watch is dead, and /livez does not say so".into());
            }
            if begun.elapsed() > patience + quiet {
                let detail = match unfinished {
                    Some(what) => format!("after {:?}: {what}", begun.elapsed()),
                    None if !over => "people still wait to go on".into(),
                    None => "it is written on and on though everything is as it should be".into(),
                };
                return ended("L1", detail);
            }
        }
    }
}
