//! The pods of a Job: creates them and reads their state.

use super::spec;
use crate::actors::common::{born, conditions, moment, pods, template, text};
use crate::store::{Key, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const ENV: &str = "JOB_COMPLETION_INDEX";
/// Maximum length of the prefix of a generated name.
const LONGEST_START: usize = 58;

/// A pod of a Job, not created yet.
pub fn new_pod(key: &Key, job: &Stored) -> Value {
    let mut pod = template::pod(&job["spec"]["template"], key, job);
    let finalizers = &mut pod["metadata"]["finalizers"];
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|one| one == FINALIZER)
    {
        list.push(FINALIZER.into());
    }
    pod["metadata"]["generateName"] = format!("{}-", key.name).into();
    if spec::is_indexed(job) {
        for list in ["initContainers", "containers"] {
            pod["spec"][list].as_array_mut().into_iter().flatten().for_each(tell_index);
        }
    }
    pod
}

/// Sets the completion index in a container's environment.
fn tell_index(container: &mut Value) {
    if !container["env"].is_array() {
        container["env"] = json!([]);
    }
    if let Some(env) = container["env"].as_array_mut()
        && !env.iter().any(|variable| variable["name"] == ENV)
    {
        let path = format!("metadata.labels['{INDEX}']");
        env.push(json!({ "name": ENV, "valueFrom": { "fieldRef": { "fieldPath": path } } }));
    }
}

/// Assigns a completion index. `failures` is the number of earlier failures of this index, if failures are counted per
/// index.
pub fn give_index(pod: &mut Value, key: &Key, index: i64, failures: Option<i64>) {
    for field in ["annotations", "labels"] {
        if !pod["metadata"][field].is_object() {
            pod["metadata"][field] = json!({});
        }
        pod["metadata"][field][INDEX] = index.to_string().into();
    }
    if let Some(failures) = failures {
        pod["metadata"]["annotations"][FAILURES] = failures.to_string().into();
    }
    pod["spec"]["hostname"] = format!("{}-{index}", key.name).into();
    let end = format!("-{index}-");
    let start: String = key.name.chars().take(LONGEST_START - end.len()).collect();
    pod["metadata"]["generateName"] = format!("{start}{end}").into();
}

/// The completion index of a pod, if it is valid for this Job.
pub fn index(job: &Value, pod: &Value) -> Option<i64> {
    let index = text(&pod["metadata"]["annotations"][INDEX]).parse::<i64>().ok()?;
    (0..spec::completions(job)?).contains(&index).then_some(index)
}

/// The number of earlier failures of its index.
pub fn failures(pod: &Value) -> i64 {
    text(&pod["metadata"]["annotations"][FAILURES]).parse().unwrap_or_default()
}

/// Whether the pod has the tracking finalizer, so it has not been counted yet.
pub fn is_tracked(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array().into_iter().flatten();
    finalizers.into_iter().any(|one| one == FINALIZER)
}

/// Whether a pod counts as failed. Terminating pods count as well, unless only finished pods are replaced.
pub fn is_failed(job: &Value, pod: &Value) -> bool {
    pods::is_failed(pod)
        || !spec::replaces_only_failed(job) && pods::is_terminating(pod) && !pods::is_succeeded(pod)
}

/// When a pod ended.
pub fn ended(pod: &Value) -> Option<Timestamp> {
    let containers = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let times: Option<Vec<Timestamp>> =
        containers.iter().map(|one| moment(&one["state"]["terminated"]["finishedAt"])).collect();
    let from_containers = times.and_then(|times| times.into_iter().max());
    let not_ready = || {
        let ready = conditions::find(&pod["status"], "Ready").filter(|ready| ready["status"] == "False")?;
        moment(&ready["lastTransitionTime"])
    };
    let deleted = || {
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        moment(&pod["metadata"]["deletionTimestamp"])?.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    from_containers.or_else(not_ready).or_else(deleted).or_else(|| born(pod))
}
