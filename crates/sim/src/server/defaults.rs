//! What the server fills in.

mod quantity;

pub use quantity::Quantity;

use crate::kinds::Kind;
use serde_json::{Value, json};

pub fn fill(kind: Kind, object: &mut Value) {
    if kind == Kind::Namespace
        && object["spec"]["finalizers"].is_null()
        && object["metadata"]["deletionTimestamp"].is_null()
    {
        object["spec"]["finalizers"] = json!(["kubernetes"]);
    }
    if matches!(kind, Kind::ReplicaSet | Kind::Deployment | Kind::StatefulSet)
        && object["spec"]["replicas"].is_null()
    {
        object["spec"]["replicas"] = 1.into();
    }
}

pub fn initial_status(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Pod => {
            object["status"] = json!({ "phase": "Pending" });
            if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                object["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates" }]);
            }
        }
        Kind::Namespace => object["status"] = json!({ "phase": "Active" }),
        _ => {}
    }
}
