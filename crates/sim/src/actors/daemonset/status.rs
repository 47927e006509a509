//! Writes the status of a DaemonSet.

use super::View;
use super::nodes::{NodeFit, node_fit, spec};
use super::steps::age_key;
use crate::actors::common::numbers::put_counts;
use crate::actors::common::{pods, write_status};
use crate::cluster::Cluster;
use serde_json::{Map, Value};

pub fn write(cluster: &mut Cluster, view: &View, collisions: i64) {
    let spec = spec(view.set);
    let [mut desired, mut current, mut misplaced, mut ready, mut updated, mut available] = [0i64; 6];
    for node in &view.nodes {
        let there = view.pods.get(node["metadata"]["name"].as_str().unwrap_or_default());
        let oldest = there.and_then(|pods| pods.iter().min_by_key(|pod| age_key(pod)));
        if node_fit(&spec, node) != NodeFit::Wanted {
            misplaced += i64::from(oldest.is_some());
            continue;
        }
        desired += 1;
        let Some((_, pod)) = oldest else { continue };
        current += 1;
        ready += i64::from(pods::is_ready(pod));
        available += i64::from(view.is_available(pod));
        updated += i64::from(view.is_updated(pod));
    }
    let mut status = Map::new();
    for (name, count) in [
        ("currentNumberScheduled", current),
        ("numberMisscheduled", misplaced),
        ("desiredNumberScheduled", desired),
        ("numberReady", ready),
    ] {
        status.insert(name.into(), count.into());
    }
    status.insert("observedGeneration".into(), view.set["metadata"]["generation"].clone());
    put_counts(
        &mut status,
        &[
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", desired - available),
            ("collisionCount", collisions),
        ],
    );
    write_status(cluster, view.key, Value::Object(status));
}
