//! What becomes of a new object before it is looked at: defaults, a first status, what admission adds.

use super::defaults;
use super::patch::drop_nulls;
use super::quota;
use super::refusal::Refusal;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use serde_json::{Value, json};

pub fn created(cluster: &Cluster, kind: Kind, object: &mut Value) -> Result<(), Refusal> {
    drop_nulls(object);
    defaults::fill(kind, object);
    defaults::initial_status(kind, object);
    if kind == Kind::Job {
        select_own_pods(object);
    }
    if kind == Kind::Pod {
        admit_pod(cluster, object)?;
    }
    Ok(())
}

fn admit_pod(cluster: &Cluster, pod: &Value) -> Result<(), Refusal> {
    quota::admit(cluster, pod)
}

/// A Job selects its pods by its own uid, unless it is told to select them otherwise.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    let template = &mut job["spec"]["template"]["metadata"];
    if !template["labels"].is_object() {
        template["labels"] = json!({});
    }
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        if template["labels"][label].is_null() {
            template["labels"][label] = value.clone();
        }
    }
    let selector = &mut job["spec"]["selector"]["matchLabels"];
    if selector["batch.kubernetes.io/controller-uid"].is_null() {
        selector["batch.kubernetes.io/controller-uid"] = uid;
    }
}
