//! The subresources of pods: binding and eviction.

use super::refusal::Refusal;
use super::route::Query;
use super::{delete_request, eviction};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use serde_json::{Map, Value, json};

/// Handles a request to a subresource. Returns status code and body.
pub fn subresource(
    cluster: &mut Cluster,
    key: &Key,
    subresource: &str,
    object: &Value,
    dry_run: bool,
) -> Result<(u16, Value), Refusal> {
    match (key.kind, subresource) {
        (Kind::Pod, "binding") => {
            if object["metadata"]["name"] != *key.name {
                return Err(Refusal::bad_request("name in URL does not match name in Binding object"));
            }
            let target = &object["target"];
            let node = target["name"].as_str().unwrap_or_default();
            let of = target["kind"].as_str().unwrap_or_default();
            if !matches!(of, "" | "Node") {
                let words = "supported values: \"Node\", \"<empty>\"";
                return Err(Refusal::internal(format!("target.kind: Unsupported value: {of:?}: {words}")));
            }
            if node.is_empty() {
                return Err(Refusal::internal("target.name: Required value"));
            }
            let bound = bound(cluster, key, node, object["metadata"]["annotations"].as_object())?;
            if !dry_run {
                let at = cluster.now();
                cluster.store.put(key.clone(), bound, at);
            }
            Ok((201, success(201)))
        }
        (Kind::Pod, "eviction") => {
            let options =
                delete_request::delete_options_in(&object["deleteOptions"], &Query::default(), dry_run)?;
            eviction::evict(cluster, key, object, &options)?;
            Ok((201, success(201)))
        }
        _ => Err(Refusal {
            code: 404,
            reason: "NotFound",
            message: "the server could not find the requested resource".into(),
            details: json!({}),
        }),
    }
}

fn success(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code })
}

/// Binds a pod to a node.
pub fn bind(cluster: &mut Cluster, key: &Key, node: &str) -> Result<(), Refusal> {
    let bound = bound(cluster, key, node, None)?;
    let at = cluster.now();
    cluster.store.put(key.clone(), bound, at);
    Ok(())
}

/// The pod after its binding to a node.
fn bound(
    cluster: &Cluster,
    key: &Key,
    node: &str,
    annotations: Option<&Map<String, Value>>,
) -> Result<Value, Refusal> {
    let Some(pod) = cluster.store.get(key).cloned() else {
        return Err(Refusal::not_found(key.kind, &key.name));
    };
    let refuse = |why: String| {
        let mut refusal = Refusal::conflict(key.kind, &key.name, &why);
        refusal.message = format!("Operation cannot be fulfilled on pods/binding {:?}: {why}", &*key.name);
        refusal.details["kind"] = "pods/binding".into();
        refusal
    };
    if pod.is_terminating() {
        return Err(refuse(format!("pod {} is being deleted, cannot be assigned to a host", key.name)));
    }
    let on = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !on.is_empty() {
        return Err(refuse(format!("pod {} is already assigned to node {on:?}", key.name)));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(refuse(format!("pod {} has non-empty .spec.schedulingGates", key.name)));
    }
    let mut bound = pod.value.clone();
    bound["spec"]["nodeName"] = node.into();
    if let Some(status) = bound["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    // Without `observedGeneration`, which the kubelet adds.
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastTransitionTime": cluster.stamp(), "lastProbeTime": null,
    });
    set_condition(&mut bound["status"], scheduled);
    for (name, value) in annotations.into_iter().flatten() {
        bound["metadata"]["annotations"][name] = value.clone();
    }
    Ok(bound)
}

/// Replaces or appends a condition. The transition time stays if the status is the same.
pub fn set_condition(status: &mut Value, mut condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|is| is["type"] == condition["type"]) {
        Some(is) => {
            if is["status"] == condition["status"] && !is["lastTransitionTime"].is_null() {
                condition["lastTransitionTime"] = is["lastTransitionTime"].clone();
            }
            *is = condition;
        }
        None => conditions.push(condition),
    }
}
