//! Benchmark R1: how long a pod that claims a reservation waits until its gate is removed, and until it is bound. A minimal
//! client is measured beside it. The client does the three steps of a hand-over: it nominates the node, deletes the guardian and removes the gate.

use super::tickets::{clear, path};
use crate::Arguments;
use crate::controller::Mode;
use crate::lab::{Lab, NODES_PATH, STRATEGIC_MERGE, patch, pods_path};
use crate::table::{Table, quantile};
use crate::world::{self, Name};
use anyhow::{Context, Result, bail};
use kube::Client;
use rollcall_testbed::wait;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const GATE: &str = "korder.dev/ticket-gate";
const NODES: usize = 20;
const LIMIT: Duration = Duration::from_secs(300);

/// For each claiming pod, the seconds since its creation.
#[derive(Default)]
struct Times {
    released: Vec<f64>,
    bound: Vec<f64>,
}

type Of = fn(&Times) -> &[f64];

impl Times {
    fn of_gates(&self) -> &[f64] {
        &self.released
    }

    fn of_bindings(&self) -> &[f64] {
        &self.bound
    }
}

pub async fn hand_over(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    let count = arguments.scaled(200);
    lab.nodes(NODES).await?;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let a = by_an_order(lab, count).await?;
        let b = by_hand(lab, count).await?;
        let middle = |times: &[f64]| 1e3 * quantile(times, 0.5);
        eprintln!(
            "R1 round {round}: gate gone after {:.2} against {:.2} ms, bound after {:.2} against {:.2} ms",
            middle(&a.released),
            middle(&b.released),
            middle(&a.bound),
            middle(&b.bound)
        );
        if round > 0 {
            ours.push(a);
            raw.push(b);
        }
    }
    for (moment, times) in [("its gate is gone", Times::of_gates as Of), ("it is bound", Times::of_bindings)]
    {
        for (q, name) in [(0.5, "p50"), (0.99, "p99")] {
            let of = |runs: &[Times]| runs.iter().map(|run| quantile(times(run), q)).collect::<Vec<f64>>();
            let work = format!("{count} claims, one after another: created → {moment}, {name}, s");
            table.ratio("R1", &work, &of(&ours), &of(&raw), ("≤ 2×", 2.0));
        }
    }
    lab.delete_all(NODES_PATH).await
}

async fn by_an_order(lab: &Lab, count: usize) -> Result<Times> {
    let namespace = lab.namespace().await?;
    let controller = lab.controller(Mode::Full).await?;
    // The Order creates no new tickets while the claims are measured.
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "room" },
        "spec": {
            "replicas": count, "strategy": { "refreshPolicy": "Never" },
            "template": { "spec": { "resources": { "requests": { "cpu": "100m" } }, "tolerations": tolerations() } },
        },
    });
    let orders = path(&namespace, "orders");
    lab.create(&orders, order).await?;
    wait::until_every(Duration::from_millis(200), "all rooms", LIMIT, async || {
        let order = lab.get(&format!("{orders}/room")).await?;
        Ok((order["status"]["availableReplicas"] == count).then_some(()))
    })
    .await?;
    let times = claims(lab, &namespace, count).await?;
    drop(controller);
    clear(lab, &namespace).await?;
    Ok(times)
}

async fn by_hand(lab: &Lab, count: usize) -> Result<Times> {
    let namespace = lab.namespace().await?;
    let guardians = (0..count).map(|number| pod(&guardian(number), json!({})));
    lab.create_all(&pods_path(&namespace), guardians).await?;
    let mut rooms = BTreeMap::new();
    wait::until_every(Duration::from_millis(200), "all guardians", LIMIT, async || {
        let list = lab.get(&pods_path(&namespace)).await?;
        let running = list["items"]
            .as_array()
            .context("pods")?
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running");
        rooms = running.map(|pod| (pod["metadata"]["name"].to_string(), pod.clone())).collect();
        Ok((rooms.len() == count).then_some(()))
    })
    .await?;
    // Uses a separate client, as the controller does.
    let client = lab.cluster.client();
    let seen = pods(&client, &namespace).await?;
    let rooms: Vec<Value> = rooms.into_values().collect();
    let bare = tokio::spawn(bare(client, namespace.clone(), seen, rooms));
    let times = claims(lab, &namespace, count).await?;
    bare.await??;
    clear(lab, &namespace).await?;
    Ok(times)
}

