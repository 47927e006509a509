//! Counts each finished pod exactly once: records it in the status, removes its finalizer, then adds it to the total.

use super::sync::{JobSync, condition, put};
use super::{pod, spec};
use crate::actors::common::numbers::put_counts;
use crate::actors::common::{number, pods, text};
use crate::cluster::Cluster;
use crate::server::refusal::Refusal;
use crate::store::{Key, Stored};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limit of pods counted in one sync.
const MOST_COUNTED: usize = 500;

pub fn track(cluster: &mut Cluster, sync: &mut JobSync) -> Result<(), Refusal> {
    set_counts(sync);
    count_untracked_pods(sync);
    let go = record_ended_pods(sync);
    let finish = record_finish(sync);
    write(cluster, sync)?;
    let all = go.len() < MOST_COUNTED;
    go.iter().for_each(|key| let_go(cluster, key));
    for (_, pod) in sync.pods.iter_mut().filter(|(key, _)| go.contains(key)) {
        // The pod has been recorded and its finalizer removed. The local copy follows.
        let mut freed = pod.value.clone();
        drop_finalizer(&mut freed);
        *pod = Arc::new(Stored::draft(freed));
    }
    count_untracked_pods(sync);
    let uncounted = &sync.status["uncountedTerminatedPods"];
    let nothing_left = ["succeeded", "failed"].iter().all(|what| uncounted[*what].is_null());
    if let Some(finish) = finish
        && all
        && nothing_left
        && sync.terminating == 0
    {
        if finish["type"] == "Complete" {
            sync.status["completionTime"] = finish["lastTransitionTime"].clone();
        }
        put(&mut sync.status, finish);
    }
    write(cluster, sync)
}

fn write(cluster: &mut Cluster, sync: &JobSync) -> Result<(), Refusal> {
    let status = sync.status.clone();
    cluster.update_status(sync.key, |job| job["status"] = status).map(drop)
}

fn set_count(status: &mut Value, name: &str, count: i64) {
    if let Some(status) = status.as_object_mut() {
        status.remove(name);
        put_counts(status, &[(name, count)]);
    }
}

fn set_counts(sync: &mut JobSync) {
    set_count(&mut sync.status, "active", sync.active_count);
    sync.status["ready"] = sync.ready.into();
    sync.status["terminating"] = sync.terminating.into();
}

/// Adds recorded pods without finalizer to the totals.
fn count_untracked_pods(sync: &mut JobSync) {
    let held: BTreeSet<&str> =
        sync.pods.iter().filter(|(_, pod)| pod::is_tracked(pod)).map(|(_, pod)| pod.uid()).collect();
    for what in ["succeeded", "failed"] {
        let noted = sync.status["uncountedTerminatedPods"][what].as_array().cloned().unwrap_or_default();
        let left: Vec<Value> = noted.iter().filter(|uid| held.contains(text(uid))).cloned().collect();
        let counted = (noted.len() - left.len()) as i64;
        if counted > 0 {
            let sum = number(&sync.status[what]) + counted;
            set_count(&mut sync.status, what, sum);
        }
        if let Some(uncounted) = sync.status["uncountedTerminatedPods"].as_object_mut() {
            uncounted.remove(what);
            if !left.is_empty() {
                uncounted.insert(what.into(), left.into());
            }
        }
    }
}

/// Records finished pods in the status. Returns the pods whose finalizer can be removed.
fn record_ended_pods(sync: &mut JobSync) -> BTreeSet<Key> {
    let job = sync.job;
    let indexed = spec::is_indexed(job);
    let failing = sync.finish.as_ref().is_some_and(|finish| finish["type"] != "SuccessCriteriaMet");
    let mut noted = sync.status["uncountedTerminatedPods"].clone();
    let list = |noted: &Value, what: &str| noted[what].as_array().cloned().unwrap_or_default();
    let (mut succeeded, mut failed) = (list(&noted, "succeeded"), list(&noted, "failed"));
    let mut go = BTreeSet::new();
    for (key, one) in sync.pods.iter().filter(|(_, pod)| pod::is_tracked(pod)) {
        let is_failed = pod::is_failed(job, one);
        let is_kept = || sync.kept.values().any(|(kept, _)| kept == key);
        let is_over = job.is_terminating()
            || sync.finish.is_some()
            || pods::is_succeeded(one)
            || is_failed && !is_kept();
        if !is_over {
            continue;
        }
        go.insert(key.clone());
        let uid = Value::from(one.uid());
        let known = failed.contains(&uid) || succeeded.contains(&uid);
        let counts = !indexed || pod::index(job, one).is_some();
        if pods::is_succeeded(one) && !failed.contains(&uid) {
            // In indexed Jobs, succeeded pods are counted by their indexes.
            if !indexed && !known {
                succeeded.push(uid);
            }
        } else if (is_failed || failing) && counts && !known {
            failed.push(uid);
        }
        if go.len() == MOST_COUNTED {
            break;
        }
    }
    for (what, list) in [("succeeded", succeeded), ("failed", failed)] {
        if !list.is_empty() {
            noted[what] = list.into();
        }
    }
    sync.status["uncountedTerminatedPods"] = noted;
    if indexed {
        set_count(&mut sync.status, "succeeded", sync.succeeded_indexes.len());
        set_text(&mut sync.status, "completedIndexes", &sync.succeeded_indexes.to_string());
        if let Some(failed) = &sync.failed_indexes {
            sync.status["failedIndexes"] = failed.to_string().into();
        }
    }
    go
}

fn set_text(status: &mut Value, name: &str, text: &str) {
    match text {
        "" => drop(status.as_object_mut().map(|status| status.remove(name))),
        text => status[name] = text.into(),
    }
}

/// Records the interim condition. Returns the final condition that follows.
fn record_finish(sync: &mut JobSync) -> Option<Value> {
    let finish = sync.finish.clone()?;
    let last = match text(&finish["type"]) {
        "FailureTarget" => "Failed",
        "SuccessCriteriaMet" => "Complete",
        _ => return Some(finish),
    };
    let (reason, message) = (text(&finish["reason"]).to_owned(), text(&finish["message"]).to_owned());
    put(&mut sync.status, finish);
    Some(condition(last, "True", &reason, &message, sync.now))
}

fn drop_finalizer(pod: &mut Value) {
    let Some(metadata) = pod["metadata"].as_object_mut() else { return };
    let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) else { return };
    list.retain(|one| one != pod::FINALIZER);
    if list.is_empty() {
        metadata.remove("finalizers");
    }
}

/// Removes the finalizer of a pod that has been counted or need not be counted.
pub fn let_go(cluster: &mut Cluster, key: &Key) {
    // The pod may already be deleted.
    let _ = cluster.update(key, drop_finalizer);
}
