//! P2, P3: many gates at once against a flood of bare patches; P4: writes per pod; P5: CPU per gate.

use super::{IN_FLIGHT, gated_pods};
use crate::lab::{Lab, pod_name, sequence};
use crate::table::Table;
use crate::{Arguments, bare, world};
use anyhow::Result;
use rollcall_testbed::AuditEvent;
use serde_json::json;
use std::time::{Duration, Instant};

const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";

/// Requests of the controller over one piece of work.
#[derive(Default)]
struct Cost {
    writes: usize,
    reads: usize,
    cpu: Duration,
}

pub async fn one_group(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let count = arguments.scaled(5000);
    let (mut ours, mut raw, mut cost) = (Vec::new(), Vec::new(), Cost::default());
    let controller = lab.controller().await?;
    for round in 0..=arguments.rounds {
        let (namespace, seen) = gated_pods(lab, count).await?;
        let audit = lab.cluster.audit_from_now()?;
        let (cpu, begun) = (controller.cpu()?, Instant::now());
        let groups = json!([{ "podSelector": { "matchLabels": { "tier": "web" } } }]);
        lab.sequence(&namespace, "storm", groups).await?;
        let a = world::all_released(seen, count).await?.duration_since(begun).as_secs_f64();
        let used = controller.cpu()? - cpu;
        let (writes, reads) = requests(audit)?;
        lab.clear(&namespace).await?;

        let (namespace, seen) = gated_pods(lab, count).await?;
        let begun = Instant::now();
        let client = lab.cluster.client();
        bare::flood(&client, &namespace, count, IN_FLIGHT).await?;
        let b = world::all_released(seen, count).await?.duration_since(begun).as_secs_f64();
        lab.clear(&namespace).await?;
        eprintln!("P2 round {round}: {a:.2} against {b:.2} s, {writes} writes, {reads} reads, CPU {used:?}");
        if round > 0 {
            ours.push(a);
            raw.push(b);
            cost = Cost { writes: cost.writes + writes, reads: cost.reads + reads, cpu: cost.cpu + used };
        }
    }
    let gates = (count * arguments.rounds) as f64;
    let work = format!("one group of {count} pods: time to open all gates, s");
    table.ratio("P2", &work, &ours, &raw, ("≤ 1.20×", 1.20));
    let per_pod = cost.writes as f64 / gates;
    table.figure("P4", "P2: API writes per pod", format!("{per_pod:.3}"), per_pod, ("≤ 1.05", 1.05));
    table.figure("P4", "P2: reads after the start", format!("{}", cost.reads), cost.reads as f64, ("0", 0.0));
    let cpu = cost.cpu.as_secs_f64() * 1e3 / gates;
    table.figure("P5", "P2: controller CPU per gate", format!("{cpu:.3} ms"), cpu, ("≤ 0.8 ms", 0.8));
    Ok(())
}

pub async fn many_sequences(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    const GROUPS: usize = 10;
    let sequences = arguments.scaled(1000);
    let count = sequences * GROUPS;
    let (mut ours, mut raw, mut cost) = (Vec::new(), Vec::new(), Cost::default());
    for round in 0..=arguments.rounds {
        let (namespace, seen) = gated_pods(lab, count).await?;
        let path = format!("/apis/scheduling.example.com/v1alpha1/namespaces/{namespace}/podsequences");
        let all = (0..sequences).map(|number| {
            let groups: Vec<_> =
                (0..GROUPS).map(|g| json!({ "pods": [pod_name(number * GROUPS + g)] })).collect();
            (path.clone(), sequence(&format!("s-{number:04}"), json!(groups)))
        });
        lab.create(all).await?;
        let mut audit = lab.cluster.audit_from_now()?;
        // All at once: they are there when the controller starts.
        let controller = lab.controller().await?;
        let begun = Instant::now();
        let a = world::play_kubelet(&lab.client, &namespace, seen, count)
            .await?
            .duration_since(begun)
            .as_secs_f64();
        // What is reported after the last gate counts too.
        audit
            .wait_for(Duration::from_secs(60), |event| {
                event.user == ACCOUNT && event.resource == "podsequences" && event.is_committed()
            })
            .await?;
        settle(lab, &namespace, sequences).await?;
        let (writes, _) = requests(audit)?;
        drop(controller);
        lab.clear(&namespace).await?;

        let (namespace, seen) = gated_pods(lab, count).await?;
        let begun = Instant::now();
        let client = lab.cluster.client();
        let flood = bare::flood(&client, &namespace, count, IN_FLIGHT);
        let kubelet = world::play_kubelet(&lab.client, &namespace, seen, count);
        let (_, last) = tokio::try_join!(flood, kubelet)?;
        let b = last.duration_since(begun).as_secs_f64();
        lab.clear(&namespace).await?;
        eprintln!("P3 round {round}: {a:.2} against {b:.2} s, {writes} writes");
        if round > 0 {
            ours.push(a);
            raw.push(b);
            cost.writes += writes;
        }
    }
    let work = format!("{sequences} sequences × {GROUPS} groups × 1 pod at once: total time, s");
    table.ratio("P3", &work, &ours, &raw, ("≤ 1.35×", 1.35));
    let per_pod = cost.writes as f64 / (count * arguments.rounds) as f64;
    table.figure("P4", "P3: API writes per pod", format!("{per_pod:.3}"), per_pod, ("≤ 1.35", 1.35));
    Ok(())
}

/// Waits until every sequence says that it is complete.
async fn settle(lab: &Lab, namespace: &str, sequences: usize) -> Result<()> {
    let path = format!("/apis/scheduling.example.com/v1alpha1/namespaces/{namespace}/podsequences");
    rollcall_testbed::wait::until("all sequences to be complete", Duration::from_secs(120), async || {
        let list: serde_json::Value = lab.client.request(http::Request::get(&path).body(Vec::new())?).await?;
        let items = list["items"].as_array().map_or(&[][..], |items| items);
        let complete = items.iter().filter(|item| item["status"]["phase"] == "Completed").count();
        Ok((complete == sequences).then_some(()))
    })
    .await
}

/// Writes and reads of the controller since the log was opened. Watches are neither.
fn requests(mut audit: rollcall_testbed::AuditLog) -> Result<(usize, usize)> {
    let ours = |event: &&AuditEvent| event.user == ACCOUNT && event.stage == "ResponseComplete";
    let events: Vec<AuditEvent> = audit.all()?.iter().filter(ours).cloned().collect();
    let writes = events.iter().filter(|event| event.is_write() && event.resource != "leases").count();
    let reads = events.iter().filter(|event| matches!(event.verb.as_str(), "get" | "list")).count();
    Ok((writes, reads))
}
