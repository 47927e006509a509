//! Claiming pods that do not fit their ticket, and claiming pods with other gates.

use super::{apply, list, pod, reserved_on};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::Cluster;

const GATED: &str = "korder.dev/ticket-gate";

fn order_on(node: &str) -> Value {
    json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "room" },
        "spec": {
            "daemonSet": true,
            "template": { "spec": {
                "resources": { "requests": { "cpu": "1" } }, "nodeSelector": { "kubernetes.io/hostname": node },
            } },
        },
    })
}

fn claimer(name: &str, more: Value) -> Value {
    let asks = json!({ "metadata": { "annotations": { "korder.dev/order-request": "room" } } });
    pod(name, json!({ "schedulingGates": [{ "name": GATED }] })).with(asks).with(more)
}

fn with_port(port: u16) -> Value {
    json!({ "spec": { "containers": [{
        "name": "main", "image": "pause", "resources": { "requests": { "cpu": "1" } },
        "ports": [{ "containerPort": port, "hostPort": port }],
    }] } })
}

async fn get(cluster: &Cluster, namespace: &str, what: &str) -> Result<Value> {
    cluster.read(namespace, what)
}

async fn running_on(cluster: &Cluster, namespace: &str, name: &str) -> Result<String> {
    let what = format!("pod/{name}");
    cluster.kubectl_ok(&["wait", "-n", namespace, &what, "--for=condition=Ready", "--timeout=180s"])?;
    Ok(get(cluster, namespace, &what).await?["spec"]["nodeName"].as_str().context("a node")?.to_owned())
}

async fn wait_for_event(cluster: &Cluster, namespace: &str, pod: &str, reason: &str) -> Result<()> {
    wait::until(&format!("{reason} about {pod}"), LIMIT, async || {
        let events = list(cluster, namespace, "events")?;
        let is_it = |event: &&Value| event["reason"] == reason && event["involvedObject"]["name"] == pod;
        Ok(events.iter().find(is_it).map(drop))
    })
    .await
}

/// A foreign pod uses the host port on the ticket's node. A claiming pod that cannot run there is scheduled elsewhere at once,
/// and the capacity is reserved again. A pod that fits no node stays Pending and blocks no other pod.
pub async fn who_cannot_run_on_its_room_runs_elsewhere(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let namespace = cluster.namespace("ports").await?;
    let holder = |name: &str, node: &str, port: u16| {
        pod(name, json!({ "nodeSelector": { "kubernetes.io/hostname": node } })).with(with_port(port))
    };
    for object in [
        holder("a", "node-0", 8443),
        holder("b", "node-0", 9443),
        holder("c", "node-1", 9443),
        order_on("node-0"),
    ] {
        apply(cluster, &namespace, &object)?;
    }
    for name in ["a", "b", "c"] {
        running_on(cluster, &namespace, name).await?;
    }
    reserved_on(cluster, &namespace, &["node-0"]).await?;

    apply(cluster, &namespace, &claimer("elsewhere", with_port(8443)))?;
    ensure!(running_on(cluster, &namespace, "elsewhere").await? == "node-1");
    wait_for_event(cluster, &namespace, "elsewhere", "NotBound").await?;
    reserved_on(cluster, &namespace, &["node-0"]).await?;
    let annotations = get(cluster, &namespace, "pod/elsewhere").await?["metadata"]["annotations"].clone();
    ensure!(annotations["korder.dev/ticket-claimed"].is_null(), "{annotations}");

    apply(cluster, &namespace, &claimer("nowhere", with_port(9443)))?;
    wait_for_event(cluster, &namespace, "nowhere", "NotBound").await?;
    reserved_on(cluster, &namespace, &["node-0"]).await?;
    apply(cluster, &namespace, &claimer("next", json!({})))?;
    ensure!(running_on(cluster, &namespace, "next").await? == "node-0");
    let nowhere = get(cluster, &namespace, "pod/nowhere").await?;
    ensure!(
        nowhere["spec"]["nodeName"].is_null() && nowhere["spec"]["schedulingGates"].is_null(),
        "{nowhere}"
    );
    // Otherwise it would run on the next node that joins.
    cluster.kubectl_ok(&["delete", "pod/nowhere", "-n", &namespace]).map(drop)
}

/// A member of a sequence with a container start order claims a ticket: it has three gates, and each is removed independently.
pub async fn three_gates_on_one_pod(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let namespace = cluster.namespace("three").await?;
    let group = |name: &str| json!({ "name": name, "pods": [name] });
    let sequence = json!({
        "apiVersion": "scheduling.example.com/v1alpha1", "kind": "PodSequence", "metadata": { "name": "s" },
        "spec": { "podGroups": [group("first"), group("second")] },
    });
    apply(cluster, &namespace, &order_on("node-1"))?;
    apply(cluster, &namespace, &sequence)?;
    reserved_on(cluster, &namespace, &["node-1"]).await?;
    let container = |name: &str, priority: &str| {
        json!({
            "name": name, "image": "pause", "resources": { "requests": { "cpu": "500m" } },
            "env": [{ "name": "KRUISE_CONTAINER_PRIORITY", "value": priority }],
        })
    };
    let second = claimer(
        "second",
        json!({ "spec": {
        "schedulingGates": [{ "name": GATE }, { "name": GATED }],
        "containers": [container("main", "0"), container("before", "1")],
    } }),
    );
    apply(cluster, &namespace, &second)?;
    let gates = |pod: &Value| {
        let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
        gates.iter().filter_map(|gate| gate["name"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    // Capacity is not handed over to a pod that other gates still hold.
    wait::until("only the two other gates", LIMIT, async || {
        let found = gates(&get(cluster, &namespace, "pod/second").await?);
        Ok((found == [GATE, GATED]).then_some(()))
    })
    .await?;
    reserved_on(cluster, &namespace, &["node-1"]).await?;
    apply(cluster, &namespace, &pod("first", json!({ "schedulingGates": [{ "name": GATE }] })))?;
    ensure!(running_on(cluster, &namespace, "second").await? == "node-1");
    let annotations = get(cluster, &namespace, "pod/second").await?["metadata"]["annotations"].clone();
    ensure!(annotations["korder.dev/ticket-claimed"] == "room-node-1", "{annotations}");
    Ok(())
}
