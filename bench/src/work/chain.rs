//! P1: pods that start one after another: time from the write of Ready to the removal of the next gate.

use super::gated_pods;
use crate::controller::Mode;
use crate::lab::{Lab, pod_name};
use crate::table::{Table, quantile};
use crate::{Arguments, bare, world};
use anyhow::Result;
use serde_json::json;
use std::time::Instant;

enum Opener {
    Rollcall,
    Bare,
}

pub async fn p1(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let count = arguments.scaled(500);
    let _controller = lab.controller(Mode::Lite).await?;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let a = run(lab, count, Opener::Rollcall).await?;
        let b = run(lab, count, Opener::Bare).await?;
        eprintln!(
            "P1 round {round}: p50 {:.2} against {:.2} ms",
            1e3 * quantile(&a, 0.5),
            1e3 * quantile(&b, 0.5)
        );
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    for (q, name, promise) in [(0.5, "p50", ("≤ 1.5×", 1.5)), (0.99, "p99", ("≤ 2×", 2.0))] {
        let of = |runs: &[Vec<f64>]| runs.iter().map(|run| quantile(run, q)).collect::<Vec<f64>>();
        let work = format!("1 sequence × {count} groups × 1 pod: Ready → next gate gone, {name}, s");
        table.ratio("P1", &work, &of(&ours), &of(&raw), promise);
    }
    Ok(())
}

async fn run(lab: &Lab, count: usize, opener: Opener) -> Result<Vec<f64>> {
    let (namespace, mut seen) = gated_pods(lab, count).await?;
    let bare = match opener {
        Opener::Rollcall => {
            let groups: Vec<_> = (0..count).map(|number| json!({ "pods": [pod_name(number)] })).collect();
            lab.sequence(&namespace, "chain", json!(groups)).await?;
            None
        }
        Opener::Bare => {
            // Uses a separate client, as the controller does.
            let client = lab.cluster.client();
            let watch = world::watch(&client, &namespace).await?;
            let namespace = namespace.clone();
            Some(tokio::spawn(async move { bare::chain(&client, &namespace, watch, count).await }))
        }
    };
    let mut latencies = Vec::new();
    let mut ready: Option<Instant> = None;
    for number in 0..count {
        let opened = loop {
            let Some(pod) = seen.recv().await else { anyhow::bail!("the watch ended") };
            if !pod.gated && !pod.ready && pod.name == pod_name(number) {
                break pod.at;
            }
        };
        if let Some(ready) = ready {
            latencies.push(opened.saturating_duration_since(ready).as_secs_f64());
        }
        ready = Some(world::make_ready(&lab.client, &namespace, &pod_name(number)).await?);
    }
    if let Some(bare) = bare {
        bare.await??;
    }
    lab.clear(&namespace).await?;
    Ok(latencies)
}
