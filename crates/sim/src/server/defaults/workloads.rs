//! Defaults of Deployments, ReplicaSets, StatefulSets and DaemonSets.

use super::{default, each, inner, pod, text};
use serde_json::Value;

/// Default number of old ReplicaSets or revisions that are kept for rollbacks.
const HISTORY: u8 = 10;

pub fn fill_deployment(spec: &mut Value) {
    pod::fill_template(&mut spec["template"]);
    default(spec, "replicas", 1);
    let strategy = inner(spec, "strategy");
    default(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = inner(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
    default(spec, "revisionHistoryLimit", HISTORY);
    default(spec, "progressDeadlineSeconds", 600);
}

pub fn fill_replica_set(spec: &mut Value) {
    pod::fill_template(&mut spec["template"]);
    default(spec, "replicas", 1);
}

pub fn fill_stateful_set(spec: &mut Value) {
    pod::fill_template(&mut spec["template"]);
    default(spec, "podManagementPolicy", "OrderedReady");
    let strategy = inner(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        default(strategy, "type", "RollingUpdate");
        inner(strategy, "rollingUpdate");
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = strategy.get_mut("rollingUpdate")
    {
        default(rolling, "partition", 0);
    }
    let retention = inner(spec, "persistentVolumeClaimRetentionPolicy");
    default(retention, "whenDeleted", "Retain");
    default(retention, "whenScaled", "Retain");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", HISTORY);
    for claim in each(spec, "volumeClaimTemplates") {
        // Claim templates have kind and version even inside another object.
        default(claim, "apiVersion", "v1");
        default(claim, "kind", "PersistentVolumeClaim");
        super::core::fill_claim(claim);
    }
}

pub fn fill_daemon_set(spec: &mut Value) {
    pod::fill_template(&mut spec["template"]);
    let strategy = inner(spec, "updateStrategy");
    default(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = inner(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", 1);
        default(rolling, "maxSurge", 0);
    }
    default(spec, "revisionHistoryLimit", HISTORY);
}
