//! Hand-overs on a real kubelet. The kubelet does its own accounting, and rejects a pod that does not fit when it arrives.

use super::{apply, install, list, pod};
use crate::common::*;
use anyhow::{Context, ensure};
use futures::future::try_join_all;
use rollcall_testbed::Cluster;

const ROUNDS: usize = 10;
const ROOMS: usize = 3;
/// CPU per ticket, in thousandths.
const ROOM: u64 = 400;
const PAUSE: &str = "localhost/pause:test";

#[tokio::test]
async fn thirty_rooms_are_handed_over_and_no_pod_comes_too_early() -> Result<()> {
    let lab = install(0).await?;
    let node = lab.cluster().start_real_node("real").await?;
    let _controller = Controller::start(&lab, Options::args(&["--guardian-image", PAUSE])).await?;
    let namespace = lab.cluster().namespace("kubelet").await?;
    fill(lab.cluster(), &namespace).await?;
    for round in 0..ROUNDS {
        hand_over(lab.cluster(), &namespace, round).await.with_context(|| format!("round {round}"))?;
    }
    node.stop_kubelet().await
}

/// Fills the node so that only the capacity for the tickets is free.
async fn fill(cluster: &Cluster, namespace: &str) -> Result<()> {
    let node: Value = serde_json::from_str(&cluster.kubectl_ok(&["get", "node", "real", "-o", "json"])?)?;
    let cpus: u64 = node["status"]["allocatable"]["cpu"].as_str().context("CPUs")?.parse()?;
    let rest = cpus * 1000 - ROOMS as u64 * ROOM;
    apply(cluster, namespace, &running("filler", &format!("{rest}m")))?;
    ready(cluster, namespace, "filler").await
}

/// A pod with this CPU request and an image that exists on the node.
fn running(name: &str, cpu: &str) -> Value {
    pod(name, json!({ "terminationGracePeriodSeconds": 0 })).with(json!({ "spec": { "containers": [{
        "name": "main", "image": PAUSE, "resources": { "requests": { "cpu": cpu } },
    }] } }))
}

async fn ready(cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
    wait::until(&format!("{name} to run"), LIMIT, async || {
        let pod = cluster.read(namespace, &format!("pod/{name}"))?;
        ensure!(pod["status"]["reason"].is_null(), "the kubelet rejected it: {}", pod["status"]);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|one| one["type"] == "Ready" && one["status"] == "True");
        Ok(ready.next().map(drop))
    })
    .await
}

/// Running guardians reserve capacity, foreign pods of the same size stay Pending, and as many pods claim all tickets at the
/// same time.
async fn hand_over(cluster: &Cluster, namespace: &str, round: usize) -> Result<()> {
    let room = format!("{ROOM}m");
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "rooms" },
        "spec": {
            "replicas": ROOMS,
            "strategy": { "refreshPolicy": "Never" },
            "template": { "spec": { "resources": { "requests": { "cpu": room } } } },
        },
    });
    apply(cluster, namespace, &order)?;
    let available = format!("--for=jsonpath={{.status.availableReplicas}}={ROOMS}");
    cluster.kubectl_ok(&["wait", "-n", namespace, "order/rooms", &available, "--timeout=180s"])?;
    let numbered = |word: &str| (0..ROOMS).map(|number| format!("{word}-{number}")).collect::<Vec<String>>();
    let (strangers, claimers) = (numbered("stranger"), numbered(&format!("claimer-{round}")));
    for stranger in &strangers {
        apply(cluster, namespace, &running(stranger, &room))?;
    }
    for claimer in &claimers {
        let held = json!({
            "metadata": { "annotations": { "korder.dev/order-request": "rooms" } },
            "spec": { "schedulingGates": [{ "name": "korder.dev/ticket-gate" }] },
        });
        apply(cluster, namespace, &running(claimer, &room).with(held))?;
    }
    try_join_all(claimers.iter().map(|claimer| ready(cluster, namespace, claimer))).await?;
    for pod in list(cluster, namespace, "pods")? {
        let name = pod["metadata"]["name"].as_str().context("a name")?;
        ensure!(!name.starts_with("korder-guardian-"), "guardian {name} still exists");
        let waits = pod["spec"]["nodeName"].is_null();
        ensure!(waits == name.starts_with("stranger-"), "{pod}");
    }
    cluster.kubectl_ok(&["delete", "-n", namespace, "order/rooms"])?;
    let pods = strangers.iter().chain(&claimers).map(String::as_str);
    cluster.kubectl_ok(&["delete", "pods", "-n", namespace].into_iter().chain(pods).collect::<Vec<_>>())?;
    wait::until("deletion of the tickets", LIMIT, async || {
        Ok(list(cluster, namespace, "tickets")?.is_empty().then_some(()))
    })
    .await
}
