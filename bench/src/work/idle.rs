//! P8: the cost of the controller while there are only heartbeats: it must not write, and use hardly any CPU time.

use super::gated_pods;
use crate::controller::{Controller, Mode};
use crate::fleet::{Fleet, node_name};
use crate::lab::{Lab, MERGE, STRATEGIC_MERGE};
use crate::meter::{Cost, Meter};
use crate::table::Table;
use crate::{Arguments, world};
use anyhow::Result;
use jiff::Timestamp;
use rollcall_testbed::wait;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

/// Intervals between lease renewals of a kubelet, and between its reports of an otherwise unchanged status.
const RENEWAL: Duration = Duration::from_secs(10);
const REPORT: Duration = Duration::from_secs(300);
const SECONDS: usize = 120;
/// The controller delays status writes by at most 10 s, so after a longer silence none is pending.
const QUIET: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(300);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

pub async fn p8(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let (nodes, pods) = (arguments.scaled(1_000), arguments.scaled(10_000));
    let fleet = Fleet::new(lab, nodes).await?;
    let (namespace, seen) = gated_pods(lab, pods - nodes).await?;
    let controller = lab.controller(Mode::Full).await?;
    lab.sequence(&namespace, "web", json!([{ "podSelector": { "matchLabels": { "tier": "web" } } }])).await?;
    world::play_kubelet(&lab.client, &namespace, seen, pods - nodes).await?;
    fleet.close("guard").await?;
    fleet.open("guard").await?;
    quiet(lab).await?;
    let (cost, seconds) = cost_of_heartbeats(lab, &controller, nodes, arguments).await?;
    let work = format!("idle, {pods} pods, {nodes} heart-beating nodes, {seconds} s");
    table.figure("P8", &format!("{work}: writes"), cost.writes.to_string(), cost.writes, ("0", 0.0));
    let share = cost.cpu.as_secs_f64() / cost.seconds * 100.0;
    table.figure("P8", &format!("{work}: CPU"), format!("{share:.3} % of a core"), share, ("≤ 0.3 %", 0.3));
    fleet.forget("guard").await?;
    lab.tidy(&namespace).await?;
    fleet.clear().await
}

/// The cost of the controller during heartbeats of all nodes, and the duration in seconds.
pub(super) async fn cost_of_heartbeats(
    lab: &Lab,
    controller: &Controller,
    nodes: usize,
    arguments: &Arguments,
) -> Result<(Cost, u64)> {
    let leases = (0..nodes).map(|number| {
        let metadata = json!({ "name": node_name(number) });
        let spec = json!({ "holderIdentity": node_name(number), "leaseDurationSeconds": 40 });
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec })
    });
    // Leases of the simulated kubelets of an earlier benchmark.
    lab.delete_all(LEASES).await?;
    lab.create_all(LEASES, leases).await?;
    let seconds = arguments.scaled(SECONDS) as u64;
    let meter = Meter::start(lab, controller.cpu()?)?;
    let beats = heartbeats(lab, nodes, Duration::from_secs(seconds)).await?;
    let cost = meter.stop(controller, std::time::Instant::now())?;
    eprintln!("{cost:?}, {beats} heartbeats");
    lab.delete_all(LEASES).await?;
    Ok((cost, seconds))
}

/// Waits until the controller has no pending writes.
pub(super) async fn quiet(lab: &Lab) -> Result<()> {
    let mut meter = Meter::start(lab, Duration::ZERO)?;
    let (mut writes, mut since) = (0, Instant::now());
    wait::until_every(Duration::from_secs(1), "a controller without pending writes", LIMIT, async || {
        let now = meter.writes()?;
        if now != writes {
            (writes, since) = (now, Instant::now());
        }
        Ok((since.elapsed() > QUIET).then_some(()))
    })
    .await
}

/// Sends the heartbeats of this many kubelets, evenly distributed; returns their number.
async fn heartbeats(lab: &Lab, nodes: usize, time: Duration) -> Result<usize> {
    let end = Instant::now() + time;
    let (mut renewals, mut reports) = (interval(RENEWAL / nodes as u32), interval(REPORT / nodes as u32));
    let (mut renewed, mut reported) = (0, 0);
    let mut writes = JoinSet::new();
    loop {
        let client = lab.client.clone();
        tokio::select! {
            biased;
            () = sleep_until(end) => break,
            Some(written) = writes.join_next() => written??,
            _ = reports.tick() => {
                let path = format!("/api/v1/nodes/{}/status", node_name(reported % nodes));
                let ready = json!({ "type": "Ready", "lastHeartbeatTime": seconds() });
                let body = json!({ "status": { "conditions": [ready] } });
                writes.spawn(async move { crate::lab::patch(&client, &path, STRATEGIC_MERGE, &body).await });
                reported += 1;
            }
            _ = renewals.tick() => {
                let path = format!("{LEASES}/{}", node_name(renewed % nodes));
                let body = json!({ "spec": { "renewTime": format!("{:.6}", Timestamp::now()) } });
                writes.spawn(async move { crate::lab::patch(&client, &path, MERGE, &body).await });
                renewed += 1;
            }
        }
    }
    while let Some(written) = writes.join_next().await {
        written??;
    }
    Ok(renewed + reported)
}

fn seconds() -> String {
    format!("{:.0}", Timestamp::now())
}
