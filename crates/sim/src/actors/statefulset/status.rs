//! Writes the status of a StatefulSet.

use super::identity::{Revisions, is_rolling, replicas, revision};
use crate::actors::common::numbers::put_counts;
use crate::actors::common::{number, pods, write_status};
use crate::cluster::Cluster;
use crate::store::{Key, Stored};
use serde_json::{Map, Value};
use std::sync::Arc;

pub fn write(
    cluster: &mut Cluster,
    key: &Key,
    set: &Stored,
    members: &[(Key, Arc<Stored>)],
    revisions: &Revisions,
    collisions: i64,
    current_ended: i64,
) {
    let min_ready = number(&set["spec"]["minReadySeconds"]);
    let now = cluster.now();
    let count = |holds: &dyn Fn(&Value) -> bool| members.iter().filter(|(_, pod)| holds(pod)).count() as i64;
    let has = |pod: &Value, name: &str| !pods::is_terminating(pod) && revision(pod) == name;
    let is_ready = |pod: &Value| pod["status"]["phase"] == "Running" && pods::is_ready(pod);
    let total = members.len() as i64;
    let ready = count(&is_ready);
    let available = count(&|pod| is_ready(pod) && pods::is_available(pod, min_ready, now));
    let updated = count(&|pod| has(pod, revisions.update.name()));
    let mut current = count(&|pod| has(pod, revisions.current.name())) - current_ended;
    let mut current_revision = revisions.current.name();
    let wanted = replicas(set);
    // The update is finished.
    if is_rolling(set) && [updated, ready, total] == [wanted; 3] {
        current = updated;
        current_revision = revisions.update.name();
    }
    let mut status = Map::new();
    status.insert("observedGeneration".into(), set["metadata"]["generation"].clone());
    status.insert("replicas".into(), total.into());
    put_counts(
        &mut status,
        &[("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)],
    );
    status.insert("currentRevision".into(), current_revision.into());
    status.insert("updateRevision".into(), revisions.update.name().into());
    status.insert("collisionCount".into(), collisions.into());
    status.insert("availableReplicas".into(), available.into());
    write_status(cluster, key, Value::Object(status));
}
