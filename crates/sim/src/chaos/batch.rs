//! Many runs on all cores. Each run stays on one thread.

use super::fault::{Counts, Fault};
use super::history::Violation;
use super::plan::FaultPlan;
use super::run::{RunOutcome, run};
use super::verdict::compare;
use super::world;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of broken runs that are kept; further ones are only counted.
const KEPT: usize = 20;

/// The calm runs (without faults) for comparison, one for each world.
pub struct Calm(Vec<RunOutcome>);

impl Calm {
    pub fn new() -> Calm {
        Calm(world::seeds().map(|seed| run(&FaultPlan::calm(seed))).collect())
    }

    pub fn outcome_of(&self, plan: &FaultPlan) -> &RunOutcome {
        &self.0[world::index_of(plan.seed)]
    }

    /// The violations of a run, compared with the calm run of its world.
    pub fn broken(&self, plan: &FaultPlan, outcome: &RunOutcome) -> Vec<Violation> {
        compare(plan, outcome, self.outcome_of(plan))
    }

    /// The violations in the calm runs themselves.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.0.iter().flat_map(|outcome| &outcome.violations)
    }
}

impl Default for Calm {
    fn default() -> Self {
        Calm::new()
    }
}

/// The result of many runs.
#[derive(Clone, Debug, Default)]
pub struct BatchReport {
    pub runs: u64,
    pub broken: u64,
    pub counts: Counts,
    /// The broken runs with the lowest numbers.
    pub failures: Vec<(u64, FaultPlan, Vec<Violation>)>,
    /// The hash of each run's history, by number of the run.
    pub hashes: BTreeMap<u64, u64>,
}

impl BatchReport {
    /// Faults that never struck.
    pub fn missing(&self) -> Vec<Fault> {
        Fault::ALL.iter().copied().filter(|fault| !self.counts.contains_key(fault)).collect()
    }

    fn add(&mut self, number: u64, plan: FaultPlan, outcome: &RunOutcome, violations: Vec<Violation>) {
        self.runs += 1;
        self.hashes.insert(number, outcome.hash);
        for (fault, struck) in &outcome.counts {
            *self.counts.entry(*fault).or_default() += struck;
        }
        if !violations.is_empty() {
            self.broken += 1;
            self.failures.push((number, plan, violations));
            self.failures.sort_by_key(|(number, ..)| *number);
            self.failures.truncate(KEPT);
        }
    }
}

impl fmt::Display for BatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            writeln!(f, "{:>9}  {fault}", self.counts.get(fault).copied().unwrap_or_default())?;
        }
        for (_, plan, violations) in &self.failures {
            for Violation { invariant, detail } in violations {
                writeln!(f, "{}: {invariant} {detail}", plan.command())?;
            }
        }
        write!(f, "{} runs, {} of them broke invariants", self.runs, self.broken)
    }
}

/// Runs the plans with these numbers, and calls `done` after each with the number of finished runs. The report does not
/// depend on the number of threads.
pub fn batch(
    numbers: std::ops::Range<u64>,
    threads: usize,
    plan_of: impl Fn(u64) -> FaultPlan + Sync,
    done: impl Fn(u64) + Sync,
) -> BatchReport {
    let calm = Calm::new();
    let (next, report) = (AtomicU64::new(numbers.start), Mutex::new(BatchReport::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return;
            }
            let plan = plan_of(number);
            let outcome = run(&plan);
            let violations = calm.broken(&plan, &outcome);
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.add(number, plan, &outcome, violations);
            done(report.runs);
        }
    };
    std::thread::scope(|scope| {
        (0..threads.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The number of cores, or 1 if unknown.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}
