//! Faults, one at a time and many.

use rollcall_sim::chaos::fault::{Fault, Place, Planned};
use rollcall_sim::chaos::run::{Plan, compare, run};

#[test]
fn nothing_goes_wrong() {
    let begun = std::time::Instant::now();
    let calm = run(&Plan::default());
    println!(
        "{} requests, {} writes, {} ms, wall {:?}",
        calm.requests,
        calm.writes,
        calm.took,
        begun.elapsed()
    );
    for line in &calm.picture {
        println!("{line}");
    }
    assert_eq!(calm.violations, []);
    assert_eq!(run(&Plan::default()).hash, calm.hash);
}

#[test]
fn every_fault_at_every_write() {
    let calm = run(&Plan::default());
    let begun = std::time::Instant::now();
    let mut runs = 0;
    let mut bad = Vec::new();
    for fault in Fault::at(Place::Write) {
        for when in 1..=calm.requests {
            let plan = Plan { seed: 0, faults: vec![Planned { fault, when }] };
            let outcome = run(&plan);
            runs += 1;
            for violation in compare(&plan, &outcome, &calm) {
                bad.push(format!("{}: {} {}", plan.command(), violation.invariant, violation.detail));
            }
        }
    }
    println!("{runs} runs in {:?}", begun.elapsed());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn many_faults_at_random() {
    let calm = run(&Plan::default());
    let begun = std::time::Instant::now();
    let mut bad = Vec::new();
    let runs = 500;
    for seed in 1..=runs {
        let plan = Plan::random(seed);
        let outcome = run(&plan);
        for violation in compare(&plan, &outcome, &calm) {
            bad.push(format!("{}: {} {}", plan.command(), violation.invariant, violation.detail));
        }
    }
    println!("{runs} runs in {:?}", begun.elapsed());
    assert!(bad.is_empty(), "{}\n{}", bad.len(), bad.join("\n"));
}
