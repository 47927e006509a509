//! Eviction: a deletion that the pod's disruption budget must permit.

use super::delete::{self, DeleteOptions};
use super::pods::set_condition;
use super::refusal::Refusal;
use super::selectors::selects;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn evict(
    cluster: &mut Cluster,
    key: &Key,
    eviction: &Value,
    options: &DeleteOptions,
) -> Result<(), Refusal> {
    if eviction["metadata"]["name"] != *key.name {
        return Err(Refusal::bad_request("name in URL does not match name in Eviction object"));
    }
    let Some(pod) = cluster.store.get(key).cloned() else {
        return Err(Refusal::not_found(key.kind, &key.name));
    };
    delete::check_preconditions(key, &pod, options)?;
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    // Pods that are not running or already terminating do not count against the budget.
    let counts = phase == "Running" && !pod.is_terminating();
    if counts && let Some((budget, found)) = budget_of(cluster, &pod)? {
        check(&budget, &found)?;
        if !options.dry_run {
            let now = cluster.stamp();
            let _ = cluster.update_status(&budget, |budget| {
                let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default() - 1;
                budget["status"]["disruptionsAllowed"] = left.into();
                budget["status"]["disruptedPods"][&*key.name] = now.as_str().into();
            });
        }
    }
    if !options.dry_run {
        let now = cluster.stamp();
        let _ = cluster.update_status(key, |pod| {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastTransitionTime": now,
            });
            set_condition(&mut pod["status"], condition);
        });
    }
    delete::delete(cluster, key, options).map(drop)
}

/// The budgets of a namespace that cover a pod.
pub fn budgets<'a>(
    cluster: &'a Cluster,
    pod: &'a Value,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let all = cluster.store.list(Kind::PodDisruptionBudget, Some(namespace));
    all.filter(|(_, budget)| covers(budget, pod))
}

/// Whether a budget covers a pod.
pub fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    selector.is_object() && selects(selector, &pod["metadata"]["labels"])
}

fn budget_of(cluster: &Cluster, pod: &Value) -> Result<Option<(Key, Arc<Stored>)>, Refusal> {
    let mut found = budgets(cluster, pod).map(|(key, budget)| (key.clone(), budget.clone()));
    let (first, second) = (found.next(), found.next());
    if second.is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Refusal::internal(message));
    }
    Ok(first)
}

fn check(key: &Key, budget: &Value) -> Result<(), Refusal> {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let status = &budget["status"];
    let refuse = |message: &str, cause: String, more: Value| {
        let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
        if !more.is_null() {
            details["retryAfterSeconds"] = more;
        }
        Err(Refusal { code: 429, reason: "TooManyRequests", message: message.into(), details })
    };
    let name = &key.name;
    if number(&status["observedGeneration"]) < number(&budget["metadata"]["generation"]) {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(message, cause, 10.into());
    }
    if number(&status["disruptionsAllowed"]) <= 0 {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let (needs, has) = (number(&status["desiredHealthy"]), number(&status["currentHealthy"]));
        let cause =
            format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently");
        return refuse(message, cause, Value::Null);
    }
    Ok(())
}
