//! P7: scaling with pods, sequences and nodes: time, CPU and writes must grow at most linearly.

use super::storm::{complete_sequences, open_group};
use crate::Arguments;
use crate::controller::{Controller, Mode};
use crate::fleet::Fleet;
use crate::lab::Lab;
use crate::meter::{Cost, Meter};
use crate::table::Table;
use anyhow::Result;

const PODS: [usize; 3] = [1_000, 4_000, 16_000];
const SEQUENCES: [usize; 4] = [10, 100, 1_000, 10_000];
const NODES: [usize; 3] = [100, 800, 3_200];
/// Repeats of short work: a tenth of a second is too short to measure.
const REPEATS: usize = 5;

pub async fn p7(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let controller = lab.controller(Mode::Lite).await?;
    let runs =
        sizes(arguments, "pods", &PODS, async |count| open_group(lab, &controller, count).await).await?;
    drop(controller);
    judge(table, "pods in one group", &runs);
    let runs =
        sizes(arguments, "sequences", &SEQUENCES, async |count| complete_sequences(lab, count, 1).await)
            .await?;
    judge(table, "sequences of one pod", &runs);
    let controller = lab.controller(Mode::Full).await?;
    let runs = sizes(arguments, "nodes", &NODES, async |count| nodes(lab, &controller, count).await).await?;
    judge(table, "nodes closed and opened", &runs);
    Ok(())
}

/// Measures all sizes in turn, so that a slow phase of the machine affects all of them.
async fn sizes(
    arguments: &Arguments,
    what: &str,
    sizes: &[usize],
    mut work: impl AsyncFnMut(usize) -> Result<Cost>,
) -> Result<Vec<(usize, Vec<Cost>)>> {
    let sizes = sizes.iter().map(|size| arguments.scaled(*size));
    let mut runs: Vec<(usize, Vec<Cost>)> = sizes.map(|size| (size, Vec::new())).collect();
    for round in 0..=arguments.rounds {
        // The warm-up round uses only the smallest size.
        let warm_up = if round == 0 { 1 } else { runs.len() };
        for (size, costs) in &mut runs[..warm_up] {
            let repeats = if *size < 100 { REPEATS } else { 1 };
            let mut each = Vec::new();
            for _ in 0..repeats {
                each.push(work(*size).await?);
            }
            let cost = Cost::mean(&each);
            eprintln!("P7 round {round}: {size} {what}: {cost:?}");
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(runs)
}

/// Nodes are blocked for a sequence, and opened when they meet its conditions.
async fn nodes(lab: &Lab, controller: &Controller, count: usize) -> Result<Cost> {
    let fleet = Fleet::new(lab, count).await?;
    let meter = Meter::start(lab, controller.cpu()?)?;
    fleet.close("guard").await?;
    let (_, last) = fleet.open("guard").await?;
    let cost = meter.stop(controller, last)?;
    fleet.forget("guard").await?;
    fleet.clear().await?;
    Ok(cost)
}

fn judge(table: &mut Table, work: &str, runs: &[(usize, Vec<Cost>)]) {
    let mut of = |what: &str, number: fn(&Cost) -> f64| {
        let runs: Vec<(usize, Vec<f64>)> =
            runs.iter().map(|(size, costs)| (*size, costs.iter().map(number).collect())).collect();
        table.growth("P7", &format!("{work}: exponent of {what}"), &runs, ("≤ 1.05", 1.05));
    };
    of("time, s", |cost| cost.seconds);
    of("CPU, s", |cost| cost.cpu.as_secs_f64());
    of("writes", |cost| cost.writes);
}
