//! Bugs on purpose: every one is found by some seed, by the invariant that it breaks, and without it the same seed finds
//! nothing.

use rollcall_core::planted::{Bug, plant};
use rollcall_sim::chaos::batch::{Calm, cores};
use rollcall_sim::chaos::plan::Plan;
use rollcall_sim::chaos::run::run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs in which each bug has to be found.
const RUNS: u64 = 2000;

/// How a bug was found.
struct Found {
    bug: Bug,
    plan: Plan,
    invariants: Vec<&'static str>,
    detail: String,
}

fn find(bug: Bug, calm: &Calm) -> Option<Found> {
    (1..=RUNS).map(Plan::random).find_map(|plan| {
        plant(Some(bug));
        let outcome = run(&plan);
        plant(None);
        let violations = calm.broken(&plan, &outcome);
        let detail = violations.first()?.detail.clone();
        let mut invariants: Vec<&str> = violations.iter().map(|violation| violation.invariant).collect();
        invariants.dedup();
        Some(Found { bug, plan, invariants, detail })
    })
}

#[test]
fn every_planted_bug_is_found_and_without_it_there_is_nothing_to_find() {
    assert!(Bug::ALL.len() >= 30);
    let calm = Calm::new();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(bug) = Bug::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = find(*bug, &calm);
            found.lock().expect("nobody panics here").push((*bug, result));
        }
    };
    std::thread::scope(|scope| (0..cores()).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().expect("nobody panics here");
    found.sort_by_key(|(bug, _)| *bug);
    for found in found.iter().filter_map(|(_, found)| found.as_ref()) {
        let Found { bug, plan, invariants, detail } = found;
        println!("{:<20} {:<10} {}: {detail}", bug.name(), invariants.join(" "), plan.command());
        assert_eq!(calm.broken(plan, &run(plan)), [], "without {}: {}", bug.name(), plan.command());
    }
    let missed: Vec<_> =
        found.iter().filter(|(_, found)| found.is_none()).map(|(bug, _)| bug.name()).collect();
    assert!(missed.is_empty(), "not found in {RUNS} runs: {}", missed.join(", "));
}
