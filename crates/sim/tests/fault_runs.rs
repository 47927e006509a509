//! Fault runs: each fault at each write, and random faults. `make chaos RUNS=100000` runs more of them.

use rollcall_sim::chaos::batch::{BatchReport, Calm, batch, cores};
use rollcall_sim::chaos::fault::{Fault, Place, Planned};
use rollcall_sim::chaos::plan::FaultPlan;
use rollcall_sim::chaos::run::run;
use std::process::Command;
use std::sync::LazyLock;

/// Number of random runs with fixed seeds, and again with seeds from `CHAOS_SEED`.
const RANDOM_RUNS: u64 = 2000;
/// First seed for `CHAOS_SEED`, far beyond the fixed seeds.
const OTHER_SEEDS: u64 = 1_000_000;
/// A seed of the world in which containers start in order.
const LAUNCH: u64 = 5;
/// A seed of the world with reservations, and a number larger than its hand-over steps.
const RESERVATIONS: u64 = 13;
const STEPS: u64 = 40;
/// Seeds of the worlds in which a sequence can be stopped and started again, two of each.
const STARTED_TWICE: [u64; 8] = [1, 3, 2, 12, 4, 14, 6, 16];

fn must_be_clean(report: &BatchReport) {
    assert!(report.broken == 0, "{report}");
}

#[test]
fn without_faults_nothing_goes_wrong() {
    assert_eq!(Calm::new().violations().collect::<Vec<_>>(), Vec::<&_>::new());
    assert_ne!(
        run(&FaultPlan::calm(1)).hash,
        run(&FaultPlan::calm(3)).hash,
        "different seeds give different names"
    );
}

#[test]
fn every_fault_at_every_write() {
    for seed in [0, LAUNCH, RESERVATIONS] {
        let writes = run(&FaultPlan::calm(seed)).writes;
        assert!(writes > 20, "{writes} writes: too few to prove anything");
        let faults: Vec<Fault> = Fault::at(Place::Write).collect();
        let plan = |number: u64| {
            let (fault, when) = (faults[(number / writes) as usize], 1 + number % writes);
            FaultPlan { seed, faults: vec![Planned { fault, when }] }
        };
        let report = batch(0..faults.len() as u64 * writes, cores(), plan, |_| {});
        must_be_clean(&report);
        assert!(faults.iter().all(|fault| report.counts.contains_key(fault)), "{report}");
    }
}

#[test]
fn every_mischief_at_every_step_of_a_hand_over() {
    let faults: Vec<Fault> = Fault::at(Place::HandOver).collect();
    let plan = |number: u64| {
        let (fault, when) = (faults[(number / STEPS) as usize], 1 + number % STEPS);
        FaultPlan { seed: RESERVATIONS, faults: vec![Planned { fault, when }] }
    };
    let report = batch(0..faults.len() as u64 * STEPS, cores(), plan, |_| {});
    must_be_clean(&report);
    assert!(faults.iter().all(|fault| report.counts.contains_key(fault)), "{report}");
}

/// A restarted sequence keeps its order whatever fault occurs at that time.
#[test]
fn a_second_start_beside_every_other_fault() {
    let allowed = |seed: u64, fault: Fault| FaultPlan::calm(seed).world().allows(fault);
    let plans: Vec<FaultPlan> = STARTED_TWICE
        .iter()
        .flat_map(|seed| Fault::ALL.iter().map(move |fault| (*seed, *fault)))
        .filter(|(seed, fault)| allowed(*seed, *fault))
        .map(|(seed, fault)| FaultPlan::with_faults(seed, &[Fault::BegunAgain, fault]))
        .collect();
    let report = batch(0..plans.len() as u64, cores(), |number| plans[number as usize].clone(), |_| {});
    must_be_clean(&report);
    assert!(report.counts[&Fault::BegunAgain] >= plans.len() as u64, "{report}");
}

/// The runs with fixed seeds, which two tests use.
static FIXED: LazyLock<BatchReport> =
    LazyLock::new(|| batch(1..1 + RANDOM_RUNS, cores(), FaultPlan::random, |_| {}));

#[test]
fn many_faults_at_random() {
    println!("{}", *FIXED);
    must_be_clean(&FIXED);
    assert_eq!(FIXED.missing(), [], "faults that never struck prove nothing");
}

/// `scripts/test.sh` sets `CHAOS_SEED` to the commit, so that every commit runs other plans.
#[test]
fn many_faults_at_random_with_other_seeds() {
    let named = std::env::var("CHAOS_SEED").unwrap_or_default();
    let offset = match named.as_str() {
        "" => 0,
        hexadecimal => u64::from_str_radix(hexadecimal, 16).unwrap_or_else(|error| {
            panic!("CHAOS_SEED={hexadecimal:?} is not a hexadecimal number: {error}")
        }),
    };
    let first = OTHER_SEEDS.saturating_add(offset);
    println!("seeds from {first} (CHAOS_SEED={named:?}): make chaos RUNS={RANDOM_RUNS} SEED={first}");
    must_be_clean(&batch(first..first + RANDOM_RUNS, cores(), FaultPlan::random, |_| {}));
}

#[test]
fn the_same_seed_gives_the_same_history_alone_in_a_batch_and_in_another_process() {
    let last = FaultPlan::random(RANDOM_RUNS);
    let alone = run(&last).hash;
    assert_eq!(FIXED.hashes[&RANDOM_RUNS], alone, "{}", last.command());
    let faults: Vec<String> = last.faults.iter().map(Planned::to_string).collect();
    let elsewhere = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["1", &RANDOM_RUNS.to_string(), &faults.join(",")])
        .output()
        .expect("it was built for this test");
    let printed = String::from_utf8_lossy(&elsewhere.stdout);
    assert!(
        printed.contains(&format!("history  {alone:016x}")),
        "{alone:016x} alone, but in another process:\n{printed}"
    );
}
