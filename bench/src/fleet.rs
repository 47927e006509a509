//! Thousands of nodes, each with an agent that is ready, and sequences that block the nodes by a taint until then.

use crate::lab::{self, JSON_PATCH, Lab, MERGE, NODES_PATH, pods_path, sequences_path};
use crate::world::{self, Name};
use anyhow::{Context, Result, bail};
use rollcall_testbed::wait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const LIMIT: Duration = Duration::from_secs(600);
/// Prefix of the annotations that record the progress of a node.
const JOURNALS: &str = "podsequence.example.com/journal.";
/// The taint of the baseline. With one of the controller's taints, the controller would treat it as a leftover of a
/// deleted sequence.
const RAW_KEY: &str = "bench.example.com/apps-blocked";

pub struct Fleet<'a> {
    lab: &'a Lab,
    pub namespace: String,
    pub count: usize,
}

/// A node, and the keys of its taints.
struct Taints {
    node: String,
    keys: BTreeSet<String>,
    at: Instant,
}

#[derive(Clone, Deserialize)]
struct NodeView {
    metadata: Name,
    spec: Spec,
}

#[derive(Clone, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Clone, Deserialize)]
struct Taint {
    key: String,
}

impl<'a> Fleet<'a> {
    /// Creates the nodes, an agent on each, and one pod that waits for agents.
    pub async fn new(lab: &'a Lab, count: usize) -> Result<Fleet<'a>> {
        let namespace = lab.namespace().await?;
        let allowed = json!({ "podsequence.example.com/allow-node-taints": "true" });
        let annotated = json!({ "metadata": { "annotations": allowed } });
        lab.patch(&format!("/api/v1/namespaces/{namespace}"), MERGE, annotated).await?;
        lab.nodes(count).await?;
        lab.create_all(&pods_path(&namespace), (0..count).map(agent)).await?;
        let names: Vec<String> = (0..count).map(node_name).collect();
        lab.each(
            names.iter().map(async |name| world::make_ready(&lab.client, &namespace, name).await.map(drop)),
        )
        .await?;
        lab.pods(&namespace, 1).await?;
        Ok(Fleet { lab, namespace, count })
    }

    /// Creates a sequence that blocks all nodes: it is suspended, so no node opens, even with a ready agent. Returns
    /// the time when the last node was blocked.
    pub async fn close(&self, name: &str) -> Result<Instant> {
        let groups = json!([
            { "name": "agents", "podSelector": { "matchLabels": { "tier": "agent" } } },
            { "name": "apps", "podSelector": { "matchLabels": { "tier": "web" } } },
        ]);
        let mut sequence = lab::sequence(name, groups);
        sequence["spec"]["scope"] = "Node".into();
        sequence["spec"]["nodeGuard"] = "Taints".into();
        sequence["spec"]["suspend"] = true.into();
        let seen = self.watch().await?;
        self.lab.create(&sequences_path(&self.namespace), sequence).await?;
        self.all(seen, &self.key(name), true).await
    }

    /// Resumes the sequence: all nodes meet its conditions at once. Returns the time of the resumption, and of the
    /// opening of the last node.
    pub async fn open(&self, name: &str) -> Result<(Instant, Instant)> {
        let seen = self.watch().await?;
        let path = format!("{}/{name}", sequences_path(&self.namespace));
        let begun = Instant::now();
        self.lab.patch(&path, MERGE, json!({ "spec": { "suspend": false } })).await?;
        Ok((begun, self.all(seen, &self.key(name), false).await?))
    }

    /// Deletes the sequence, and waits until the controller has removed its leftovers from the nodes.
    pub async fn forget(&self, name: &str) -> Result<()> {
        self.lab.delete_all(&format!("{}/{name}", sequences_path(&self.namespace))).await?;
        wait::until_every(Duration::from_millis(500), "clean nodes", LIMIT, async || {
            let is_marked = |node: &Value| {
                let annotations = node["metadata"]["annotations"].as_object();
                annotations.is_some_and(|all| all.keys().any(|key| key.starts_with(JOURNALS)))
            };
            Ok((!self.nodes().await?.iter().any(is_marked)).then_some(()))
        })
        .await
    }

    /// The baseline: the bench blocks the nodes, and a minimal client opens them. Returns the duration in seconds.
    pub async fn raw(&self, in_flight: usize) -> Result<f64> {
        let taint = json!({ "key": RAW_KEY, "value": "00000000-0000-0000-0000-000000000000", "effect": "NoSchedule" });
        let closed = json!([{ "op": "add", "path": "/spec/taints/-", "value": taint }]);
        let paths: Vec<String> =
            (0..self.count).map(|number| format!("{NODES_PATH}/{}", node_name(number))).collect();
        self.lab.each(paths.iter().map(|path| self.lab.patch(path, JSON_PATCH, closed.clone()))).await?;
        let (nodes, seen) = (self.nodes().await?, self.watch().await?);
        let client = self.lab.cluster.client();
        let begun = Instant::now();
        crate::bare::untaint(&client, &nodes, RAW_KEY, in_flight).await?;
        Ok(self.all(seen, RAW_KEY, false).await?.duration_since(begun).as_secs_f64())
    }

    /// Removes the nodes and the content of the namespace.
    pub async fn clear(self) -> Result<()> {
        self.lab.clear(&self.namespace).await?;
        self.lab.delete_all(NODES_PATH).await
    }

    fn key(&self, sequence: &str) -> String {
        format!("podsequence.example.com/{}.{sequence}.apps-blocked", self.namespace)
    }

    async fn nodes(&self) -> Result<Vec<Value>> {
        let mut list = self.lab.get(NODES_PATH).await?;
        list["items"].as_array_mut().map(std::mem::take).context("a list of nodes")
    }

    async fn watch(&self) -> Result<mpsc::UnboundedReceiver<Taints>> {
        world::changes(&self.lab.client, NODES_PATH, |node: NodeView, at| Taints {
            keys: node.spec.taints.into_iter().map(|taint| taint.key).collect(),
            node: node.metadata.name,
            at,
        })
        .await
    }

    /// Waits until all nodes carry a taint, or none does; returns the time.
    async fn all(
        &self,
        mut seen: mpsc::UnboundedReceiver<Taints>,
        key: &str,
        tainted: bool,
    ) -> Result<Instant> {
        let mut done = BTreeSet::new();
        let all = async {
            while let Some(Taints { node, keys, at }) = seen.recv().await {
                if keys.contains(key) == tainted {
                    done.insert(node);
                }
                if done.len() == self.count {
                    return Ok(at);
                }
            }
            bail!("the watch ended")
        };
        let result = tokio::time::timeout(LIMIT, all).await;
        match result {
            Ok(at) => at,
            Err(_) => bail!("{} of {} nodes within {LIMIT:?}", done.len(), self.count),
        }
    }
}

pub fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// An agent, named after its node.
fn agent(number: usize) -> Value {
    let name = node_name(number);
    let mut pod = lab::ungated(&name);
    pod["metadata"]["labels"]["tier"] = "agent".into();
    pod["spec"]["nodeName"] = name.into();
    pod
}
