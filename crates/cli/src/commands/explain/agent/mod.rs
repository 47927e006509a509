//! Pods that wait in an init container for an agent on their node: loads the objects that `agent::explain` of the core needs.

mod object;

pub use object::containers;

use crate::connect::Connection;
use crate::load::{self, has_code};
use anyhow::Result;
use jiff::Timestamp;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use object::{DaemonSetObject, PodObject};
use rollcall_api::watch;
use rollcall_core::Uid;
use rollcall_core::agent::explain::{Agent, explain};
use rollcall_core::facts::OwnerKind;
use rollcall_core::line::Line;
use rollcall_core::node::Node;
use serde::de::DeserializeOwned;

/// Explains the wait if the pod waits for an agent. Adds to `gaps` the objects that could not be read.
pub async fn line(
    connection: &Connection,
    name: &str,
    now: Timestamp,
    gaps: &mut Vec<String>,
) -> Result<Option<Line>> {
    let namespace = &connection.namespace;
    let pod: PodObject = match get(connection, &format!("/api/v1/namespaces/{namespace}/pods"), name).await {
        Ok(pod) => pod,
        // The caller reads the pod again and reports the error with more detail.
        Err(_) => return Ok(None),
    };
    let Some(waiting) = pod.waiting()? else { return Ok(None) };
    let mut agents = daemon_sets(connection, gaps).await?;
    agents.retain(|agent| {
        waiting.files.iter().flat_map(|file| &file.host).any(|path| agent.markers.contains(path))
    });
    let mut node = None;
    if let Some(place) = waiting.pod.node.as_deref() {
        for agent in &mut agents {
            agent.pods = pods_on(connection, agent, place, gaps).await?;
        }
        node = read_node(connection, place, gaps).await?;
    }
    Ok(Some(explain(&waiting, &agents, node.as_ref(), now)))
}

/// Returns the agent wait if the pod is otherwise not held; else puts it below the existing line.
pub fn instead_of(mut line: Line, waits: Option<Line>) -> Line {
    match waits {
        Some(waits) if line.code == "NotHeld" => waits,
        waits => {
            line.below.extend(waits);
            line
        }
    }
}

/// DaemonSets that write marker files, in all namespaces or, without permission for that, in the connection's namespace.
async fn daemon_sets(connection: &Connection, gaps: &mut Vec<String>) -> Result<Vec<Agent>> {
    let namespace = &connection.namespace;
    let all = load::list(connection, "/apis/apps/v1/daemonsets", &ListParams::default()).await;
    let objects: Vec<DaemonSetObject> = match all {
        Err(error) if has_code(&error, 403) => {
            gaps.push(format!(
                "not allowed to list daemonsets of all namespaces: only those of namespace {namespace} are considered"
            ));
            let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets");
            match load::list(connection, &path, &ListParams::default()).await {
                Err(error) if has_code(&error, 403) => {
                    gaps.push(format!("not allowed to list daemonsets in namespace {namespace}"));
                    Vec::new()
                }
                listed => listed.map_err(|error| connection.explained(error, "list daemonsets"))?,
            }
        }
        all => all.map_err(|error| connection.explained(error, "list daemonsets"))?,
    };
    objects.iter().filter_map(|object| object.agent().transpose()).collect()
}

async fn pods_on(
    connection: &Connection,
    agent: &Agent,
    node: &str,
    gaps: &mut Vec<String>,
) -> Result<Vec<rollcall_core::facts::Pod>> {
    let owner = &agent.daemon_set;
    let path = format!("/api/v1/namespaces/{}/pods", owner.namespace);
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods: Vec<watch::PodObject> = match load::list(connection, &path, &params).await {
        Ok(pods) => pods,
        Err(error) if has_code(&error, 403) => {
            gaps.push(format!("not allowed to list pods in namespace {}", owner.namespace));
            return Ok(Vec::new());
        }
        Err(error) => return Err(connection.explained(error, "list pods")),
    };
    let of = |uid: Uid| {
        move |pod: &rollcall_core::facts::Pod| {
            pod.owner.as_ref().is_some_and(|by| by.kind == OwnerKind::DaemonSet && by.uid == uid)
        }
    };
    Ok(pods.iter().map(watch::PodObject::facts).filter(of(owner.uid)).collect())
}

async fn read_node(connection: &Connection, name: &str, gaps: &mut Vec<String>) -> Result<Option<Node>> {
    match get::<watch::NodeObject>(connection, "/api/v1/nodes", name).await {
        Ok(node) => Ok(Some(node.facts())),
        Err(error) if has_code(&error, 403) => {
            gaps.push(format!("not allowed to get node {name}: its labels and taints are unknown"));
            Ok(None)
        }
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(connection.explained(error, &format!("get node {name}"))),
    }
}

async fn get<T: DeserializeOwned>(connection: &Connection, path: &str, name: &str) -> Result<T, kube::Error> {
    let request = Request::new(path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    connection.client.request(request).await
}
