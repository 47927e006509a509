//! Defaults of Jobs and CronJobs.

use super::{default, each, pod, text};
use serde_json::Value;

pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// Default number of failures that a Job permits.
const BACKOFF_LIMIT: i32 = 6;

pub fn fill_job(job: &mut Value) {
    // A new Job inherits its labels later, after the API server has added the generated labels to its template.
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    if job["spec"]["manualSelector"] == true || labels.get(CONTROLLER_UID).is_some() {
        label_like_template(job);
    }
    let spec = &mut job["spec"];
    fill_template_of_job(spec);
    if spec.get("parallelism").is_none() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    default(spec, "backoffLimit", if per_index { i32::MAX } else { BACKOFF_LIMIT });
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    let replace = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", replace);
    default(spec, "manualSelector", false);
}

/// The Job template of a CronJob gets most of its defaults only when a Job is created from it.
pub fn fill_cron_job(spec: &mut Value) {
    fill_template_of_job(&mut spec["jobTemplate"]["spec"]);
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
}

fn fill_template_of_job(spec: &mut Value) {
    pod::fill_template(&mut spec["template"]);
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in each(policy, "rules") {
            for condition in each(rule, "onPodConditions") {
                if text(condition, "status").is_empty() {
                    condition["status"] = "True".into();
                }
            }
        }
    }
}

/// Copies the labels of the template to a Job without labels.
pub fn label_like_template(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        default(&mut job["metadata"], "labels", labels);
    }
}
