//! Shows a shop that starts in order on a cluster inside this process. One of its pods fails during the start.

mod show;

use super::simulate;
use crate::cli::program;
use crate::outcome::Outcome;
use crate::output::{self, STRONG, styled};
use crate::shown;
use crate::shown::{Show as _, Shown};
use anyhow::{Context, Result};
use rollcall_sim::plan::Plan;
use show::{DemoScreen, Pace};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const SHOP: &str = include_str!("shop.yaml");
/// Limit in virtual time, more than ten times what the shop needs. If a change breaks the start of the shop, the run fails soon.
const UNTIL: Duration = Duration::from_secs(600);
/// Interval between two drawings; short enough for movement to look smooth.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Watch a shop start in order, including a failure; no cluster is needed
///
/// Runs the controller on an embedded cluster: it contacts and changes no real cluster.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0  the shop has started
  2  the page cannot be written, or the arguments are wrong")]
pub struct Arguments {
    /// How many times faster than real time to run
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed, conflicts_with = "fast")]
    speed: f64,
    /// Run without delays
    #[arg(long)]
    fast: bool,
    /// File for the HTML page with the timeline
    #[arg(long, value_name = "FILE", default_value = "rollcall-demo.html")]
    page: PathBuf,
    /// Only print the manifests of the shop, to use with `kubectl apply` or `rollcall simulate`
    #[arg(long, exclusive = true)]
    manifests: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.1..=100.0).contains(factor));
    factor.ok_or_else(|| "must be a number from 0.1 to 100".into())
}

pub fn run(arguments: Arguments) -> Result<Outcome> {
    let Arguments { speed, fast, page, manifests } = arguments;
    if manifests {
        output::document(SHOP)?;
        return Ok(Outcome::Done);
    }
    // Opens the page first: if it cannot be written, the command fails before the run, not after it.
    let cannot = || format!("--page: cannot write {}", page.display());
    let mut file = File::create(&page).with_context(cannot)?;
    let pace = if fast { Pace::AtOnce } else { Pace::starting_now(speed) };
    output::data(&introduction(speed, fast))?;
    let mut show = DemoScreen::new(pace);
    let report = rollcall_sim::simulate_for(plan()?, LOOK_EVERY, &mut |snapshot| show.update(snapshot))?;
    file.write_all(simulate::html(&report, "rollcall demo")?.as_bytes()).with_context(cannot)?;
    output::data(&shown!("\n{}", simulate::picture(&report, false)))?;
    let page = page.canonicalize().unwrap_or(page);
    output::data(&next_steps(&page.display().to_string()))?;
    Ok(simulate::outcome(&report))
}

fn plan() -> Result<Plan> {
    Ok(Plan {
        objects: simulate::objects("shop.yaml", SHOP)?,
        nodes: Vec::new(),
        ready_after: Vec::new(),
        fail: Vec::new(),
        at: Vec::new(),
        seed: 1,
        until: UNTIL,
    })
}

fn introduction(speed: f64, fast: bool) -> Shown {
    let pace = match (fast, speed == 1.0) {
        (true, _) => shown!("It runs without delays."),
        (false, true) => shown!("It runs in real time; --fast skips the delays."),
        (false, false) => shown!("It runs at {} times real time.", speed),
    };
    shown!(
        "This demo runs a cluster of 3 nodes inside this process, the real controller, and a shop whose pods start in order.\n{}\n\n",
        pace
    )
}

fn next_steps(page: &str) -> Shown {
    let program = program();
    let next = [
        (format!("{program} demo --manifests > shop.yaml"), "save the manifests of this shop"),
        (
            format!("{program} simulate shop.yaml --fail 'pod=database-0'"),
            "see the effect of a database pod that fails",
        ),
        (format!("{program} simulate YOUR-FILES"), "see the start order of your own manifests"),
        (
            "make cluster".into(),
            "start a real Kubernetes cluster on this machine; continue with docs/guide/first-sequence.md",
        ),
    ];
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let mut text = shown!("\nThe timeline as a page, with the reason for every wait: file://{}\n", page);
    text += shown!("\n{}\n", styled(STRONG, "Next:"));
    for (command, what) in next {
        text += shown!("  {}   {}\n", command.shown().padded(width), what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        assert_eq!((speed("1"), speed("0.5")), (Ok(1.0), Ok(0.5)));
        for wrong in ["0", "-1", "fast", "inf", "NaN", "101"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_pod_of_the_shop_is_held_by_the_gate() {
        let pods =
            plan().unwrap().objects.into_iter().map(|given| given.value["spec"]["template"]["spec"].clone());
        let held: Vec<bool> =
            pods.filter(|spec| spec.is_object()).map(|spec| spec["schedulingGates"].is_array()).collect();
        assert_eq!(held, [true; 4]);
    }
}
