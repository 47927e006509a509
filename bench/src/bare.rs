//! The baselines: minimal clients that do the same writes without any decisions.

use crate::lab::{GATE, JSON_PATCH, STRATEGIC_MERGE, at_a_time, patch, pod_name, pods_path};
use crate::world::Seen;
use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub async fn open_gate(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let body = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": GATE }] } });
    patch(client, &format!("{}/{name}", pods_path(namespace)), STRATEGIC_MERGE, &body).await
}

/// Removes the gate of the next pod whenever a pod becomes ready.
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

/// Removes all gates, `in_flight` at a time.
pub async fn flood(client: &Client, namespace: &str, count: usize, in_flight: usize) -> Result<()> {
    let writes =
        (0..count).map(|number| async move { open_gate(client, namespace, &pod_name(number)).await });
    at_a_time(in_flight, writes).await
}

/// Removes a taint from all these nodes, `in_flight` at a time. Each patch has the same preconditions as the
/// controller's: it fails for another node of the same name, and for a list of taints that has changed.
pub async fn untaint(client: &Client, nodes: &[Value], key: &str, in_flight: usize) -> Result<()> {
    let patches: Vec<(String, Value)> = nodes.iter().filter_map(|node| removal(node, key)).collect();
    let writes = patches.iter().map(|(path, body)| patch(client, path, JSON_PATCH, body));
    at_a_time(in_flight, writes).await
}

fn removal(node: &Value, key: &str) -> Option<(String, Value)> {
    let metadata = &node["metadata"];
    let place = node["spec"]["taints"].as_array()?.iter().position(|taint| taint["key"] == key)?;
    let at = format!("/spec/taints/{place}");
    let body = json!([
        { "op": "test", "path": "/metadata/uid", "value": metadata["uid"] },
        { "op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"] },
        { "op": "test", "path": format!("{at}/key"), "value": key },
        { "op": "remove", "path": at },
    ]);
    Some((format!("/api/v1/nodes/{}", metadata["name"].as_str()?), body))
}

/// Lists all pods in pages of 500, and keeps the data that the controller keeps.
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
