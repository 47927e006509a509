//! The creation strategy of each kind.

use super::quantity;
use super::{batch, core};
use super::{default, each, inner, text};
use crate::kinds::Kind;
use rollcall_core::quantity::Quantity;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Sets the initial status and generation, and other fields at creation: the generated selector and labels of a Job, the
/// address families of a Service. `metadata` must already have name, uid and creation time.
pub fn initial_status(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Pod => new_pod(object),
        Kind::Job => {
            object["status"] = json!({});
            if object["spec"]["manualSelector"] != true {
                select_own_pods(object);
            }
            batch::label_like_template(object);
        }
        Kind::Namespace => core::new_namespace(object),
        Kind::ServiceAccount => core::new_service_account(object),
        Kind::Service => {
            object["status"] = json!({});
            core::families_of_service(&mut object["spec"]);
        }
        Kind::PersistentVolumeClaim => object["status"] = json!({ "phase": "Pending" }),
        Kind::DaemonSet
        | Kind::Deployment
        | Kind::StatefulSet
        | Kind::ReplicaSet
        | Kind::CronJob
        | Kind::ResourceQuota
        | Kind::PodDisruptionBudget => object["status"] = json!({}),
        // A new custom resource has no status.
        Kind::PodSequence | Kind::Order | Kind::Ticket => {
            if let Some(fields) = object.as_object_mut() {
                fields.remove("status");
            }
        }
        // A node can be created with its status.
        Kind::Node
        | Kind::CsiNode
        | Kind::PriorityClass
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::ControllerRevision
        | Kind::Lease
        | Kind::Event => {}
    }
    if kind.info().generation {
        object["metadata"]["generation"] = 1.into();
    }
    if kind == Kind::DaemonSet {
        let annotations = inner(&mut object["metadata"], "annotations");
        default(annotations, super::update::TEMPLATE_GENERATION, "1");
    }
    // The other fields are already in canonical form.
    super::shape::part(kind, "status", object);
}

fn new_pod(pod: &mut Value) {
    merge_label_keys(pod);
    // The only field of a given status that is kept.
    let quality = match text(&pod["status"], "qosClass") {
        "" => quality_of_service(&pod["spec"]),
        given => given,
    };
    let mut status = json!({ "phase": "Pending", "qosClass": quality });
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "lastTransitionTime": pod["metadata"]["creationTimestamp"], "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
}

/// Guaranteed if all containers have limits equal to their requests for CPU and memory; BestEffort if none has any.
fn quality_of_service(spec: &Value) -> &'static str {
    let mut requests: BTreeMap<&str, i128> = BTreeMap::new();
    let mut limits: BTreeMap<&str, i128> = BTreeMap::new();
    let mut limited_by_all = true;
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
    let resources: Vec<&Value> = match spec.get("resources") {
        Some(of_the_pod) => vec![of_the_pod],
        None => containers.flatten().map(|container| &container["resources"]).collect(),
    };
    for resources in resources {
        let mut limited = BTreeSet::new();
        for (list, sums) in [("requests", &mut requests), ("limits", &mut limits)] {
            for name in ["cpu", "memory"] {
                let nanos = quantity::parse(&resources[list][name]).map_or(0, Quantity::nanos);
                if nanos > 0 {
                    *sums.entry(name).or_default() += nanos;
                    limited.insert((list, name));
                }
            }
        }
        limited_by_all &= ["cpu", "memory"].iter().all(|name| limited.contains(&("limits", *name)));
    }
    match (requests.is_empty() && limits.is_empty(), limited_by_all && requests == limits) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}

/// Adds `matchLabelKeys` with the pod's values to the selector.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let spec = &mut pod["spec"];
    for kind in ["podAffinity", "podAntiAffinity"] {
        if let Some(affinity) = spec.pointer_mut(&format!("/affinity/{kind}")) {
            for preferred in each(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
                merge_keys(&mut preferred["podAffinityTerm"], &labels);
            }
            for term in each(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
                merge_keys(term, &labels);
            }
        }
    }
    each(spec, "topologySpreadConstraints").for_each(|constraint| merge_keys(constraint, &labels));
}

fn merge_keys(term: &mut Value, labels: &Map<String, Value>) {
    let keys = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let wanted = [("In", keys(&term["matchLabelKeys"])), ("NotIn", keys(&term["mismatchLabelKeys"]))];
    let Some(selector) = term.get_mut("labelSelector").filter(|selector| selector.is_object()) else {
        return;
    };
    for (operator, keys) in wanted {
        for key in keys.iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                default(selector, "matchExpressions", Vec::<Value>::new());
                let expression = json!({ "key": key, "operator": operator, "values": [value] });
                selector["matchExpressions"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|all| all.push(expression.clone()));
            }
        }
    }
}

/// Generates the labels of the template, and the selector that matches only pods of this Job.
fn select_own_pods(job: &mut Value) {
    let name = text(&job["metadata"], "name").to_owned();
    let uid = text(&job["metadata"], "uid").to_owned();
    let labels = inner(inner(&mut job["spec"]["template"], "metadata"), "labels");
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        (batch::CONTROLLER_UID, &uid),
    ] {
        default(labels, key, value.as_str());
    }
    let selected = inner(inner(&mut job["spec"], "selector"), "matchLabels");
    default(selected, batch::CONTROLLER_UID, uid.as_str());
}
