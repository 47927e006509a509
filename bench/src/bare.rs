//! The baselines: the barest clients that do the same writes. They decide nothing.

use crate::lab::{GATE, pod_name};
use crate::world::Seen;
use anyhow::Result;
use futures::StreamExt;
use kube::Client;
use serde_json::json;
use tokio::sync::mpsc;

pub async fn open_gate(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let body = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": GATE }] } });
    let request = http::Request::patch(format!("/api/v1/namespaces/{namespace}/pods/{name}"))
        .header("content-type", "application/strategic-merge-patch+json")
        .body(body.to_string().into_bytes())?;
    client.request::<serde::de::IgnoredAny>(request).await?;
    Ok(())
}

/// Opens the gate of the next pod whenever a pod is ready.
pub async fn chain(
    client: &Client,
    namespace: &str,
    mut seen: mpsc::UnboundedReceiver<Seen>,
    count: usize,
) -> Result<()> {
    open_gate(client, namespace, &pod_name(0)).await?;
    let mut next = 1;
    while next < count {
        let Some(pod) = seen.recv().await else { anyhow::bail!("the watch ended") };
        if pod.ready && pod.name == pod_name(next - 1) {
            open_gate(client, namespace, &pod_name(next)).await?;
            next += 1;
        }
    }
    Ok(())
}

/// Opens all gates, `in_flight` at a time.
pub async fn flood(client: &Client, namespace: &str, count: usize, in_flight: usize) -> Result<()> {
    let writes =
        (0..count).map(|number| async move { open_gate(client, namespace, &pod_name(number)).await });
    let mut writes = futures::stream::iter(writes).buffer_unordered(in_flight);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}

/// Lists all pods in pages of 500 and keeps what the controller keeps.
pub async fn list(client: &Client) -> Result<usize> {
    use rollcall_api::watch::{ListOf, PodObject};
    let mut kept = Vec::new();
    let mut token = String::new();
    loop {
        let request =
            http::Request::get(format!("/api/v1/pods?limit=500&continue={token}")).body(Vec::new())?;
        let page: ListOf<PodObject> = client.request(request).await?;
        kept.extend(page.items.iter().map(PodObject::facts));
        match page.metadata.continue_token.filter(|token| !token.is_empty()) {
            Some(next) => token = next,
            None => return Ok(kept.len()),
        }
    }
}
