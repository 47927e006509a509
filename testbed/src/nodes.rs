//! Node objects that kwok simulates.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Capacity, Cluster};
use crate::wait;

/// Maximum number of concurrent creations.
const CONCURRENCY: usize = 16;
/// Time limit, sufficient for thousands of nodes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Adds nodes with the next free numbers in their names.
pub async fn add(cluster: &Cluster, count: usize, capacity: &Capacity) -> Result<Vec<String>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let existing = Api::<Node>::all(cluster.client()).list_metadata(&ListParams::default()).await?;
    let next = existing
        .items
        .iter()
        .filter_map(|node| node.metadata.name.as_deref()?.strip_prefix("node-")?.parse::<usize>().ok())
        .max()
        .map_or(0, |highest| highest + 1);
    let names: Vec<String> = (next..next + count).map(|number| format!("node-{number}")).collect();
    add_named(cluster, &names, capacity).await?;
    Ok(names)
}

pub async fn add_named(cluster: &Cluster, names: &[String], capacity: &Capacity) -> Result<()> {
    let nodes = Api::<Node>::all(cluster.client());
    stream::iter(names)
        .map(async |name| {
            let node: Node = serde_json::from_value(node(name, capacity, Timestamp::now()))?;
            nodes.create(&PostParams::default(), &node).await.map_err(anyhow::Error::from)
        })
        .buffer_unordered(CONCURRENCY)
        .try_for_each(async |_| Ok(()))
        .await?;
    // Listing 1,000 nodes costs the API server about 20 ms.
    let pause = Duration::from_millis(20 + names.len() as u64 / 2);
    wait::until_every(pause, "the nodes", LIMIT, async || {
        let list = nodes.list(&ListParams::default()).await?;
        let usable = list.items.iter().filter(|node| takes_pods(node));
        let usable: BTreeSet<&String> = usable.filter_map(|node| node.metadata.name.as_ref()).collect();
        Ok(names.iter().all(|name| usable.contains(name)).then_some(()))
    })
    .await
}

pub async fn remove(cluster: &Cluster, name: &str) -> Result<()> {
    let nodes = Api::<Node>::all(cluster.client());
    nodes.delete(name, &DeleteParams::default()).await?;
    cluster
        .until("the deletion of the node", async || Ok(nodes.get_opt(name).await?.is_none().then_some(())))
        .await
}

/// A Node object that is already ready, and has the labels that the node controller would add. With 1,000 nodes, this
/// saves half of the writes. The API server adds the not-ready taint by itself.
pub fn node(name: &str, capacity: &Capacity, now: Timestamp) -> Value {
    let Capacity { cpu, memory, pods } = capacity;
    let room = json!({"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "1000Gi"});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "testbed.rollcall.dev/node": "kwok",
            },
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                condition("Ready", "True", "KubeletReady"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "kwok",
                "kernelVersion": "kwok",
                "kubeProxyVersion": "",
                "kubeletVersion": "kwok",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "kwok",
                "systemUUID": "",
            },
        },
    })
}

/// Whether the node is ready and the node controller has removed the not-ready taint.
pub fn takes_pods(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    ready && !taints.iter().any(|taint| taint.key.starts_with("node.kubernetes.io/"))
}
