//! P13: an Order with a ticket on each of a thousand nodes: time until all tickets exist, against a flood of minimal
//! creations.

use super::IN_FLIGHT;
use crate::Arguments;
use crate::controller::Mode;
use crate::fleet::node_name;
use crate::lab::{Lab, NODES_PATH, at_a_time, pods_path};
use crate::table::Table;
use crate::world::{self, Name};
use anyhow::{Result, bail};
use rollcall_testbed::wait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const LIMIT: Duration = Duration::from_secs(600);

pub async fn p13(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    lab.reservations()?;
    let count = arguments.scaled(1_000);
    lab.nodes(count).await?;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let a = by_an_order(lab, count).await?;
        let b = by_hand(lab, count).await?;
        eprintln!("P13 round {round}: {a:.3} against {b:.3} s");
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    let work = format!("an Order on {count} nodes: time to create all tickets, s");
    table.ratio("P13", &work, &ours, &raw, ("≤ 1.35×", 1.35));
    lab.delete_all(NODES_PATH).await
}

pub(super) fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/core.korder.dev/v1alpha1/namespaces/{namespace}/{plural}")
}

fn spec() -> Value {
    json!({
        "duration": "24h", "resources": { "requests": { "cpu": "100m", "memory": "200Mi" } },
        "tolerations": [{ "operator": "Exists", "effect": "NoSchedule" }],
    })
}

/// The controller creates the tickets; meanwhile it also starts with the guardians.
async fn by_an_order(lab: &Lab, count: usize) -> Result<f64> {
    let namespace = lab.namespace().await?;
    let controller = lab.controller(Mode::Full).await?;
    let seen = tickets(lab, &namespace).await?;
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "room" },
        "spec": { "daemonSet": true, "template": { "spec": spec() } },
    });
    let begun = Instant::now();
    lab.create(&path(&namespace, "orders"), order).await?;
    let took = all(seen, count).await?.duration_since(begun).as_secs_f64();
    drop(controller);
    clear(lab, &namespace).await?;
    Ok(took)
}

/// A minimal client creates objects of the same size, with the same concurrency.
async fn by_hand(lab: &Lab, count: usize) -> Result<f64> {
    let namespace = lab.namespace().await?;
    let seen = tickets(lab, &namespace).await?;
    let tickets = path(&namespace, "tickets");
    let ticket = |number: usize| {
        let owner = json!({
            "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "name": "room", "controller": true,
            "uid": "00000000-0000-4000-8000-000000000000",
        });
        let mut spec = spec();
        spec["nodeName"] = node_name(number).into();
        json!({
            "apiVersion": "core.korder.dev/v1alpha1", "kind": "Ticket", "spec": spec,
            "metadata": {
                "name": format!("room-{}", node_name(number)), "ownerReferences": [owner],
                "labels": { "korder.dev/template-hash": "0123456789abcdef", "korder.dev/order-uid": "00000000-0000-4000-8000-000000000000" },
            },
        })
    };
    let begun = Instant::now();
    at_a_time(IN_FLIGHT, (0..count).map(|number| lab.create(&tickets, ticket(number)))).await?;
    let took = all(seen, count).await?.duration_since(begun).as_secs_f64();
    clear(lab, &namespace).await?;
    Ok(took)
}

/// A created ticket, and the time when it was seen.
struct Made {
    name: String,
    at: Instant,
}

#[derive(Clone, Deserialize)]
struct TicketView {
    metadata: Name,
}

async fn tickets(lab: &Lab, namespace: &str) -> Result<mpsc::UnboundedReceiver<Made>> {
    let view = |ticket: TicketView, at| Made { name: ticket.metadata.name, at };
    world::changes(&lab.client, &path(namespace, "tickets"), view).await
}

/// Waits until all tickets exist; returns the time of the last creation.
async fn all(mut seen: mpsc::UnboundedReceiver<Made>, count: usize) -> Result<Instant> {
    let mut made = BTreeSet::new();
    let all = async {
        while let Some(Made { name, at }) = seen.recv().await {
            made.insert(name);
            if made.len() == count {
                return Ok(at);
            }
        }
        bail!("the watch ended")
    };
    tokio::time::timeout(LIMIT, all).await?
}

/// Removes everything of a round, and waits until it is deleted.
pub(super) async fn clear(lab: &Lab, namespace: &str) -> Result<()> {
    let (tickets, pods) = (path(namespace, "tickets"), pods_path(namespace));
    for all in [path(namespace, "orders"), tickets.clone(), format!("{pods}?gracePeriodSeconds=0")] {
        lab.delete_all(&all).await?;
    }
    wait::until_every(Duration::from_millis(500), "nothing left", LIMIT, async || {
        let mut left = 0;
        for list in [&tickets, &pods] {
            left += lab.get(&format!("{list}?limit=1")).await?["items"].as_array().map_or(0, Vec::len);
        }
        Ok((left == 0).then_some(()))
    })
    .await
}
