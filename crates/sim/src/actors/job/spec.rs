//! The spec of a Job with the defaults of the API.

use crate::actors::common::{conditions, number};
use serde_json::Value;

const BACKOFF_LIMIT: i64 = 6;

pub fn parallelism(job: &Value) -> i64 {
    job["spec"]["parallelism"].as_i64().unwrap_or(1)
}

/// The number of pods that must succeed; `None` for a work queue.
pub fn completions(job: &Value) -> Option<i64> {
    let spec = &job["spec"];
    match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (None, None) => Some(1),
        (completions, _) => completions,
    }
}

pub fn backoff_limit(job: &Value) -> i64 {
    let default = if per_index_limit(job).is_some() { i64::from(i32::MAX) } else { BACKOFF_LIMIT };
    job["spec"]["backoffLimit"].as_i64().unwrap_or(default)
}

pub fn per_index_limit(job: &Value) -> Option<i64> {
    job["spec"]["backoffLimitPerIndex"].as_i64()
}

pub fn is_indexed(job: &Value) -> bool {
    job["spec"]["completionMode"] == "Indexed"
}

pub fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

/// Whether a pod is replaced only after it has ended, and not as soon as it is terminating.
pub fn replaces_only_failed(job: &Value) -> bool {
    job["spec"]["podReplacementPolicy"] == "Failed" || job["spec"]["podFailurePolicy"].is_object()
}

pub fn is_finished(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| conditions::is_true(&job["status"], kind))
}

/// Whether the restarts of containers have reached the back-off limit.
pub fn is_past_restarts<'a>(job: &Value, pods: impl Iterator<Item = &'a Value>) -> bool {
    if job["spec"]["template"]["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let containers = |pod: &'a Value| {
        ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(move |list| pod["status"][list].as_array().into_iter().flatten())
    };
    let restarts: i64 = pods
        .filter(|pod| pod["status"]["phase"] == "Running" || pod["status"]["phase"] == "Pending")
        .flat_map(containers)
        .map(|container| number(&container["restartCount"]))
        .sum();
    match backoff_limit(job) {
        0 => restarts > 0,
        limit => restarts >= limit,
    }
}
