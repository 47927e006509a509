//! The example shop of the documentation, for tests of output.

use jiff::Timestamp;
use rollcall_api::names;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::PodObject;
use serde_json::{Value, json};

/// The current time in the tests.
pub fn now() -> Timestamp {
    at("2026-11-15T23:00:41Z")
}

pub fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

pub fn sequence(object: Value) -> SequenceObject {
    serde_json::from_value(object).expect("a sequence")
}

/// A sequence with three tiers, without a status.
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

/// The shop while its second tier starts.
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

/// A pod that the sequence gate holds.
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

/// A running pod whose container `server` has not been ready since second 3.
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

/// Three Orders: one per node, with too little capacity on one node; one with a fixed number, paused; and one without a status.
pub fn orders() -> Vec<Value> {
    let order = |name: &str, spec: Value, status: Value| {
        let mut order = json!({ "metadata": meta(name), "spec": spec, "status": status });
        order["spec"]["template"] = json!({ "spec": { "resources": { "requests": { "cpu": "500m" } } } });
        order["metadata"]["generation"] = 1.into();
        order
    };
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-15T23:00:10Z",
        })
    };
    let no_room = "2 of 3 nodes reserved; not enough capacity on 1 node";
    let agents = json!({
        "observedGeneration": 1, "mode": "DaemonSet", "desiredReplicas": 3, "availableReplicas": 2, "claimedReplicas": 1,
        "message": no_room, "conditions": [condition("Ready", "False", "NoRoom", no_room)],
    });
    let buffer = json!({
        "observedGeneration": 1, "mode": "Replica", "desiredReplicas": 2, "availableReplicas": 2, "claimedReplicas": 0,
        "nextScheduleTime": "2026-11-16T03:00:00Z", "message": "2 of 2 tickets reserved",
        "conditions": [
            condition("Ready", "True", "Reserved", "2 of 2 tickets reserved"),
            condition("Progressing", "False", "Paused", "no tickets are created or removed"),
        ],
    });
    let recurring = json!({ "paused": true, "replicas": 2, "strategy": { "type": "Recurring", "schedule": "0 3 * * *" } });
    vec![
        order("agents", json!({ "daemonSet": true }), agents),
        order("buffer", recurring, buffer),
        order("new", json!({}), Value::Null),
    ]
}

/// Tickets of the first Order: reserved, without capacity, claimed, expired, and one without a status; and a ticket created by
/// hand.
pub fn tickets() -> Vec<Value> {
    let ticket = |name: &str, status: Value| {
        let mut ticket = json!({
            "metadata": meta(name), "spec": { "resources": { "requests": { "cpu": "500m" } } }, "status": status,
        });
        ticket["metadata"]["generation"] = 1.into();
        let Some(node) = name.strip_prefix("agents-") else { return ticket };
        ticket["spec"]["nodeName"] = node.into();
        ticket["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "name": "agents", "uid": "uid-of-agents",
            "controller": true,
        }]);
        ticket
    };
    let end = "2026-11-16T23:00:00.000Z";
    vec![
        ticket(
            "agents-node-a",
            json!({
                "phase": "Reserved", "nodeName": "node-a", "activationTime": "2026-11-15T23:00:00.000Z", "expires": "2026-11-16T23:00:00Z", "expirationTime": end,
                "reason": "Reserved", "message": "reserves 500m cpu on node-a", "guardianPod": "korder-guardian-agents-node-a",
            }),
        ),
        ticket(
            "agents-node-b",
            json!({
                "phase": "Pending", "nodeName": "node-b", "expires": "2026-11-16T23:00:00Z", "expirationTime": end,
                "reason": "NoRoom", "message": "not enough capacity on node-b for 500m cpu; guardians never preempt",
            }),
        ),
        ticket(
            "agents-node-c",
            json!({
                "phase": "Claimed", "nodeName": "node-c", "podName": "agent-x2x4z", "podUID": "u", "utilizationRate": 80,
            "claimedTime": "2026-11-15T23:00:10.000Z",
                "reason": "Claimed", "message": "claimed by agent-x2x4z",
            }),
        ),
        ticket(
            "agents-node-d",
            json!({
                "phase": "Expired", "reason": "ClaimEnded", "message": "the claiming pod agent-9v8w7 has ended", "expirationTime": "2026-11-15T23:00:20.000Z",
            }),
        ),
        ticket(
            "endless",
            json!({
                "phase": "Reserved", "nodeName": "node-a", "activationTime": "2026-11-15T23:00:00.000Z", "expires": "never", "reason": "Reserved", "message": "reserves 500m cpu on node-a",
            }),
        ),
        ticket("agents-node-e", Value::Null),
    ]
}
