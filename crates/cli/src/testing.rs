//! The shop of the documentation, for tests of what is printed about it.

use jiff::Timestamp;
use rollcall_api::names;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::PodObject;
use serde_json::{Value, json};

/// The moment at which the tests look.
pub fn now() -> Timestamp {
    at("2026-11-15T23:00:41Z")
}

pub fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

pub fn sequence(object: Value) -> SequenceObject {
    serde_json::from_value(object).expect("a sequence")
}

/// Three tiers, nothing known about how far they are.
pub fn shop() -> Value {
    json!({
        "apiVersion": "scheduling.example.com/v1alpha1",
        "kind": "PodSequence",
        "metadata": {
            "name": "shop", "namespace": "default", "uid": "11111111-1111-4111-8111-111111111111",
            "resourceVersion": "10", "generation": 1, "creationTimestamp": "2026-11-15T23:00:00Z",
        },
        "spec": {"podGroups": [
            {"name": "Database Layer", "pods": ["postgres-0", "postgres-1"]},
            {"name": "Application Layer", "pods": ["app-1", "app-2"]},
            {"name": "Frontend Layer", "pods": ["web"]},
        ]},
    })
}

/// The same, in the middle of the second tier.
pub fn shop_in_progress() -> Value {
    let mut shop = shop();
    shop["status"] = json!({
        "phase": "InProgress",
        "observedGeneration": 1,
        "currentIndex": 1,
        "message": "waiting for 1 of 2 pods of \"Application Layer\": app-2 is not ready",
        "summary": {"group": "2/3 Application Layer", "ready": "1/2"},
        "groups": [
            {"name": "Database Layer", "state": "Complete", "expected": 2, "present": 2, "released": 2, "arrived": 2,
             "openedAt": "2026-11-15T23:00:00.100Z", "completedAt": "2026-11-15T23:00:12.500Z"},
            {"name": "Application Layer", "state": "Open", "expected": 2, "present": 2, "released": 2, "arrived": 1,
             "openedAt": "2026-11-15T23:00:12.600Z"},
            {"name": "Frontend Layer", "state": "Waiting", "expected": 1, "present": 1, "released": 0, "arrived": 0},
        ],
        "blockedBy": [
            {"group": "Application Layer", "pod": "app-2", "reason": "NotReady", "since": "2026-11-15T23:00:13.000Z"},
        ],
    });
    shop
}

pub fn pod(object: Value) -> PodObject {
    serde_json::from_value(object).expect("a pod")
}

/// A pod behind the usual gate.
pub fn held(name: &str) -> Value {
    json!({
        "metadata": meta(name),
        "spec": {
            "schedulingGates": [{"name": names::SEQUENCE_GATE}],
            "containers": [{"name": "server", "readinessProbe": {}}],
        },
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
        ]},
    })
}

pub fn ready(name: &str) -> Value {
    running(name, true)
}

/// A pod that runs, and whose container `server` is not ready since second 3.
pub fn unready(name: &str) -> Value {
    running(name, false)
}

fn running(name: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "metadata": meta(name),
        "spec": {"nodeName": "node-0", "containers": [{"name": "server", "readinessProbe": {}}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-11-15T23:00:03Z"}],
            "containerStatuses": [{"name": "server", "ready": ready, "started": true, "state": {"running": {}}}],
        },
    })
}

fn meta(name: &str) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": format!("uid-of-{name}"), "resourceVersion": "5",
        "creationTimestamp": "2026-11-15T23:00:00Z",
    })
}
