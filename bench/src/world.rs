//! Watches of pods, and a simulated kubelet that makes released pods ready.

use crate::lab::{GATE, STRATEGIC_MERGE, patch, pods_path};
use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A change of a pod.
#[derive(Clone, Debug)]
pub struct Seen {
    pub name: String,
    pub gated: bool,
    pub ready: bool,
    pub at: Instant,
}

#[derive(Clone, Deserialize)]
struct PodView {
    metadata: Name,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// The part of an object's metadata that the bench uses.
#[derive(Clone, Deserialize)]
pub struct Name {
    pub name: String,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    scheduling_gates: Vec<Gate>,
}

#[derive(Clone, Deserialize)]
struct Gate {
    name: String,
}

#[derive(Clone, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// Watches the pods of a namespace from now on. Ends when the receiver is dropped.
pub async fn watch(client: &Client, namespace: &str) -> Result<mpsc::UnboundedReceiver<Seen>> {
    changes(client, &pods_path(namespace), |pod: PodView, at| {
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        Seen {
            gated: pod.spec.scheduling_gates.iter().any(|gate| gate.name == GATE),
            ready: pod.status.conditions.iter().any(ready),
            name: pod.metadata.name,
            at,
        }
    })
    .await
}

/// Watches the objects at this path from now on, converted by `view`.
pub async fn changes<K, S>(
    client: &Client,
    path: &str,
    view: impl Fn(K, Instant) -> S + Send + 'static,
) -> Result<mpsc::UnboundedReceiver<S>>
where
    K: DeserializeOwned + Clone + Send + 'static,
    S: Send + 'static,
{
    let list = http::Request::get(format!("{path}?limit=1")).body(Vec::new())?;
    let list: serde_json::Value = client.request(list).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let request =
        http::Request::get(format!("{path}?watch=true&resourceVersion={version}")).body(Vec::new())?;
    let mut events = client.request_events::<K>(request).await?.boxed();
    let (send, receive) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(Some(event)) = events.try_next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && send.send(view(object, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    Ok(receive)
}

/// Makes a pod Ready, as its kubelet would. Returns the time of the write.
pub async fn make_ready(client: &Client, namespace: &str, name: &str) -> Result<Instant> {
    let body = json!({ "status": { "phase": "Running", "conditions": [
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
    ] } });
    patch(client, &format!("{}/{name}/status", pods_path(namespace)), STRATEGIC_MERGE, &body).await?;
    Ok(Instant::now())
}

/// Makes every released pod ready, until `count` pods have been released; returns the time of the last release.
pub async fn play_kubelet(
    client: &Client,
    namespace: &str,
    mut seen: mpsc::UnboundedReceiver<Seen>,
    count: usize,
) -> Result<Instant> {
    let mut writes = JoinSet::new();
    let mut released = std::collections::BTreeSet::new();
    while let Some(pod) = seen.recv().await {
        if !pod.gated && released.insert(pod.name.clone()) {
            let (client, namespace) = (client.clone(), namespace.to_owned());
            writes.spawn(async move { make_ready(&client, &namespace, &pod.name).await });
        }
        if released.len() == count {
            while let Some(write) = writes.join_next().await {
                write??;
            }
            return Ok(pod.at);
        }
    }
    anyhow::bail!("the watch ended with {} of {count} pods released", released.len())
}

/// Waits until `count` pods have lost their gate; returns the time of the last one.
pub async fn all_released(mut seen: mpsc::UnboundedReceiver<Seen>, count: usize) -> Result<Instant> {
    let mut released = std::collections::BTreeSet::new();
    while let Some(pod) = seen.recv().await {
        if !pod.gated {
            released.insert(pod.name);
        }
        if released.len() == count {
            return Ok(pod.at);
        }
    }
    anyhow::bail!("the watch ended with {} of {count} pods released", released.len())
}
