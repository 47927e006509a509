//! A sequence with workloads of all kinds. Writes take effect at once; controllers act when [`Shop::settle`] is called.

use super::world::{Listed, World};
use super::write::{Write, WriteTarget};
use crate::testing::{pod, sequence};
use rollcall_api::names;
use rollcall_core::facts::OwnerKind;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "shop";

pub struct Shop {
    pub sequence: Value,
    pub workloads: Vec<(OwnerKind, Value)>,
    pub pods: Vec<Value>,
    pub autoscalers: Vec<Value>,
}

impl Shop {
    /// A database, a migration, two parallel servers and an agent.
    pub fn new() -> Shop {
        let by_ref = |group: &str, kind: &str, after: &[&str]| {
            let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
            let mut group =
                json!({"name": group, "workloadRef": {"apiVersion": version, "kind": kind, "name": group}});
            if !after.is_empty() {
                group["dependsOn"] = json!(after);
            }
            group
        };
        let groups = [
            by_ref("db", "StatefulSet", &[]),
            by_ref("migrate", "Job", &[]),
            by_ref("app", "Deployment", &[]),
            by_ref("web", "Deployment", &["migrate"]),
            by_ref("agent", "DaemonSet", &["app", "web"]),
        ];
        let mut shop = Shop::with_groups(&groups);
        shop.stateful_set("db", 2);
        shop.add(
            OwnerKind::Job,
            "migrate",
            json!({}),
            json!({"conditions": [{"type": "Complete", "status": "True"}]}),
        );
        shop.deployment("app", 2);
        shop.deployment("web", 1);
        let status = json!({"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1});
        shop.add(OwnerKind::DaemonSet, "agent", json!({}), status);
        shop.pod("agent-x", Some((OwnerKind::DaemonSet, "agent")));
        shop
    }

    pub fn with_groups(groups: &[Value]) -> Shop {
        let sequence = json!({
            "apiVersion": names::SEQUENCE_API_VERSION,
            "kind": names::SEQUENCE_KIND,
            "metadata": {
                "name": "shop", "namespace": NAMESPACE, "uid": "sequence", "resourceVersion": "1", "generation": 1,
                "creationTimestamp": "2026-11-15T23:00:00Z",
            },
            "spec": {"podGroups": groups},
        });
        Shop { sequence, workloads: Vec::new(), pods: Vec::new(), autoscalers: Vec::new() }
    }

    pub fn add(&mut self, kind: OwnerKind, name: &str, spec: Value, status: Value) -> &mut Value {
        let metadata = json!({
            "name": name, "namespace": NAMESPACE, "uid": uid(kind, name), "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-11-15T23:00:00Z",
        });
        let mut object = json!({"metadata": metadata, "spec": spec, "status": status});
        object["status"]["observedGeneration"] = 1.into();
        self.workloads.push((kind, object));
        &mut self.workloads.last_mut().expect("just added").1
    }

    pub fn stateful_set(&mut self, name: &str, size: u32) {
        self.add(OwnerKind::StatefulSet, name, json!({"replicas": size}), up(size));
        (0..size).for_each(|n| self.pod(&format!("{name}-{n}"), Some((OwnerKind::StatefulSet, name))));
    }

    pub fn deployment(&mut self, name: &str, size: u32) {
        self.add(OwnerKind::Deployment, name, json!({"replicas": size}), up(size));
        let set = self.add(OwnerKind::ReplicaSet, name, json!({"replicas": size}), up(size));
        set["metadata"]["ownerReferences"] = owned_by(OwnerKind::Deployment, name);
        (0..size).for_each(|n| self.pod(&format!("{name}-{n}"), Some((OwnerKind::ReplicaSet, name))));
    }

    /// Adds a ready pod.
    pub fn pod(&mut self, name: &str, owner: Option<(OwnerKind, &str)>) {
        let mut object = crate::testing::ready(name);
        object["metadata"]["namespace"] = NAMESPACE.into();
        if let Some((kind, owner)) = owner {
            object["metadata"]["ownerReferences"] = owned_by(kind, owner);
        }
        self.pods.push(object);
    }

    pub fn workload(&mut self, kind: OwnerKind, name: &str) -> &mut Value {
        let mut found = self.workloads.iter_mut().filter(|(other, _)| *other == kind);
        &mut found.find(|(_, object)| object["metadata"]["name"] == name).expect("it is there").1
    }

    pub fn pod_named(&mut self, name: &str) -> &mut Value {
        self.pods.iter_mut().find(|pod| pod["metadata"]["name"] == name).expect("it is there")
    }

    pub fn world(&self) -> World {
        let read = |value: &Value| serde_json::from_value(value.clone()).expect("an autoscaler");
        let listed = Listed {
            pods: self.pods.iter().cloned().map(pod).collect(),
            workloads: self.workloads.clone(),
            autoscalers: Some(self.autoscalers.iter().map(read).collect()),
            ..Listed::default()
        };
        World::new(sequence(self.sequence.clone()), listed).expect("a world")
    }

    /// Applies a write like the API server.
    pub fn apply(&mut self, write: &Write) {
        match &write.target {
            WriteTarget::Workload { kind, name, body, .. } => {
                let object = self.workload(*kind, name);
                merge(object, body);
                if body.get("spec").is_some() {
                    object["metadata"]["generation"] = (generation(object) + 1).into();
                }
            }
            WriteTarget::Sequence { body, .. } => merge(&mut self.sequence, body),
            WriteTarget::Pod { name, .. } => self.pods.retain(|pod| pod["metadata"]["name"] != *name),
        }
    }

    /// Acts like the controllers of Kubernetes: deletes pods and updates statuses.
    pub fn settle(&mut self) {
        let mut ended = Vec::new();
        for (kind, object) in &mut self.workloads {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            object["status"]["observedGeneration"] = generation(object).into();
            match kind {
                OwnerKind::Job if object["spec"]["suspend"] == true => {
                    object["status"]["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
                    ended.push((OwnerKind::Job, name));
                }
                OwnerKind::Deployment | OwnerKind::StatefulSet => {
                    let size = object["spec"]["replicas"].as_u64().unwrap_or(1) as u32;
                    merge(&mut object["status"], &up(size));
                    if size == 0 {
                        ended.extend([(OwnerKind::StatefulSet, name.clone()), (OwnerKind::ReplicaSet, name)]);
                    }
                }
                _ => {}
            }
        }
        let of = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
        self.pods.retain(|pod| !ended.iter().any(|(kind, name)| of(pod) == *uid(*kind, name)));
    }
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

fn uid(kind: OwnerKind, name: &str) -> String {
    format!("{}-{name}", kind.as_str())
}

fn owned_by(kind: OwnerKind, name: &str) -> Value {
    let version = if kind == OwnerKind::Job || kind == OwnerKind::CronJob { "batch/v1" } else { "apps/v1" };
    json!([{"apiVersion": version, "kind": kind.as_str(), "name": name, "uid": uid(kind, name), "controller": true}])
}

/// Status of a workload whose pods are all updated and available.
fn up(size: u32) -> Value {
    json!({"replicas": size, "updatedReplicas": size, "availableReplicas": size, "readyReplicas": size})
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *object = patch.clone() };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.as_object_mut().map(|object| object.remove(key))),
            value => merge(&mut object[key], value),
        }
    }
}
