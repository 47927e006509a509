//! Runs the controller through faults: one plan, or as many random ones as are asked for. Called by `make chaos`.
//!
//! ```text
//! chaos [RUNS] [SEED] [FAULTS]
//! ```

use anyhow::{Context, Result, bail};
use rollcall_sim::chaos::batch::{Calm, batch, cores};
use rollcall_sim::chaos::plan::Plan;
use rollcall_sim::chaos::run::run_aloud;

/// Runs between two words about how far it is.
const SOMETIMES: u64 = 1000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize| arguments.get(at).filter(|text| !text.is_empty());
    let number = |at: usize, usual: u64| match given(at) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is no number")),
        None => Ok(usual),
    };
    let (runs, seed) = (number(0, 1000)?, number(1, 1)?);
    match given(2) {
        Some(faults) => one(&Plan::given(seed, faults).map_err(anyhow::Error::msg)?),
        None => many(runs, seed),
    }
}

/// One plan, with all that can be told about it.
fn one(plan: &Plan) -> Result<()> {
    let (outcome, log) = run_aloud(plan);
    for line in log.iter().chain(&outcome.picture) {
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

fn many(runs: u64, seed: u64) -> Result<()> {
    let begun = std::time::Instant::now();
    let seeds = seed..seed.saturating_add(runs);
    let report = batch(seeds, cores(), Plan::random, |done| {
        if done % SOMETIMES == 0 {
            eprintln!("{done} of {runs}, {:.0} s", begun.elapsed().as_secs_f64());
        }
    });
    println!("{report}");
    if report.broken > 0 {
        bail!("the commands above repeat them");
    }
    Ok(())
}
