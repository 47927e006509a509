//! Validation of status updates.

use super::{custom, invalid_each, items, metadata, names, not_negative, text};
use crate::kinds::Kind;
use crate::server::refusal::Wrong;
use serde_json::Value;

pub fn updated(kind: Kind, old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    let status = &new["status"];
    let mut counts = |fields: &[&str]| {
        fields.iter().for_each(|field| not_negative(found, status, field, "status"));
    };
    match kind {
        Kind::Pod => pod(old, new, found),
        Kind::Deployment => {
            counts(&[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
            ]);
            within_replicas(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], found);
            available_are_ready(status, "readyReplicas", found);
        }
        Kind::ReplicaSet => {
            counts(&["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
            within_replicas(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], found);
            available_are_ready(status, "readyReplicas", found);
        }
        Kind::StatefulSet => {
            counts(&["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]);
            let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
            within_replicas(status, &parts, found);
            available_are_ready(status, "status.readyReplicas", found);
        }
        Kind::DaemonSet => {
            counts(&[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
            ]);
        }
        Kind::Job => counts(&["active", "succeeded", "failed"]),
        Kind::PodDisruptionBudget => {
            counts(&["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]);
        }
        _ => {
            if let Some(custom) = kind.custom() {
                custom::check_status(custom, new, found);
            }
        }
    }
}

fn count(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or_default()
}

fn within_replicas(status: &Value, fields: &[&str], found: &mut Vec<Wrong>) {
    for field in fields.iter().filter(|field| count(status, field) > count(status, "replicas")) {
        let words = "cannot be greater than status.replicas";
        found.push(Wrong::invalid(format!("status.{field}"), &count(status, field).into(), words));
    }
}

/// `named` is the API server's term for the ready replicas in this message.
fn available_are_ready(status: &Value, named: &str, found: &mut Vec<Wrong>) {
    let available = count(status, "availableReplicas");
    if available > count(status, "readyReplicas") {
        let words = format!("cannot be greater than {named}");
        found.push(Wrong::invalid("status.availableReplicas", &available.into(), &words));
    }
}

fn pod(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    let (before, after) = (&old["status"], &new["status"]);
    for (at, condition) in items(after, "conditions").enumerate() {
        let kind = text(condition, "type");
        invalid_each(found, &format!("status.conditions[{at}].Type"), kind, names::qualified(kind));
    }
    let node = text(after, "nominatedNodeName");
    if !node.is_empty() && node != text(before, "nominatedNodeName") {
        invalid_each(found, "status.nominatedNodeName", node, names::dns_subdomain(node));
        if !text(&old["spec"], "nodeName").is_empty() {
            let words = "may not be set on pods that are already bound to a node";
            found.push(Wrong::forbidden("status.nominatedNodeName", words));
        }
    }
    metadata::immutable(found, "status.qosClass", &before["qosClass"], &after["qosClass"]);
}
