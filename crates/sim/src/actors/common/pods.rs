//! Reads the state of a pod.

use super::{conditions, moment, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub fn is_terminating(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

pub fn is_failed(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed"
}

pub fn is_succeeded(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
}

/// Whether the pod has ended, successfully or not.
pub fn is_over(pod: &Value) -> bool {
    is_failed(pod) || is_succeeded(pod)
}

/// Whether the pod has neither ended nor is terminating.
pub fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !is_terminating(pod)
}

pub fn is_ready(pod: &Value) -> bool {
    conditions::is_true(&pod["status"], "Ready")
}

pub fn ready_since(pod: &Value) -> Option<Timestamp> {
    let ready = conditions::find(&pod["status"], "Ready").filter(|ready| ready["status"] == "True")?;
    moment(&ready["lastTransitionTime"])
}

/// Whether a pod has been ready for at least `min_ready_seconds`.
pub fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds == 0 || available_at(pod, min_ready_seconds).is_some_and(|at| at <= now))
}

/// When a ready pod becomes available.
pub fn available_at(pod: &Value, min_ready_seconds: i64) -> Option<Timestamp> {
    ready_since(pod)?.checked_add(SignedDuration::from_secs(min_ready_seconds)).ok()
}

/// When the next of these pods becomes available.
pub fn next_available<'a>(
    pods: impl Iterator<Item = &'a Value>,
    min_ready_seconds: i64,
    now: Timestamp,
) -> Option<Timestamp> {
    if min_ready_seconds == 0 {
        return None;
    }
    pods.filter_map(|pod| available_at(pod, min_ready_seconds)).filter(|at| *at > now).min()
}

pub fn node(pod: &Value) -> &str {
    text(&pod["spec"]["nodeName"])
}

/// The highest restart count of its containers.
pub fn restarts(pod: &Value) -> i64 {
    let containers = ["initContainerStatuses", "containerStatuses"]
        .iter()
        .flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    containers.filter_map(|container| container["restartCount"].as_i64()).max().unwrap_or_default()
}

/// Whether a change of a pod is irrelevant for workload controllers.
pub fn look_alike(one: &Value, other: &Value) -> bool {
    text(&one["status"]["phase"]) == text(&other["status"]["phase"])
        && ready_since(one) == ready_since(other)
        && is_ready(one) == is_ready(other)
        && is_terminating(one) == is_terminating(other)
        && node(one) == node(other)
        && restarts(one) == restarts(other)
        && ["labels", "annotations", "ownerReferences", "finalizers"]
            .iter()
            .all(|field| one["metadata"][*field] == other["metadata"][*field])
}
