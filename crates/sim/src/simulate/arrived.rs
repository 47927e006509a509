//! Whether everything has arrived, and which workloads have not.

use super::tickets::{self, is_guardian};
use super::timeline::Timeline;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use serde_json::Value;
use std::sync::Arc;

const WORKLOADS: [Kind; 5] =
    [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::DaemonSet, Kind::Job];

/// Whether all sequences are complete, all workloads have their pods, all pods have arrived, and all tickets and Orders are
/// settled.
pub fn has_everything(cluster: &Cluster, timeline: &Timeline) -> bool {
    // The most likely obstacle is checked first.
    let complete = |sequence: &Stored| is_current(sequence) && sequence["status"]["phase"] == "Completed";
    let fine = |pod: &Stored| match pod["status"]["phase"].as_str() {
        Some("Succeeded") => true,
        // The owner has replaced the pod, or has failed itself.
        Some("Failed") => is_owned(pod),
        _ => has_condition(pod, "Ready"),
    };
    cluster.store.list(Kind::PodSequence, None).all(|(_, sequence)| complete(sequence))
        && lacking_workloads(cluster).next().is_none()
        && cluster.store.list(Kind::Pod, None).all(|(_, pod)| is_guardian(pod) || fine(pod))
        && tickets::are_settled(cluster)
        && timeline.all_arrived()
}

/// Workloads with fewer pods than desired, each with a sentence that gives the numbers.
pub fn lacking_workloads(cluster: &Cluster) -> impl Iterator<Item = (&Key, String)> {
    let all = WORKLOADS.into_iter().flat_map(move |kind| cluster.store.list(kind, None));
    all.filter_map(|(key, object)| Some((key, lacks(key.kind, object)?)))
}

fn lacks(kind: Kind, object: &Arc<Stored>) -> Option<String> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (has, wants, updated) = match kind {
        Kind::Job if has_condition(object, "Complete") || spec["suspend"] == true => return None,
        Kind::Job => (number(&status["succeeded"]), spec["completions"].as_i64().unwrap_or(1), true),
        Kind::DaemonSet => (number(&status["numberReady"]), number(&status["desiredNumberScheduled"]), true),
        Kind::ReplicaSet if is_owned(object) => return None,
        Kind::ReplicaSet => (number(&status["readyReplicas"]), spec["replicas"].as_i64().unwrap_or(1), true),
        Kind::StatefulSet => {
            let wants = spec["replicas"].as_i64().unwrap_or(1);
            let updated = number(&status["updatedReplicas"]) >= due(spec, wants)
                && number(&status["replicas"]) == wants;
            (number(&status["readyReplicas"]), wants, updated)
        }
        _ => {
            let wants = spec["replicas"].as_i64().unwrap_or(1);
            let updated = number(&status["updatedReplicas"]) == wants && number(&status["replicas"]) == wants;
            (number(&status["readyReplicas"]), wants, updated)
        }
    };
    let enough = kind != Kind::Job && is_current(object) && updated && has == wants;
    let what = if kind == Kind::Job { "completions" } else { "pods ready" };
    (!enough).then(|| format!("{} {} has {has} of {wants} {what}", kind.info().name, key_name(object)))
}

/// Number of pods that a StatefulSet update replaces automatically: those from the partition on.
fn due(spec: &Value, wants: i64) -> i64 {
    let strategy = &spec["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return 0;
    }
    let first = number(&spec["ordinals"]["start"]);
    let partition = number(&strategy["rollingUpdate"]["partition"]);
    (first + wants - partition.max(first)).clamp(0, wants.max(0))
}

fn key_name(object: &Stored) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn is_current(object: &Stored) -> bool {
    number(&object["status"]["observedGeneration"]) >= number(&object["metadata"]["generation"])
}

fn is_owned(object: &Stored) -> bool {
    object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
}

fn has_condition(object: &Stored, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|is| is["type"] == condition && is["status"] == "True")
}
