//! Runs the controller under faults: one given plan, or a number of random ones. Called by `make chaos`.
//!
//! ```text
//! chaos [RUNS] [SEED] [FAULTS] [HASHES]
//! ```
//!
//! With HASHES, the hash of each run's history is written to that file, one per line. A refactoring must not change any of
//! them.

use anyhow::{Context, Result, bail};
use rollcall_sim::chaos::batch::{Calm, batch, cores};
use rollcall_sim::chaos::plan::FaultPlan;
use rollcall_sim::chaos::run::run_logged;
use std::path::Path;

/// Number of runs between two progress messages.
const RUNS_PER_MESSAGE: u64 = 1000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize| arguments.get(at).filter(|text| !text.is_empty());
    let number = |at: usize, usual: u64| match given(at) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is not a number")),
        None => Ok(usual),
    };
    let (runs, seed) = (number(0, 1000)?, number(1, 1)?);
    match given(2) {
        Some(faults) => run_one(&FaultPlan::given(seed, faults).map_err(anyhow::Error::msg)?),
        None => many(runs, seed, given(3).map(Path::new)),
    }
}

/// Runs one plan and prints all details.
fn run_one(plan: &FaultPlan) -> Result<()> {
    let (outcome, log) = run_logged(plan);
    for line in log.iter().chain(&outcome.end_state) {
        eprintln!("{line}");
    }
    println!("world    {}", plan.world().name);
    println!(
        "took     {} ms of virtual time, {} commits, {} writes sent",
        outcome.took, outcome.commits, outcome.requests
    );
    println!("history  {:016x}", outcome.hash);
    let violations = Calm::new().broken(plan, &outcome);
    for violation in &violations {
        println!("{} {}", violation.invariant, violation.detail);
    }
    if !violations.is_empty() {
        bail!("{} invariants are broken", violations.len());
    }
    Ok(())
}

fn many(runs: u64, seed: u64, hashes: Option<&Path>) -> Result<()> {
    let begun = std::time::Instant::now();
    let seeds = seed..seed.saturating_add(runs);
    let report = batch(seeds, cores(), FaultPlan::random, |done| {
        if done % RUNS_PER_MESSAGE == 0 {
            eprintln!("{done} of {runs}, {:.0} s", begun.elapsed().as_secs_f64());
        }
    });
    println!("{report}");
    if let Some(file) = hashes {
        let lines: String =
            report.hashes.iter().map(|(seed, hash)| format!("{seed} {hash:016x}\n")).collect();
        std::fs::write(file, lines).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if report.broken > 0 {
        bail!("repeat the broken runs with the commands above");
    }
    Ok(())
}
