//! P6: memory per watched pod; P9: time from the controller's start until it can decide.

use crate::controller::Mode;
use crate::lab::Lab;
use crate::table::Table;
use crate::{Arguments, bare};
use anyhow::Result;
use std::time::Instant;

pub async fn memory_and_start(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let empty = lab.controller(Mode::Lite).await?.memory()?.0;
    let (few, many) = (arguments.scaled(10_000), arguments.scaled(40_000));
    let namespace = lab.namespace().await?;
    lab.pods(&namespace, few).await?;
    if arguments.wants("P9") {
        start(lab, arguments, table, few).await?;
    }
    if arguments.wants("P6") {
        memory(lab, table, few, empty).await?;
        let more = lab.namespace().await?;
        lab.pods(&more, many - few).await?;
        memory(lab, table, many, empty).await?;
        lab.clear(&more).await?;
    }
    lab.clear(&namespace).await
}

async fn start(lab: &Lab, arguments: &Arguments, table: &mut Table, pods: usize) -> Result<()> {
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let begun = Instant::now();
        let controller = lab.spawn(Mode::Lite)?;
        controller.ready().await?;
        let a = begun.elapsed().as_secs_f64();
        drop(controller);
        let begun = Instant::now();
        let listed = bare::list(&lab.cluster.client()).await?;
        let b = begun.elapsed().as_secs_f64();
        eprintln!("P9 round {round}: {a:.3} against {b:.3} s for {listed} pods");
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    table.ratio("P9", &format!("start with {pods} pods: able to decide, s"), &ours, &raw, ("≤ 1.3×", 1.3));
    Ok(())
}

async fn memory(lab: &Lab, table: &mut Table, pods: usize, empty: u64) -> Result<()> {
    let controller = lab.controller(Mode::Lite).await?;
    let (steady, peak) = controller.memory()?;
    let per_pod = steady.saturating_sub(empty) as f64 / pods as f64 / 1024.0;
    let work = format!("{pods} watched pods: memory above the empty process");
    table.figure("P6", &work, format!("{per_pod:.2} KiB per pod"), per_pod, ("≤ 1.5 KiB per pod", 1.5));
    let ratio = peak as f64 / steady as f64;
    table.figure(
        "P6",
        &format!("{pods} watched pods: peak against steady"),
        format!("{ratio:.2}×"),
        ratio,
        ("≤ 1.5×", 1.5),
    );
    Ok(())
}
