//! P2, P3: many gates at once, against a flood of minimal patches; P4: writes per pod; P5: CPU time per gate.

use super::{IN_FLIGHT, gated_pods};
use crate::controller::{Controller, Mode};
use crate::lab::{Lab, pod_name, sequence, sequences_path};
use crate::meter::{Cost, Meter};
use crate::table::Table;
use crate::{Arguments, bare, world};
use anyhow::Result;
use serde_json::json;
use std::time::{Duration, Instant};

pub async fn one_group(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let count = arguments.scaled(5000);
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    let controller = lab.controller(Mode::Lite).await?;
    for round in 0..=arguments.rounds {
        let a = open_group(lab, &controller, count).await?;
        let (namespace, seen) = gated_pods(lab, count).await?;
        let begun = Instant::now();
        let client = lab.cluster.client();
        bare::flood(&client, &namespace, count, IN_FLIGHT).await?;
        let b = world::all_released(seen, count).await?.duration_since(begun).as_secs_f64();
        lab.clear(&namespace).await?;
        eprintln!("P2 round {round}: {a:?} against {b:.2} s");
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    let gates = (count * arguments.rounds) as f64;
    let work = format!("one group of {count} pods: time to open all gates, s");
    table.ratio("P2", &work, &seconds(&ours), &raw, ("≤ 1.20×", 1.20));
    let per_pod = writes(&ours) / gates;
    table.figure("P4", "P2: API writes per pod", format!("{per_pod:.3}"), per_pod, ("≤ 1.05", 1.05));
    let reads: f64 = ours.iter().map(|cost| cost.reads).sum();
    table.figure("P4", "P2: reads after the start", format!("{reads}"), reads, ("0", 0.0));
    let cpu: Duration = ours.iter().map(|cost| cost.cpu).sum();
    let cpu = cpu.as_secs_f64() * 1e3 / gates;
    table.figure("P5", "P2: controller CPU per gate", format!("{cpu:.3} ms"), cpu, ("≤ 0.8 ms", 0.8));
    Ok(())
}

pub async fn many_sequences(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    const GROUPS: usize = 10;
    let sequences = arguments.scaled(1000);
    let count = sequences * GROUPS;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let a = complete_sequences(lab, sequences, GROUPS).await?;
        let (namespace, seen) = gated_pods(lab, count).await?;
        let begun = Instant::now();
        let client = lab.cluster.client();
        let flood = bare::flood(&client, &namespace, count, IN_FLIGHT);
        let kubelet = world::play_kubelet(&lab.client, &namespace, seen, count);
        let (_, last) = tokio::try_join!(flood, kubelet)?;
        let b = last.duration_since(begun).as_secs_f64();
        lab.clear(&namespace).await?;
        eprintln!("P3 round {round}: {a:?} against {b:.2} s");
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    let work = format!("{sequences} sequences × {GROUPS} groups × 1 pod at once: total time, s");
    table.ratio("P3", &work, &seconds(&ours), &raw, ("≤ 1.35×", 1.35));
    let per_pod = writes(&ours) / (count * arguments.rounds) as f64;
    table.figure("P4", "P3: API writes per pod", format!("{per_pod:.3}"), per_pod, ("≤ 1.35", 1.35));
    Ok(())
}

/// Measures the controller while it removes the gates of one group in a namespace of its own.
pub async fn open_group(lab: &Lab, controller: &Controller, count: usize) -> Result<Cost> {
    let (namespace, seen) = gated_pods(lab, count).await?;
    let meter = Meter::start(lab, controller.cpu()?)?;
    let groups = json!([{ "podSelector": { "matchLabels": { "tier": "web" } } }]);
    lab.sequence(&namespace, "storm", groups).await?;
    let last = world::all_released(seen, count).await?;
    let cost = meter.stop(controller, last)?;
    lab.tidy(&namespace).await?;
    Ok(cost)
}

/// Measures the controller while it completes sequences with one pod per group, which exist before it starts.
pub async fn complete_sequences(lab: &Lab, sequences: usize, groups: usize) -> Result<Cost> {
    let count = sequences * groups;
    let (namespace, seen) = gated_pods(lab, count).await?;
    let all = (0..sequences).map(|number| {
        let groups: Vec<_> =
            (0..groups).map(|g| json!({ "pods": [pod_name(number * groups + g)] })).collect();
        sequence(&format!("s-{number:05}"), json!(groups))
    });
    lab.create_all(&sequences_path(&namespace), all).await?;
    let mut meter = Meter::start(lab, Duration::ZERO)?;
    let controller = lab.controller(Mode::Lite).await?;
    meter.begun = Instant::now();
    let last = world::play_kubelet(&lab.client, &namespace, seen, count).await?;
    // Status writes after the last gate count, too.
    settle(lab, &namespace, sequences).await?;
    let cost = meter.stop(&controller, last)?;
    lab.tidy(&namespace).await?;
    Ok(cost)
}

/// Waits until the status of every sequence is complete.
async fn settle(lab: &Lab, namespace: &str, sequences: usize) -> Result<()> {
    let pause = Duration::from_millis(100 + sequences as u64 / 4);
    let limit = Duration::from_secs(300);
    rollcall_testbed::wait::until_every(pause, "all sequences to be complete", limit, async || {
        let list = lab.get(&sequences_path(namespace)).await?;
        let items = list["items"].as_array().map_or(&[][..], |items| items);
        let complete = items.iter().filter(|item| item["status"]["phase"] == "Completed").count();
        Ok((complete == sequences).then_some(()))
    })
    .await
}

fn seconds(costs: &[Cost]) -> Vec<f64> {
    costs.iter().map(|cost| cost.seconds).collect()
}

fn writes(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.writes).sum()
}
