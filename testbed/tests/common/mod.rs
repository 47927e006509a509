//! Helpers that the tests of the testbed share.

// Each test file is a crate of its own and uses only a part of this module.
#![allow(dead_code)]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};

/// A generous time limit, so that tests pass on slow machines.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A pod with one container and these annotations (without their prefix).
pub fn pod(name: &str, annotations: &[(&str, &str)]) -> Pod {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("testbed.rollcall.dev/{key}"), Value::from(*value)))
        .collect();
    let pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "example"}]},
    });
    serde_json::from_value(pod).expect("a pod")
}

pub fn status(pod: &Pod) -> PodStatus {
    pod.status.clone().unwrap_or_default()
}

pub fn phase(pod: &Pod) -> String {
    status(pod).phase.unwrap_or_default()
}

/// The status of a condition; empty if it is absent.
pub fn condition(pod: &Pod, kind: &str) -> String {
    let conditions = status(pod).conditions.unwrap_or_default();
    conditions.into_iter().find(|c| c.type_ == kind).map(|c| c.status).unwrap_or_default()
}

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready") == "True"
}
