//! Runs the controller through faults: one plan, or as many random ones as are asked for. Called by `make chaos`.

use anyhow::{Result, bail};
use rollcall_sim::chaos::fault::{Counts, Fault, Planned};
use rollcall_sim::chaos::run::{Plan, compare, run};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>, usual: u64| match text.filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map_err(|_| anyhow::anyhow!("{text:?} is no number")),
        None => Ok(usual),
    };
    let runs: u64 = number(arguments.next(), 1000)?;
    let seed: u64 = number(arguments.next(), 1)?;
    let faults = arguments.next().filter(|faults| !faults.is_empty());
    let plans: Vec<Plan> = match faults {
        Some(faults) => {
            let faults: Result<Vec<Planned>, String> = faults.split(',').map(str::parse).collect();
            vec![Plan { seed, faults: faults.map_err(anyhow::Error::msg)? }]
        }
        None => (seed..seed.saturating_add(runs)).map(Plan::random).collect(),
    };
    let calm = run(&Plan::default());
    let (mut counts, mut broken) = (Counts::new(), 0);
    for plan in &plans {
        let outcome = run(plan);
        for (fault, number) in &outcome.counts {
            *counts.entry(*fault).or_default() += number;
        }
        let violations = compare(&outcome, &calm);
        broken += usize::from(!violations.is_empty());
        for violation in violations {
            println!("{}: {} {}", plan.command(), violation.invariant, violation.detail);
        }
    }
    for fault in Fault::ALL {
        println!("{:>8}  {fault}", counts.get(fault).copied().unwrap_or_default());
    }
    println!("{} runs, {broken} of them broken", plans.len());
    if broken > 0 {
        bail!("the commands above repeat them");
    }
    Ok(())
}
