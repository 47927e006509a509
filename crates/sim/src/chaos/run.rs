//! One run, from its seed and its plan; the same seed and plan, the same bytes.

use super::fault::{Counts, Fault, Place, Planned};
use super::faulty::Faults;
use super::history::{History, Violation, identity};
use super::process::{Handle, supervise};
use super::{mischief, world};
use crate::chance::Chance;
use crate::embedded::Embedded;
use jiff::Timestamp;
use rollcall_api::names;
use rollcall_controller::Config;
use rollcall_controller::clock::Clock;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// When every run begins.
const BEGINNING: i64 = 1_767_225_600;
/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(15);
/// From when the last fault is over, everything is as it should be within this time.
const LIMIT: Duration = Duration::from_secs(60);
/// What is over at last: a silent watch (two minutes), a pause, a lease that has to run out.
const LONGEST_FAULT: Duration = Duration::from_secs(180);
/// After that nothing is written any more for as long as this.
const QUIET: Duration = Duration::from_secs(30);

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub seed: u64,
    pub faults: Vec<Planned>,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub violations: Vec<Violation>,
    pub hash: u64,
    pub counts: Counts,
    /// Write requests that our controllers sent, leases included.
    pub requests: u64,
    /// Commits of our controllers, leases apart.
    pub writes: u64,
    pub picture: Vec<String>,
    /// Milliseconds until everything was as it should be.
    pub took: u64,
}

impl Plan {
    /// Some faults, by chance.
    pub fn random(seed: u64) -> Plan {
        let mut chance = Chance::seeded(seed);
        let number = 1 + chance.below(4);
        let faults = (0..number).map(|_| {
            let fault = Fault::ALL[chance.below(Fault::ALL.len() as u64) as usize];
            let when = match fault.place() {
                Place::Write => 1 + chance.below(40),
                // Each start lists and watches nine kinds.
                Place::List | Place::Watch => 1 + chance.below(20),
                Place::Process | Place::Cluster => chance.below(9_000),
            };
            Planned { fault, when }
        });
        Plan { seed, faults: faults.collect() }
    }

    /// As it is given to the command that repeats it.
    pub fn command(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(Planned::to_string).collect();
        format!("make chaos SEED={} FAULTS={}", self.seed, faults.join(","))
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.iter().any(|plan| plan.fault == fault)
    }
}

/// Runs a plan to its end, on a runtime of its own under virtual time.
pub fn run(plan: &Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without sockets needs nothing").block_on(go(plan))
}

async fn go(plan: &Plan) -> Outcome {
    let beginning = Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH);
    let clock = Clock::starting_at(beginning);
    let embedded = Embedded::new(clock, plan.seed);
    let shared = embedded.shared.clone();
    let history = History::default();
    history.state().clocks_are_wrong = plan.has(Fault::ClockJump);
    {
        let mut cluster = shared.lock();
        cluster.store.observe(Box::new(history.clone()));
        world::create(&mut cluster);
    }
    let faults = Faults::new(plan.faults.clone());
    let handles = [Handle::default(), Handle::default()];
    let config = |number: usize, leader_elect: bool| Config {
        namespace: names::OWN_NAMESPACE.into(),
        metrics_bind_address: None,
        health_probe_bind_address: None,
        leader_elect,
        lease_duration: LEASE,
        identity: identity(number),
        max_in_flight: 8,
        dry_run: false,
        seed: plan.seed.wrapping_add(number as u64),
    };
    // Two that both believe to lead, or two that agree who does.
    let both_lead = plan.has(Fault::TwoLeaders);
    let two = both_lead || plan.has(Fault::Pause);
    let elect = plan.has(Fault::Pause) && !both_lead;
    let process = |number: usize| {
        let (shared, faults, handle) = (shared.clone(), faults.clone(), handles[number].clone());
        supervise(number, shared, faults, config(number, elect), clock, handle, None)
    };
    let second = async {
        match two {
            true => process(1).await,
            false => std::future::pending().await,
        }
    };
    let trouble =
        mischief::make(plan.faults.clone(), shared.clone(), faults.clone(), handles.clone(), plan.seed);
    let trouble = async {
        trouble.await;
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        biased;
        ended = judge(plan, &shared, &history) => ended,
        () = embedded.run() => unreachable!("the cluster runs for ever"),
        () = process(0) => unreachable!("it is started again for ever"),
        () = second => unreachable!("it is started again for ever"),
        () = trouble => unreachable!("it waits for ever"),
    };
    let mut violations = history.state().violations.clone();
    violations.extend(ended.violation);
    let picture = world::picture(&shared.lock());
    let (hash, writes) = (history.hash(), history.state().writes);
    Outcome {
        violations,
        hash,
        counts: faults.counts(),
        requests: faults.writes(),
        writes,
        picture,
        took: ended.took,
    }
}

struct Ended {
    violation: Option<Violation>,
    took: u64,
}

/// Waits until everything is as it should be and stays so; or until that has taken too long.
async fn judge(plan: &Plan, shared: &std::sync::Arc<crate::server::Shared>, history: &History) -> Ended {
    let begun = Instant::now();
    let timed =
        plan.faults.iter().filter(|plan| matches!(plan.fault.place(), Place::Process | Place::Cluster));
    let last = Duration::from_millis(timed.map(|plan| plan.when).max().unwrap_or_default());
    // What follows one after the other takes as long as all of them.
    let patience = last + LIMIT + LONGEST_FAULT * plan.faults.len() as u32;
    let mut calm_since: Option<(Instant, Option<Timestamp>)> = None;
    loop {
        sleep(Duration::from_secs(1)).await;
        let unfinished = world::unfinished(&shared.lock());
        let last_write = history.state().last_write;
        match unfinished {
            None if begun.elapsed() > last => match calm_since {
                Some((since, write)) if write == last_write => {
                    if since.elapsed() >= QUIET {
                        let took = since.duration_since(begun).as_millis() as u64;
                        return Ended { violation: None, took };
                    }
                }
                _ => calm_since = Some((Instant::now(), last_write)),
            },
            None => {}
            Some(_) => calm_since = None,
        }
        if begun.elapsed() > patience + QUIET {
            let detail = match unfinished {
                Some(what) => format!("after {:?}: {what}", begun.elapsed()),
                None => "it is written on and on though everything is as it should be".into(),
            };
            let violation = Some(Violation { invariant: "L1", detail });
            return Ended { violation, took: begun.elapsed().as_millis() as u64 };
        }
    }
}

/// What a run without faults ends with; every other run of the same seed has to end with it, too.
pub fn compare(outcome: &Outcome, calm: &Outcome) -> Vec<Violation> {
    let mut violations = outcome.violations.clone();
    if violations.is_empty() && outcome.picture != calm.picture {
        let differing = outcome.picture.iter().zip(&calm.picture).find(|(is, was)| is != was);
        let detail = match differing {
            Some((is, was)) => format!("{is} instead of {was}"),
            None => format!("{} objects instead of {}", outcome.picture.len(), calm.picture.len()),
        };
        violations.push(Violation { invariant: "L2", detail });
    }
    violations
}