/// Hands the next guardian's reservation to each new claiming pod.
async fn bare(
    client: Client,
    namespace: String,
    mut seen: mpsc::UnboundedReceiver<Seen>,
    rooms: Vec<Value>,
) -> Result<()> {
    let pods = pods_path(&namespace);
    for (number, room) in rooms.iter().enumerate() {
        let name = claimer(number);
        while seen.recv().await.context("the watch ended")?.name != name {}
        let nomination = json!({ "status": { "nominatedNodeName": room["spec"]["nodeName"] } });
        patch(&client, &format!("{pods}/{name}/status"), STRATEGIC_MERGE, &nomination).await?;
        let guardian = room["metadata"]["name"].as_str().context("a name")?;
        let body = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
            "preconditions": { "uid": room["metadata"]["uid"] },
        });
        let request =
            http::Request::delete(format!("{pods}/{guardian}")).header("content-type", "application/json");
        client.request::<IgnoredAny>(request.body(body.to_string().into_bytes())?).await?;
        let open = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": GATE }] } });
        patch(&client, &format!("{pods}/{name}"), STRATEGIC_MERGE, &open).await?;
    }
    Ok(())
}

/// Creates claiming pods one after another, each when the previous one is bound.
async fn claims(lab: &Lab, namespace: &str, count: usize) -> Result<Times> {
    let mut seen = pods(&lab.client, namespace).await?;
    let mut times = Times::default();
    for number in 0..count {
        let name = claimer(number);
        let mut pod = pod(&name, json!([{ "name": GATE }]));
        pod["metadata"]["annotations"] = json!({ "korder.dev/order-request": "room" });
        let begun = Instant::now();
        lab.create(&pods_path(namespace), pod).await?;
        let mut released = None;
        loop {
            let Seen { name: of, gated, bound, at } = next(&mut seen).await?;
            let after = at.duration_since(begun).as_secs_f64();
            if of != name || gated {
                continue;
            }
            released = released.or(Some(after));
            if bound {
                times.bound.push(after);
                break;
            }
        }
        times.released.extend(released);
    }
    Ok(times)
}

async fn next(seen: &mut mpsc::UnboundedReceiver<Seen>) -> Result<Seen> {
    match tokio::time::timeout(LIMIT, seen.recv()).await {
        Ok(Some(pod)) => Ok(pod),
        Ok(None) => bail!("the watch ended"),
        Err(_) => bail!("no change of the pod in time"),
    }
}

fn claimer(number: usize) -> String {
    format!("claimer-{number:05}")
}

fn guardian(number: usize) -> String {
    format!("guardian-{number:05}")
}

/// Tolerates all taints, because no controller removes the initial taint of a new node.
fn tolerations() -> Value {
    json!([{ "operator": "Exists" }])
}

fn pod(name: &str, gates: Value) -> Value {
    let container =
        json!({ "name": "main", "image": "pause", "resources": { "requests": { "cpu": "100m" } } });
    let mut spec = json!({
        "containers": [container], "automountServiceAccountToken": false, "tolerations": tolerations(),
    });
    if gates.is_array() {
        spec["schedulingGates"] = gates;
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

/// A change of a pod.
struct Seen {
    name: String,
    gated: bool,
    bound: bool,
    at: Instant,
}

#[derive(Clone, Deserialize)]
struct PodView {
    metadata: Name,
    spec: Spec,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    scheduling_gates: Vec<IgnoredAny>,
    node_name: Option<String>,
}

async fn pods(client: &Client, namespace: &str) -> Result<mpsc::UnboundedReceiver<Seen>> {
    world::changes(client, &pods_path(namespace), |pod: PodView, at| Seen {
        name: pod.metadata.name,
        gated: !pod.spec.scheduling_gates.is_empty(),
        bound: pod.spec.node_name.is_some(),
        at,
    })
    .await
}
