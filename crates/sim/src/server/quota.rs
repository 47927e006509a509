//! ResourceQuotas: limits of a namespace, checked when a pod is created.

use super::defaults::quantity;
use super::refusal::Refusal;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::pod_resources::read_pod;
use crate::store::{Key, Stored};
use rollcall_core::quantity::{Form, Quantity};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ZERO: Quantity = Quantity::new(0, Form::Decimal);
const ONE: Quantity = Quantity::new(1_000_000_000, Form::Decimal);

/// Amounts by their names in quotas.
pub type Usage = BTreeMap<String, Quantity>;

/// Amounts that every container must specify if a quota limits them, with their places.
const COMPUTE: [(&str, &str, &str); 6] = [
    ("cpu", "requests", "cpu"),
    ("memory", "requests", "memory"),
    ("requests.cpu", "requests", "cpu"),
    ("requests.memory", "requests", "memory"),
    ("limits.cpu", "limits", "cpu"),
    ("limits.memory", "limits", "memory"),
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks whether the quotas of the namespace permit a pod.
pub fn admit(cluster: &Cluster, pod: &Value) -> Result<(), Refusal> {
    let quotas = quotas(cluster, pod);
    if quotas.is_empty() {
        return Ok(());
    }
    let wanted = usage(pod);
    let refuse = |why: String| Err(Refusal::forbidden(Kind::Pod, text(&pod["metadata"]["name"]), &why));
    for (key, quota) in &quotas {
        let hard = hard(quota);
        if let Some(missing) = unspecified(&hard, pod) {
            return refuse(format!("failed quota: {}: must specify {missing}", key.name));
        }
        let used = used(cluster, key, quota);
        let exceeded: Vec<&String> = wanted
            .iter()
            .filter(|(name, amount)| {
                let before = used.get(*name).map_or(0, |used| used.nanos());
                hard.get(*name).is_some_and(|hard| before + amount.nanos() > hard.nanos())
            })
            .map(|(name, _)| name)
            .collect();
        if !exceeded.is_empty() {
            let show = |usage: &Usage| {
                let one = |name: &&String| {
                    let amount = usage.get(*name).copied().unwrap_or(ZERO);
                    format!("{name}={amount}")
                };
                exceeded.iter().map(one).collect::<Vec<_>>().join(",")
            };
            return refuse(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                key.name,
                show(&wanted),
                show(&used),
                show(&hard)
            ));
        }
    }
    Ok(())
}

/// Adds a new pod to the used amounts, so that they count for the next pod.
pub fn charge(cluster: &mut Cluster, pod: &Value) {
    let wanted = usage(pod);
    for (key, quota) in quotas(cluster, pod) {
        let mut used = used(cluster, &key, &quota);
        for (name, amount) in &wanted {
            if let Some(used) = used.get_mut(name) {
                *used = add(*used, *amount);
            }
        }
        let enforced = if quota["status"]["hard"].is_object() { "status" } else { "spec" };
        write(cluster, &key, quota[enforced]["hard"].clone(), &used);
    }
}

/// Writes the used amounts and the current limits.
pub fn write_used(cluster: &mut Cluster, key: &Key, quota: &Stored, used: &Usage) {
    write(cluster, key, quota["spec"]["hard"].clone(), used);
}

fn write(cluster: &mut Cluster, key: &Key, hard: Value, used: &Usage) {
    let used: Map<String, Value> =
        used.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
    // The quota may already be deleted.
    let _ = cluster.update_status(key, |quota| {
        quota["status"]["hard"] = hard;
        quota["status"]["used"] = used.into();
    });
}

/// The amounts that the pods of a namespace use, as far as the quota limits them.
pub fn count(cluster: &Cluster, key: &Key, quota: &Stored) -> Usage {
    let limited = amounts(&quota["spec"]["hard"]);
    let mut sum: Usage = limited.into_keys().map(|name| (name, ZERO)).collect();
    for (_, pod) in cluster.store.list(Kind::Pod, Some(&key.namespace)) {
        if !is_concerned(quota, pod) {
            continue;
        }
        for (name, amount) in usage(pod) {
            if let Some(sum) = sum.get_mut(&name) {
                *sum = add(*sum, amount);
            }
        }
    }
    sum
}

/// The sum, in the format of the first amount that is not zero.
fn add(sum: Quantity, amount: Quantity) -> Quantity {
    if sum.nanos() == 0 { amount } else { sum + amount }
}

fn quotas(cluster: &Cluster, pod: &Value) -> Vec<(Key, Arc<Stored>)> {
    let all = cluster.store.list(Kind::ResourceQuota, Some(text(&pod["metadata"]["namespace"])));
    let concerned = all.filter(|(_, quota)| is_concerned(quota, pod));
    concerned.map(|(key, quota)| (key.clone(), quota.clone())).collect()
}

/// Whether a quota's scopes include a pod.
fn is_concerned(quota: &Value, pod: &Value) -> bool {
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let ends = pod["spec"]["activeDeadlineSeconds"].is_number();
    let best_effort = usage(pod).keys().all(|name| name == "pods" || name == "count/pods");
    scopes.into_iter().all(|scope| match text(scope) {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        _ => true,
    })
}

fn amounts(list: &Value) -> Usage {
    let list = list.as_object().into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), quantity::parse(value)?))).collect()
}

/// The enforced limits, which are those of the last recount.
fn hard(quota: &Value) -> Usage {
    match quota["status"]["hard"].is_object() {
        true => amounts(&quota["status"]["hard"]),
        false => amounts(&quota["spec"]["hard"]),
    }
}

fn used(cluster: &Cluster, key: &Key, quota: &Stored) -> Usage {
    // The quota controller has not counted yet.
    if !quota["status"]["hard"].is_object() {
        return count(cluster, key, quota);
    }
    amounts(&quota["status"]["used"])
}

/// The amounts that a pod uses. A finished pod counts only as an object.
pub fn usage(pod: &Value) -> Usage {
    let mut usage = Usage::new();
    usage.insert("count/pods".into(), ONE);
    if matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed") {
        return usage;
    }
    usage.insert("pods".into(), ONE);
    for (resource, amount) in read_pod(&pod["spec"], "requests").requests() {
        usage.insert(format!("requests.{resource}"), amount);
        if ["cpu", "memory", "ephemeral-storage"].contains(&&*resource) {
            usage.insert(resource.to_string(), amount);
        }
    }
    for (resource, amount) in read_pod(&pod["spec"], "limits").limits() {
        usage.insert(format!("limits.{resource}"), amount);
    }
    usage
}

/// The limited amounts that containers do not specify, in the words of the API server.
fn unspecified(hard: &Usage, pod: &Value) -> Option<String> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    for container in containers {
        for (name, list, resource) in COMPUTE {
            if hard.contains_key(name) && container["resources"][list][resource].is_null() {
                missing.entry(name).or_default().insert(text(&container["name"]));
            }
        }
    }
    let one = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    (!missing.is_empty()).then(|| missing.into_iter().map(one).collect::<Vec<_>>().join("; "))
}
