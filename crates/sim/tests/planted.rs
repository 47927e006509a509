//! Planted bugs: for each bug, some plan makes a run break an invariant, and the same plan without the bug breaks none.
//!
//! `planted.txt` contains a plan for each bug (or, after `?`, the faults that reveal it), so that the search is quick. If
//! the plan no longer reveals the bug, the test searches for another one and prints the line to write down.

use rollcall_core::planted::{Bug, plant};
use rollcall_sim::chaos::batch::{Calm, cores};
use rollcall_sim::chaos::fault::{Fault, Planned};
use rollcall_sim::chaos::plan::FaultPlan;
use rollcall_sim::chaos::run::run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit of runs that search for a bug: with the known faults, then with random ones.
const RUNS: u64 = 1000;

/// The entry of a bug in `planted.txt`.
#[derive(Default)]
struct Known {
    plan: Option<FaultPlan>,
    faults: Vec<Fault>,
}

impl Known {
    fn for_bug(bug: Bug) -> Known {
        let lines = include_str!("planted.txt").lines();
        let mut lines = lines.map(|line| line.split(' ').filter(|word| !word.is_empty()));
        let line = lines.find_map(|mut words| (words.next() == Some(bug.name())).then_some(words));
        let Some((Some(seed), Some(faults))) = line.map(|mut words| (words.next(), words.next())) else {
            return Known::default();
        };
        let named = |fault: &str| Fault::named(fault.split('@').next().unwrap_or_default());
        let plan = seed.parse().ok().and_then(|seed| FaultPlan::given(seed, faults).ok());
        Known { plan, faults: faults.split(',').filter_map(named).collect() }
    }

    /// Plans that may reveal the bug, the likeliest first.
    fn plans(&self) -> impl Iterator<Item = FaultPlan> {
        let runs = if self.faults.is_empty() { 0 } else { RUNS };
        let similar = (1..=runs).map(|seed| FaultPlan::with_faults(seed, &self.faults));
        self.plan.clone().into_iter().chain(similar).chain((1..=RUNS).map(FaultPlan::random))
    }
}

/// The invariants that a run with this bug breaks, with the detail of the first violation.
fn broken(bug: Bug, plan: &FaultPlan, calm: &Calm) -> Option<String> {
    plant(Some(bug));
    let outcome = run(plan);
    plant(None);
    let violations = calm.broken(plan, &outcome);
    let detail = &violations.first()?.detail;
    let mut invariants: Vec<&str> = violations.iter().map(|violation| violation.invariant).collect();
    invariants.dedup();
    Some(format!("{:<10} {detail}", invariants.join(" ")))
}

/// Searches for a bug. Returns a message if the search fails, or if the plan also fails without the bug.
fn look_for(bug: Bug, calm: &Calm) -> Option<String> {
    let (name, known) = (bug.name(), Known::for_bug(bug));
    let found = |plan: FaultPlan| broken(bug, &plan, calm).map(|how| (plan, how));
    let Some((plan, how)) = known.plans().find_map(found) else {
        return Some(format!("{name} was not found"));
    };
    let faults: Vec<String> = plan.faults.iter().map(Planned::to_string).collect();
    let as_known = known.plan.is_some_and(|known| known.seed == plan.seed && known.faults == plan.faults);
    let remark = if as_known { "" } else { "  <- write this down in planted.txt" };
    println!("{name:<20} {} {:<40} {how}{remark}", plan.seed, faults.join(","));
    let without = calm.broken(&plan, &run(&plan));
    (!without.is_empty()).then(|| format!("without {name}: {} breaks {without:?}", plan.command()))
}

#[test]
fn every_planted_bug_is_found_and_without_it_there_is_nothing_to_find() {
    assert!(Bug::ALL.len() >= 30);
    let calm = Calm::new();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(bug) = Bug::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = look_for(*bug, &calm);
            wrong.lock().expect("no thread has panicked").extend(found);
        }
    };
    std::thread::scope(|scope| (0..cores()).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().expect("no thread has panicked");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
