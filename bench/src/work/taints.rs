//! P10: all nodes complete at once: time until their taints are removed, against a flood of minimal patches.

use super::IN_FLIGHT;
use crate::Arguments;
use crate::controller::Mode;
use crate::fleet::Fleet;
use crate::lab::Lab;
use crate::table::Table;
use anyhow::Result;

pub async fn p10(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let fleet = Fleet::new(lab, arguments.scaled(1_000)).await?;
    let _controller = lab.controller(Mode::Full).await?;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let name = format!("guard-{round}");
        fleet.close(&name).await?;
        let (begun, last) = fleet.open(&name).await?;
        let a = last.duration_since(begun).as_secs_f64();
        fleet.forget(&name).await?;
        let b = fleet.raw(IN_FLIGHT).await?;
        eprintln!("P10 round {round}: {a:.3} against {b:.3} s");
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    let work = format!("{} nodes complete at once: time to remove their taints, s", fleet.count);
    table.ratio("P10", &work, &ours, &raw, ("≤ 1.25×", 1.25));
    fleet.clear().await
}
