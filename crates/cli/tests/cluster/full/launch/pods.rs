//! Pods whose containers log their start and their readiness.

use serde_json::{Value, json};

pub const IMAGE: &str = "docker.io/library/busybox:latest";
pub const PROPOSED: &str = "KRUISE_CONTAINER_LAUNCH_PRIORITY";
pub const SHIPPED: &str = "KRUISE_CONTAINER_PRIORITY";
pub const ORDERED: &str = "apps.kruise.io/container-launch-priority";

/// A container that is ready after this many tenths of a second.
pub fn container(name: &str, tenths: u32) -> Value {
    let script = format!(
        "echo begun $(cat /proc/uptime); sleep {}.{}; echo ready $(cat /proc/uptime); touch /ready; exec sleep 100000",
        tenths / 10,
        tenths % 10
    );
    json!({
        "name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script],
        // Each probe starts a process. With a probe per second, sixty containers keep a small machine so busy that probes fail.
        "readinessProbe": { "exec": { "command": ["/bin/test", "-f", "/ready"] }, "periodSeconds": 2, "timeoutSeconds": 20 },
    })
}

pub fn with_priority(mut container: Value, variable: &str, priority: &str) -> Value {
    container["env"] = json!([{ "name": "OWN", "value": "first" }, { "name": variable, "value": priority }]);
    container
}

/// Containers with these priorities, in this order.
pub fn containers(variable: &str, priorities: &[i32]) -> Vec<Value> {
    let one = |(place, priority): (usize, &i32)| {
        let container = container(&format!("c{place}"), 3);
        match priority {
            0 => container,
            priority => with_priority(container, variable, &priority.to_string()),
        }
    };
    priorities.iter().enumerate().map(one).collect()
}

pub fn spec(containers: Vec<Value>) -> Value {
    json!({ "terminationGracePeriodSeconds": 0, "containers": containers })
}

pub fn pod(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

/// A workload with this template and number of replicas.
pub fn workload(kind: &str, name: &str, replicas: u32, spec: &Value) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    })
}
