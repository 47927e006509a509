//! Writes the status of a Deployment.

use super::limits::{max_unavailable, replicas};
use super::sets::{Set, Sets};
use crate::actors::common::numbers::put_counts;
use crate::actors::common::{conditions, moment, number, text, write_status};
use crate::cluster::Cluster;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Default number of seconds without progress before a rollout counts as failed.
const DEADLINE: i64 = 600;
/// A deadline with this value means no deadline.
const NO_DEADLINE: i64 = i32::MAX as i64;

pub fn condition(kind: &str, status: &str, reason: &str, message: &str, stamp: &str) -> Value {
    json!({
        "type": kind, "status": status, "lastUpdateTime": stamp, "lastTransitionTime": stamp,
        "reason": reason, "message": message,
    })
}

/// Seconds without progress before a rollout counts as failed; `None` if there is no deadline.
pub fn deadline(deployment: &Value) -> Option<i64> {
    let seconds = deployment["spec"]["progressDeadlineSeconds"].as_i64().unwrap_or(DEADLINE);
    (seconds != NO_DEADLINE).then_some(seconds)
}

/// Records pausing and resuming in the `Progressing` condition, so that a pause does not count as lack of progress.
pub fn note_pause(cluster: &mut Cluster, key: &Key, deployment: Arc<Stored>) -> Result<Arc<Stored>, Refusal> {
    if deadline(&deployment).is_none() {
        return Ok(deployment);
    }
    let progressing = conditions::find(&deployment["status"], "Progressing");
    let reason = progressing.map(|condition| text(&condition["reason"])).unwrap_or_default();
    let paused = deployment["spec"]["paused"] == true;
    let (reason, message) = match (paused, reason) {
        (_, "ProgressDeadlineExceeded") | (true, "DeploymentPaused") => return Ok(deployment),
        (true, _) => ("DeploymentPaused", "Deployment is paused"),
        (false, "DeploymentPaused") => ("DeploymentResumed", "Deployment is resumed"),
        (false, _) => return Ok(deployment),
    };
    let condition = condition("Progressing", "Unknown", reason, message, &cluster.stamp());
    cluster.update_status(key, |deployment| conditions::set(&mut deployment["status"], condition))
}

/// Writes the status of a Deployment without a rollout, which does not check the progress.
pub fn write_plain(cluster: &mut Cluster, key: &Key, deployment: &Stored, sets: &Sets) {
    let status = counts(deployment, sets, &cluster.stamp());
    write_status(cluster, key, status);
}

/// Writes the status during a rollout. Returns when to check the progress again.
pub fn write_rollout(
    cluster: &mut Cluster,
    key: &Key,
    deployment: &Stored,
    sets: &Sets,
) -> Option<Timestamp> {
    let stamp = cluster.stamp();
    let mut status = counts(deployment, sets, &stamp);
    match deadline(deployment) {
        None => conditions::remove(&mut status, "Progressing"),
        Some(seconds) => judge(cluster.now(), key, deployment, sets, seconds, &mut status),
    }
    match failure(sets) {
        Some(failure) => conditions::set(&mut status, failure),
        None => conditions::remove(&mut status, "ReplicaFailure"),
    }
    let check = next_check(deployment, &status);
    write_status(cluster, key, status);
    check
}

/// Updates the `Progressing` condition.
fn judge(now: Timestamp, key: &Key, deployment: &Stored, sets: &Sets, deadline: i64, status: &mut Value) {
    let old = conditions::find(&deployment["status"], "Progressing").cloned();
    let reason = old.as_ref().map(|old| text(&old["reason"])).unwrap_or_default();
    let count = |status: &Value, field: &str| number(&status[field]);
    if count(status, "replicas") == count(status, "updatedReplicas") && reason == "NewReplicaSetAvailable" {
        return;
    }
    let who = match &sets.new {
        Some(new) => format!("ReplicaSet {:?}", &*new.key.name),
        None => format!("Deployment {:?}", &*key.name),
    };
    let stamp = crate::cluster::seconds(now);
    let progressing = |status, reason, says: &str| {
        condition("Progressing", status, reason, &format!("{who} {says}"), &stamp)
    };
    if is_complete(deployment, status) {
        let says = "has successfully progressed.";
        conditions::set(status, progressing("True", "NewReplicaSetAvailable", says));
    } else if has_progressed(&deployment["status"], status) {
        let mut condition = progressing("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(old) = old.filter(|old| old["status"] == "True") {
            condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
        }
        // The time of the last progress is written even if nothing else changes.
        conditions::remove(status, "Progressing");
        conditions::set(status, condition);
    } else if is_timed_out(now, old.as_ref(), deadline) {
        let says = "has timed out progressing.";
        conditions::set(status, progressing("False", "ProgressDeadlineExceeded", says));
    }
}

