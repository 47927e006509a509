//! R2: three Orders on a thousand nodes with heartbeats: the controller must not write, and use hardly any CPU time.

use super::idle::{cost_of_heartbeats, quiet};
use super::tickets::{clear, path};
use crate::Arguments;
use crate::controller::Mode;
use crate::lab::Lab;
use crate::table::Table;
use anyhow::Result;
use rollcall_testbed::{Component, wait};
use serde_json::json;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);
const ORDERS: [&str; 3] = ["logs", "metrics", "network"];

pub async fn steady(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let count = arguments.scaled(1_000);
    lab.nodes(count).await?;
    let namespace = lab.namespace().await?;
    let controller = lab.controller(Mode::Full).await?;
    let orders = path(&namespace, "orders");
    for name in ORDERS {
        let order = json!({
            "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": name },
            "spec": {
                "daemonSet": true,
                "template": { "spec": {
                    "duration": "24h", "resources": { "requests": { "cpu": "100m", "memory": "200Mi" } },
                    "tolerations": [{ "operator": "Exists" }],
                } },
            },
        });
        lab.create(&orders, order).await?;
    }
    wait::until_every(Duration::from_secs(1), "tickets on all nodes", LIMIT, async || {
        for name in ORDERS {
            if lab.get(&format!("{orders}/{name}")).await?["status"]["numberReady"] != count {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await?;
    // From now on the bench simulates the kubelets.
    for component in [Component::Scheduler, Component::Kwok] {
        lab.cluster.stop(component).await?;
    }
    quiet(lab).await?;
    let (cost, seconds) = cost_of_heartbeats(lab, &controller, count, arguments).await?;
    let work = format!("{} Orders on {count} heart-beating nodes, {seconds} s", ORDERS.len());
    table.figure("R2", &format!("{work}: writes"), cost.writes.to_string(), cost.writes, ("0", 0.0));
    let share = cost.cpu.as_secs_f64() / cost.seconds * 100.0;
    table.figure("R2", &format!("{work}: CPU"), format!("{share:.3} % of a core"), share, ("≤ 0.5 %", 0.5));
    let memory = controller.memory()?.0 as f64 / (1 << 20) as f64;
    eprintln!("R2: {memory:.1} MiB for {} tickets", count * ORDERS.len());
    drop(controller);
    clear(lab, &namespace).await
}
