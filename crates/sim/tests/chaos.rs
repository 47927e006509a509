//! Faults, each at every write, and many at random. `make chaos RUNS=100000` looks further.

use rollcall_sim::chaos::fault::{Fault, Place, Planned};
use rollcall_sim::chaos::run::{Outcome, Plan, compare, run};

const RANDOM_RUNS: u64 = 500;

fn broken(plan: &Plan, calm: &Outcome) -> Vec<String> {
    let violations = compare(&run(plan), calm);
    violations
        .iter()
        .map(|found| format!("{}: {} {}", plan.command(), found.invariant, found.detail))
        .collect()
}

#[test]
fn without_faults_nothing_goes_wrong_and_the_same_seed_gives_the_same_bytes() {
    let calm = run(&Plan::default());
    assert_eq!(calm.violations, []);
    assert_eq!(run(&Plan::default()).hash, calm.hash);
    let other = Plan { seed: 1, ..Plan::default() };
    assert_ne!(run(&other).hash, calm.hash, "another seed, other names");
}

#[test]
fn every_fault_at_every_write() {
    let calm = run(&Plan::default());
    assert!(calm.requests > 20, "{} writes: too few to prove anything", calm.requests);
    let plans = Fault::at(Place::Write).flat_map(|fault| {
        let at = move |when| Plan { seed: 0, faults: vec![Planned { fault, when }] };
        (1..=calm.requests).map(at)
    });
    let broken: Vec<String> = plans.flat_map(|plan| broken(&plan, &calm)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn many_faults_at_random() {
    let calm = run(&Plan::default());
    let plans = (1..=RANDOM_RUNS).map(Plan::random);
    let broken: Vec<String> = plans.flat_map(|plan| broken(&plan, &calm)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