/// Whether all pods have the new template and are available, and no old pods exist.
pub fn is_complete(deployment: &Stored, status: &Value) -> bool {
    let wanted = replicas(deployment);
    ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|field| number(&status[*field]) == wanted)
        && number(&status["observedGeneration"]) >= number(&deployment["metadata"]["generation"])
}

fn has_progressed(old: &Value, new: &Value) -> bool {
    let leftover = |status: &Value| number(&status["replicas"]) - number(&status["updatedReplicas"]);
    let grew = |field: &str| number(&new[field]) > number(&old[field]);
    grew("updatedReplicas")
        || leftover(new) < leftover(old)
        || grew("readyReplicas")
        || grew("availableReplicas")
}

fn is_timed_out(now: Timestamp, progressing: Option<&Value>, deadline: i64) -> bool {
    let Some(progressing) = progressing else { return false };
    match text(&progressing["reason"]) {
        "NewReplicaSetAvailable" => false,
        "ProgressDeadlineExceeded" => true,
        _ => ends(progressing, deadline).is_some_and(|ends| ends < now),
    }
}

fn ends(progressing: &Value, deadline: i64) -> Option<Timestamp> {
    moment(&progressing["lastUpdateTime"])?.checked_add(SignedDuration::from_secs(deadline)).ok()
}

/// When the progress must be checked again.
fn next_check(deployment: &Stored, status: &Value) -> Option<Timestamp> {
    let deadline = deadline(deployment)?;
    let progressing = conditions::find(status, "Progressing")?;
    // A Deployment that was complete never times out, so its deadline, which may have passed long ago, is not checked.
    let settled = ["ProgressDeadlineExceeded", "NewReplicaSetAvailable"];
    if is_complete(deployment, status) || settled.contains(&text(&progressing["reason"])) {
        return None;
    }
    // One second later, as in the real controller, because the times in the condition have no fractions.
    ends(progressing, deadline)?.checked_add(SignedDuration::from_secs(1)).ok()
}

fn failure(sets: &Sets) -> Option<Value> {
    let of = |set: &Set| conditions::find(&set.object["status"], "ReplicaFailure").cloned();
    let found = sets.new.as_ref().and_then(of).or_else(|| sets.old.iter().find_map(of))?;
    let at = text(&found["lastTransitionTime"]);
    Some(condition(
        "ReplicaFailure",
        text(&found["status"]),
        text(&found["reason"]),
        text(&found["message"]),
        at,
    ))
}

fn counts(deployment: &Stored, sets: &Sets, stamp: &str) -> Value {
    let sum = |field: &str| sets.all().map(|set| set.count(field)).sum::<i64>();
    let available = sets.available();
    let mut status = Map::new();
    put_counts(
        &mut status,
        &[
            ("observedGeneration", number(&deployment["metadata"]["generation"])),
            ("replicas", sum("replicas")),
            ("updatedReplicas", sets.new.as_ref().map(|new| new.count("replicas")).unwrap_or_default()),
            ("readyReplicas", sum("readyReplicas")),
            ("availableReplicas", available),
            ("unavailableReplicas", (sets.replicas() - available).max(0)),
        ],
    );
    status.insert("terminatingReplicas".into(), sum("terminatingReplicas").into());
    for field in ["conditions", "collisionCount"] {
        if let Some(old) = deployment["status"].get(field) {
            status.insert(field.into(), old.clone());
        }
    }
    let mut status = Value::Object(status);
    let enough = available >= replicas(deployment) - max_unavailable(deployment);
    let available = match enough {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    conditions::set(&mut status, condition("Available", available.0, available.1, available.2, stamp));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise an expired deadline without consequences would be checked again immediately and endlessly.
    #[test]
    fn who_was_complete_once_has_no_deadline_any_more() {
        let check = |reason: &str| {
            let condition =
                json!({ "type": "Progressing", "reason": reason, "lastUpdateTime": "2026-01-01T00:00:00Z" });
            let status = json!({ "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "conditions": [condition] });
            let spec = json!({ "replicas": 2, "progressDeadlineSeconds": 600 });
            next_check(&Stored::draft(json!({ "metadata": {}, "spec": spec })), &status)
        };
        assert_eq!(check("ReplicaSetUpdated"), "2026-01-01T00:10:01Z".parse().ok());
        assert_eq!([check("NewReplicaSetAvailable"), check("ProgressDeadlineExceeded")], [None, None]);
    }
}
