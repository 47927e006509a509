//! Helpers for nodes: own and foreign data on them, and sequences of Node scope.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PostParams};
use rollcall_testbed::{Cluster, wait};
use serde_json::{Value, json};

use super::make::{self, With};
use super::{Controller, LIMIT, Scene};

const PREFIX: &str = "podsequence.example.com/";

pub async fn all(cluster: &Cluster) -> Result<Vec<Value>> {
    let request = http::Request::get("/api/v1/nodes").body(Vec::new())?;
    let list = cluster.client().request::<Value>(request).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Returns Rollcall's labels, annotations and taints on all nodes, as `node key`.
pub async fn ours(cluster: &Cluster) -> Result<Vec<String>> {
    let each = all(cluster).await?;
    let each = each.iter().flat_map(|node| {
        let name = &node["metadata"]["name"];
        keys(node).into_iter().map(move |key| format!("{} {key}", name.as_str().unwrap_or_default()))
    });
    Ok(each.collect())
}

fn keys(node: &Value) -> Vec<&str> {
    let fields = ["labels", "annotations"].map(|part| node["metadata"][part].as_object());
    let fields = fields.into_iter().flatten().flatten().map(|(key, _)| key.as_str());
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    fields.chain(taints.filter_map(|taint| taint["key"].as_str())).filter(|key| is_ours(key)).collect()
}

fn is_ours(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Returns the foreign labels, annotations and taints of a node; the controller must never change them or their order.
pub fn foreign(node: &Value) -> Value {
    let of = |part: &str| {
        let all = node["metadata"][part].as_object().into_iter().flatten();
        let theirs = all.filter(|(key, _)| !is_ours(key));
        theirs.map(|(key, value)| (key.clone(), value.clone())).collect::<serde_json::Map<_, _>>()
    };
    let mut spec = node["spec"].clone();
    if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| !taint["key"].as_str().is_some_and(is_ours));
        if taints.is_empty() {
            spec.as_object_mut().map(|spec| spec.remove("taints"));
        }
    }
    json!({ "labels": of("labels"), "annotations": of("annotations"), "spec": spec })
}

/// Returns the foreign data of all nodes, by name.
pub async fn all_foreign(cluster: &Cluster) -> Result<BTreeMap<String, Value>> {
    let each = all(cluster).await?.into_iter();
    Ok(each.map(|node| (super::scene::name_of(&node), foreign(&node))).collect())
}

/// Waits until no node has labels, annotations or taints of Rollcall.
pub async fn clean(cluster: &Cluster, controller: &Controller) -> Result<()> {
    let mut left = Vec::new();
    let clean = wait::until("clean nodes", LIMIT, async || {
        left = ours(cluster).await?;
        Ok(left.is_empty().then_some(()))
    });
    clean.await.with_context(|| format!("{left:?}\n{}", controller.log()))
}

/// Waits until the policy is effective: a dry run of a new node gets the unseen label.
pub async fn unseen_at_registration(cluster: &Cluster) -> Result<()> {
    let api = Api::<Node>::all(cluster.client());
    let dry = PostParams { dry_run: true, ..Default::default() };
    let metadata = ObjectMeta { name: Some("new".into()), ..Default::default() };
    let node = Node { metadata, ..Default::default() };
    wait::until("the unseen label on new nodes", LIMIT, async || {
        let labels = api.create(&dry, &node).await?.metadata.labels.unwrap_or_default();
        Ok(labels.contains_key(rollcall_api::names::UNSEEN_LABEL).then_some(()))
    })
    .await
}

/// Waits until the policies or the webhook are effective: a dry run of a pod gets its gate.
pub async fn gated_at_admission(scene: &Scene<'_>) -> Result<()> {
    let pod = make::pod("probe").label("app", "app").gates(&[]);
    let pod: DynamicObject = serde_json::from_value(pod)?;
    let dry = PostParams { dry_run: true, ..Default::default() };
    wait::until("gates at admission", LIMIT, async || {
        let answer = scene.api("Pod").create(&dry, &pod).await?;
        Ok(answer.data["spec"]["schedulingGates"].is_array().then_some(()))
    })
    .await
}

/// A DaemonSet whose pods take a while to become ready. They tolerate all taints.
pub fn agents() -> Value {
    let slow = json!({ "testbed.rollcall.dev/ready-after": "700ms" });
    let rolling = json!({ "rollingUpdate": { "maxUnavailable": "50%" } });
    let template =
        json!({ "metadata": { "annotations": slow }, "spec": { "tolerations": [{ "operator": "Exists" }] } });
    make::daemon_set("agent").with(json!({ "spec": { "updateStrategy": rolling, "template": template } }))
}

/// Like [`agents`], but the pods become ready only when a test makes them ready.
pub fn unready_agents() -> Value {
    let never = json!({ "testbed.rollcall.dev/never-ready": "true" });
    agents().with(json!({ "spec": { "template": { "metadata": { "annotations": never } } } }))
}

/// A sequence with agents before apps on every node.
pub fn sequence(name: &str, guard: &str) -> Value {
    let groups = [make::selected("agents", "agent"), make::selected("apps", "app")];
    make::sequence(name, &groups).with(json!({ "spec": { "scope": "Node", "nodeGuard": guard } }))
}

/// Sets an administrator's annotation that permits `nodeGuard: Taints` in a namespace.
pub async fn allow_taints(scene: &Scene<'_>) -> Result<()> {
    let key = "podsequence.example.com/allow-node-taints";
    scene.annotate("Namespace", &scene.namespace, key, Some("true")).await
}

/// Waits until a sequence is complete on all nodes, `total` in number.
pub async fn complete(scene: &Scene<'_>, controller: &Controller, name: &str, total: usize) -> Result<()> {
    let all = json!({ "total": total, "complete": total, "waiting": 0 });
    let wanted = |status: &Value| status["phase"] == "Completed" && status["nodes"] == all;
    let done = scene.status(name, &format!("complete on {total} nodes"), wanted).await;
    done.map(drop).with_context(|| controller.log())
}

/// Waits until a sequence has failed and is stalled with this reason.
pub async fn stalled(scene: &Scene<'_>, controller: &Controller, name: &str, reason: &str) -> Result<()> {
    scene.phase(name, "Failed").await.with_context(|| controller.log())?;
    scene.condition(name, "Stalled", "True", reason).await.map(drop).with_context(|| controller.log())
}

/// Returns the bound pods of an app with their nodes.
pub async fn bound(scene: &Scene<'_>, app: &str) -> Result<Vec<(String, String)>> {
    let list = scene.api("Pod").list(&ListParams::default().labels(&format!("app={app}"))).await?;
    let place = |pod: &DynamicObject| {
        Some((pod.metadata.name.clone()?, pod.data["spec"]["nodeName"].as_str()?.to_owned()))
    };
    Ok(list.items.iter().filter_map(place).collect())
}

/// Waits until this number of pods of an app is bound.
pub async fn until_bound(scene: &Scene<'_>, app: &str, count: usize) -> Result<Vec<(String, String)>> {
    wait::until(&format!("{count} pods of {app} on nodes"), LIMIT, async || {
        let bound = bound(scene, app).await?;
        Ok((bound.len() == count).then_some(bound))
    })
    .await
}
