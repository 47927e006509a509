//! Builders of objects as JSON: minimal objects, and `with` for additional fields.

use serde_json::{Value, json};

/// The default gate of a sequence.
pub const GATE: &str = "podsequence.example.com/sequence-gate";

/// Applies a patch to an object like a JSON merge patch.
pub trait With {
    fn with(self, patch: Value) -> Value;
    /// Adds an annotation for kwok, for example `testbed.rollcall.dev/never-ready` for `never-ready`.
    fn kwok(self, key: &str, value: &str) -> Value;
    /// Sets a label.
    fn label(self, key: &str, value: &str) -> Value;
    /// Replaces the gates.
    fn gates(self, names: &[&str]) -> Value;
    /// Makes a pod run to completion: sets restartPolicy Never, and kwok soon completes the pod.
    fn completes(self) -> Value;
}

impl With for Value {
    fn with(mut self, patch: Value) -> Value {
        merge(&mut self, patch);
        self
    }

    fn kwok(self, key: &str, value: &str) -> Value {
        self.with(json!({"metadata": {"annotations": {(format!("testbed.rollcall.dev/{key}")): value}}}))
    }

    fn label(self, key: &str, value: &str) -> Value {
        self.with(json!({"metadata": {"labels": {(key): value}}}))
    }

    fn gates(self, names: &[&str]) -> Value {
        let gates: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        self.with(json!({"spec": {"schedulingGates": gates}}))
    }

    fn completes(self) -> Value {
        self.kwok("complete-after", "50ms").with(json!({"spec": {"restartPolicy": "Never"}}))
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.as_object_mut().map(|fields| fields.remove(&key))),
            value => merge(&mut target[key.as_str()], value),
        }
    }
}

/// A pod with one container and the default gate; kwok makes it ready as soon as it is bound.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example"}],
        },
    })
}

/// A template of such a pod with the label `app: <app>`.
fn template(app: &str) -> Value {
    let pod = pod("").label("app", app);
    json!({"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]})
}

/// A workload whose pods have the label `app: <name>`.
fn workload(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
    .with(json!({"spec": spec}))
}

pub fn deployment(name: &str, replicas: u32) -> Value {
    workload("Deployment", name, json!({"replicas": replicas}))
}

pub fn replica_set(name: &str, replicas: u32) -> Value {
    workload("ReplicaSet", name, json!({"replicas": replicas}))
}

pub fn stateful_set(name: &str, replicas: u32) -> Value {
    workload("StatefulSet", name, json!({"replicas": replicas, "serviceName": name}))
}

pub fn daemon_set(name: &str) -> Value {
    workload("DaemonSet", name, json!({}))
}

/// A Job whose pods have the label `app: <name>`; kwok completes them.
pub fn job(name: &str) -> Value {
    let template = template(name).with(json!({"spec": {"restartPolicy": "Never"}}));
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    })
}

/// A CronJob with a time that is never reached; its pods have the label `app: <name>`.
pub fn cron_job(name: &str) -> Value {
    let job = job(name);
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 0 29 2 *", "jobTemplate": {"spec": job["spec"]}},
    })
}

/// A sequence with these groups.
pub fn sequence(name: &str, groups: &[Value]) -> Value {
    json!({
        "apiVersion": "scheduling.example.com/v1alpha1",
        "kind": "PodSequence",
        "metadata": {"name": name},
        "spec": {"podGroups": groups},
    })
}

/// A group of pods by name.
pub fn named(group: &str, pods: &[&str]) -> Value {
    json!({"name": group, "pods": pods})
}

/// A group of the pods of a workload, named like the workload.
pub fn by_ref(kind: &str, name: &str) -> Value {
    let api_version = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
    json!({"name": name, "workloadRef": {"apiVersion": api_version, "kind": kind, "name": name}})
}

/// A group of the pods with the label `app: <app>`.
pub fn selected(group: &str, app: &str) -> Value {
    json!({"name": group, "podSelector": {"matchLabels": {"app": app}}})
}
