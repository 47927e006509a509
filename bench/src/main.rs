//! The benchmarks: each measures the controller and a baseline alternately on a real API server, and prints ratios.
//! Absolute times depend on the machine, so the promises concern ratios.
//!
//! - [`lab`]: the cluster, with thousands of pods. [`fleet`]: thousands of nodes.
//! - [`controller`]: the controller under test. [`meter`]: the cost of a piece of work.
//! - [`world`]: watches of pods, and a simulated kubelet that makes released pods ready.
//! - [`bare`], [`bare_webhook`]: the baselines: minimal clients that do the same writes, and a minimal webhook.
//! - [`work`]: P1 to P13, R1 to R3, and W1, which needs no cluster. [`table`]: the results.

mod bare;
mod bare_webhook;
mod controller;
mod fleet;
mod lab;
mod meter;
mod table;
mod work;
mod world;

use anyhow::Result;
use clap::Parser;
use lab::Lab;
use table::Table;

/// Run the benchmarks and print one table
#[derive(Parser)]
pub struct Arguments {
    /// Run only these benchmarks, such as P1,P4
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Number of rounds that count, for each side; they follow a warm-up round
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Factor for all sizes; the promises apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Also write the table to this file
    #[arg(long)]
    markdown: Option<std::path::PathBuf>,
}

impl Arguments {
    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted.eq_ignore_ascii_case(id))
    }

    fn scaled(&self, number: usize) -> usize {
        ((number as f64 * self.scale) as usize).max(10)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut table = Table::new(arguments.scale);
    if arguments.wants("W1") {
        work::satisfied_wait::w1(&arguments, &mut table)?;
    }
    if arguments.wants("P11") {
        work::launch::p11(&arguments, &mut table).await?;
    }
    if ["R1", "R2", "R3"].iter().any(|id| arguments.wants(id)) {
        with_reservations(&arguments, &mut table).await?;
    }
    let elsewhere =
        |id: &&String| ["W1", "P11", "R1", "R2", "R3"].iter().any(|other| id.eq_ignore_ascii_case(other));
    if arguments.only.iter().any(|id| !elsewhere(&id)) || arguments.only.is_empty() {
        on_a_cluster(&arguments, &mut table).await?;
    }
    let text = table.render();
    println!("{text}");
    if let Some(file) = &arguments.markdown {
        std::fs::write(file, &text)?;
    }
    Ok(())
}

async fn with_reservations(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let lab = Lab::with_a_scheduler().await?;
    lab.reservations()?;
    if arguments.wants("R1") {
        work::hand_over::hand_over(&lab, arguments, table).await?;
    }
    if arguments.wants("R2") {
        work::orders::steady(&lab, arguments, table).await?;
    }
    if arguments.wants("R3") {
        work::contended::at_once(&lab, arguments, table).await?;
    }
    Ok(())
}

async fn on_a_cluster(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let lab = Lab::start().await?;
    if arguments.wants("P1") {
        work::chain::p1(&lab, arguments, table).await?;
    }
    if ["P2", "P4", "P5"].iter().any(|id| arguments.wants(id)) {
        work::storm::one_group(&lab, arguments, table).await?;
    }
    if ["P3", "P4"].iter().any(|id| arguments.wants(id)) {
        work::storm::many_sequences(&lab, arguments, table).await?;
    }
    if ["P6", "P9"].iter().any(|id| arguments.wants(id)) {
        work::watched::memory_and_start(&lab, arguments, table).await?;
    }
    if arguments.wants("P7") {
        work::growth::p7(&lab, arguments, table).await?;
    }
    if arguments.wants("P8") {
        work::idle::p8(&lab, arguments, table).await?;
    }
    if arguments.wants("P10") {
        work::taints::p10(&lab, arguments, table).await?;
    }
    if arguments.wants("P12") {
        work::webhook::p12(&lab, arguments, table).await?;
    }
    if arguments.wants("P13") {
        work::tickets::p13(&lab, arguments, table).await?;
    }
    Ok(())
}
