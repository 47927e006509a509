//! Performs the user actions of the plan while the cluster starts.

use super::apply;
use super::drains::Drains;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::plan::{Action, ActionTarget, At};
use crate::server::Shared;
use crate::store::{Author, Key};
use anyhow::{Error, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// Performs each action at its time, and retries evictions of drains. Returns only if an action fails.
pub async fn perform(at: &[At], shared: &Arc<Shared>, drains: &Drains) -> Error {
    let begun = Instant::now();
    let mut rest = at.iter().peekable();
    loop {
        let due = rest.peek().map(|at| begun + at.time);
        let Some(wake) = [due, drains.next_try()].into_iter().flatten().min() else {
            return std::future::pending().await;
        };
        sleep_until(wake).await;
        let mut cluster = shared.lock();
        cluster.store.author = Author::User;
        drains.try_again(&mut cluster);
        let action = rest.next_if(|at| begun + at.time <= wake);
        let done = action.map(|at| (at.time, act(&mut cluster, &at.action, drains)));
        cluster.store.author = Author::Cluster;
        drop(cluster);
        shared.notify();
        if let Some((time, Err(error))) = done {
            return error.context(format!("at {} s", time.as_secs_f64()));
        }
    }
}

fn act(cluster: &mut Cluster, action: &Action, drains: &Drains) -> Result<()> {
    match action {
        Action::Scale { target, replicas } => {
            let key = find(cluster, target)?;
            let field = if key.kind == Kind::Job { "parallelism" } else { "replicas" };
            let scaled = cluster.update(&key, |object| object["spec"][field] = (*replicas).into());
            scaled.map(drop).map_err(|refusal| anyhow!("{target}: {}", refusal.message))
        }
        Action::Delete { target } => {
            let key = find(cluster, target)?;
            cluster.delete(&key).map_err(|refusal| anyhow!("{target}: {}", refusal.message))
        }
        Action::Apply { objects } => {
            objects.iter().try_for_each(|given| match apply::kind_of(&given.value) {
                None => Ok(()),
                Some(kind) => replace_or_create(cluster, kind, given),
            })
        }
        Action::Cordon { node } => cordon(cluster, node),
        Action::Drain { node } => {
            cordon(cluster, node)?;
            let pods = cluster.store.list(Kind::Pod, None);
            let evicted = pods
                .filter(|(_, pod)| pod["spec"]["nodeName"] == node.as_str() && !is_of_daemon_set(pod))
                .map(|(key, pod)| (key.clone(), pod.uid().to_owned()))
                .collect();
            drains.begin(cluster, node, evicted);
            Ok(())
        }
        Action::AddNode { name } => apply::create_node(cluster, name, &BTreeMap::new()),
    }
}

/// Changes an object as `kubectl apply` does, or creates it if it does not exist.
fn replace_or_create(cluster: &mut Cluster, kind: Kind, given: &crate::plan::Given) -> Result<()> {
    let namespace = match given.value["metadata"]["namespace"].as_str() {
        _ if !kind.info().namespaced => "",
        Some(namespace) if !namespace.is_empty() => namespace,
        _ => "default",
    };
    let key = Key::new(kind, namespace, given.value["metadata"]["name"].as_str().unwrap_or_default());
    if cluster.store.get(&key).is_none() {
        return apply::create(cluster, given);
    }
    let fields = given.value.as_object().into_iter().flatten();
    let changes: BTreeMap<&String, &Value> =
        fields.filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status")).collect();
    let (labels, annotations) = (&given.value["metadata"]["labels"], &given.value["metadata"]["annotations"]);
    let updated = cluster.update(&key, |object| {
        json_patch::merge(object, &json!(changes));
        json_patch::merge(object, &json!({ "metadata": { "labels": labels, "annotations": annotations } }));
    });
    updated.map(drop).map_err(|refusal| anyhow!("{}: {}", given.origin, refusal.message))
}

fn cordon(cluster: &mut Cluster, node: &str) -> Result<()> {
    let key = Key::new(Kind::Node, "", node);
    let cordoned = cluster.update(&key, |node| node["spec"]["unschedulable"] = true.into());
    cordoned.map(drop).map_err(|refusal| anyhow!(refusal.message))
}

fn is_of_daemon_set(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["kind"] == "DaemonSet")
}

fn find(cluster: &Cluster, target: &ActionTarget) -> Result<Key> {
    let all = cluster.store.list(target.kind, target.namespace.as_deref());
    let found: Vec<Key> =
        all.filter(|(key, _)| *key.name == *target.name).map(|(key, _)| key.clone()).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(anyhow!("{target} not found")),
        several => {
            let places: Vec<&str> = several.iter().map(|key| &*key.namespace).collect();
            Err(anyhow!("{target} exists in several namespaces ({}); choose one with -n", places.join(", ")))
        }
    }
}
