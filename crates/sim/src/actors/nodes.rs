//! Nodes: the reports of their kubelets, and the reactions of the node controller.
//!
//! A new node is ready unless its annotation says otherwise. If its kubelet is stopped (annotation
//! `testbed.rollcall.dev/stopped: "true"`), the node becomes unreachable after a while.

use super::bound::Bound;
use super::kubelet::STOPPED;
use super::{Actor, Agenda};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::pods::set_condition;
use crate::store::{Change, Key};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Annotation of a Node whose kubelet reports that it is not ready.
pub const NOT_READY: &str = "testbed.rollcall.dev/not-ready";
/// How long a kubelet may be silent (`--node-monitor-grace-period`).
const SILENCE: SignedDuration = SignedDuration::from_secs(50);
/// Renewal interval and duration of a kubelet's lease.
const RENEWAL: SignedDuration = SignedDuration::from_secs(10);
const LEASE_SECONDS: i64 = 40;
/// Labels that a kubelet sets on its node if they are missing. A label without a value gets the name of the node.
const LABELS: [(&str, Option<&str>); 5] = [
    ("beta.kubernetes.io/arch", Some("amd64")),
    ("beta.kubernetes.io/os", Some("linux")),
    ("kubernetes.io/arch", Some("amd64")),
    ("kubernetes.io/hostname", None),
    ("kubernetes.io/os", Some("linux")),
];
const RESOURCES: [(&str, &str); 4] =
    [("cpu", "8"), ("memory", "32Gi"), ("pods", "110"), ("ephemeral-storage", "1000Gi")];

#[derive(Default)]
pub struct Nodes {
    agenda: Agenda,
    /// When a stopped kubelet last reported.
    silent_since: BTreeMap<Arc<str>, Timestamp>,
    pods: Bound,
    /// Unreachable nodes whose pods have been marked as not ready.
    told: BTreeSet<Arc<str>>,
}

impl Actor for Nodes {
    fn on_change(&mut self, change: &Change, _: &Cluster) {
        match change.key.kind {
            Kind::Node if change.deleted => {
                self.agenda.forget(&change.key);
                self.silent_since.remove(&change.key.name);
                self.told.remove(&change.key.name);
            }
            Kind::Node => self.agenda.add(change.key.clone()),
            Kind::Pod => _ = self.pods.on_change(change),
            _ => {}
        }
    }

    fn act(&mut self, cluster: &mut Cluster) -> Option<Timestamp> {
        while let Some(key) = self.agenda.pop(cluster.now()) {
            if cluster.store.get(&key).is_some() {
                self.look_at(cluster, &key);
            }
        }
        self.agenda.next_moment()
    }
}

impl Nodes {
    fn look_at(&mut self, cluster: &mut Cluster, key: &Key) {
        let Some(node) = cluster.store.get(key).cloned() else { return };
        let now = cluster.now();
        let stopped = node["metadata"]["annotations"][STOPPED] == "true";
        if stopped {
            let since = *self.silent_since.entry(key.name.clone()).or_insert(now);
            let missed = since + SILENCE;
            match missed <= now {
                true => say_unknown(cluster, key),
                false => self.agenda.add_at(missed, key.clone()),
            }
        } else {
            self.silent_since.remove(&key.name);
            register(cluster, key);
            say_ready(cluster, key);
            if cluster.programs.heartbeats {
                renew(cluster, key);
                self.agenda.add_at(now + RENEWAL, key.clone());
            }
        }
        taint(cluster, key);
        let Some(node) = cluster.store.get(key).cloned() else { return };
        // A kubelet that reports itself as not ready still reports its pods.
        if ready(&node) != Some("Unknown") {
            self.told.remove(&key.name);
        } else if self.told.insert(key.name.clone()) {
            for pod in self.pods.on(&key.name) {
                say_pod_is_not_ready(cluster, pod);
            }
        }
    }
}

fn ready(node: &Value) -> Option<&str> {
    condition(node, "Ready")
}

fn condition<'a>(node: &'a Value, name: &str) -> Option<&'a str> {
    let mut conditions = node["status"]["conditions"].as_array()?.iter();
    conditions.find(|is| is["type"] == name)?["status"].as_str()
}

/// Sets the missing labels and status fields of a new node, as its kubelet does.
fn register(cluster: &mut Cluster, key: &Key) {
    // This is called very often, but writes only once.
    if cluster.store.get(key).is_some_and(|node| is_registered(node)) {
        return;
    }
    let name = key.name.to_string();
    let _ = cluster.update(key, |node| {
        let labels = &mut node["metadata"]["labels"];
        for (label, value) in LABELS {
            if labels[label].is_null() {
                labels[label] = value.unwrap_or(&name).into();
            }
        }
    });
    let _ = cluster.update_status(key, |node| {
        let status = &mut node["status"];
        for (resource, amount) in RESOURCES {
            if status["capacity"][resource].is_null() {
                let given = &status["allocatable"][resource];
                status["capacity"][resource] = if given.is_null() { amount.into() } else { given.clone() };
            }
        }
        for (resource, amount) in status["capacity"].as_object().cloned().into_iter().flatten() {
            if status["allocatable"][&resource].is_null() {
                status["allocatable"][resource] = amount;
            }
        }
        if status["addresses"].is_null() {
            status["addresses"] = json!([
                { "type": "InternalIP", "address": "127.0.0.1" },
                { "type": "Hostname", "address": name },
            ]);
        }
        if status["nodeInfo"].is_null() {
            status["nodeInfo"] = json!({
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "sim", "kernelVersion": "sim",
                "kubeProxyVersion": "", "kubeletVersion": "sim", "machineID": "", "operatingSystem": "linux",
                "osImage": "sim", "systemUUID": "",
            });
        }
    });
}

fn is_registered(node: &Value) -> bool {
    let (labels, status) = (&node["metadata"]["labels"], &node["status"]);
    LABELS.iter().all(|(label, _)| labels.get(label).is_some())
        && RESOURCES.iter().all(|(resource, _)| status["capacity"].get(resource).is_some())
        && status["capacity"].as_object().is_some_and(|capacity| {
            capacity.keys().all(|resource| status["allocatable"].get(resource).is_some())
        })
        && status["addresses"].is_array()
        && status["nodeInfo"].is_object()
}

/// Reports the node as ready, or as not ready if its annotation says so.
fn say_ready(cluster: &mut Cluster, key: &Key) {
    let Some(node) = cluster.store.get(key) else { return };
    let down = node["metadata"]["annotations"][NOT_READY] == "true";
    if ready(node) == Some(if down { "False" } else { "True" }) {
        return;
    }
    let stamp = cluster.stamp();
    let all = [
        ("Ready", !down, "KubeletReady", "kubelet is posting ready status"),
        ("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ];
    let _ = cluster.update_status(key, |node| {
        for (name, holds, reason, message) in all {
            let known = condition(node, name).is_some_and(|status| status != "Unknown");
            if name != "Ready" && known {
                continue;
            }
            let (reason, message) = match name == "Ready" && down {
                true => ("KubeletNotReady", "not ready, as its annotation says"),
                false => (reason, message),
            };
            let status = if holds { "True" } else { "False" };
            set_condition(
                &mut node["status"],
                json!({
                    "type": name, "status": status, "reason": reason, "message": message,
                    "lastHeartbeatTime": stamp, "lastTransitionTime": stamp,
                }),
            );
        }
    });
}

/// Sets the conditions of a node with a silent kubelet to Unknown, as the node controller does.
fn say_unknown(cluster: &mut Cluster, key: &Key) {
    let Some(node) = cluster.store.get(key) else { return };
    if ready(node) == Some("Unknown") {
        return;
    }
    let stamp = cluster.stamp();
    let _ = cluster.update_status(key, |node| {
        for name in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let list = node["status"]["conditions"].as_array();
            let was = list.and_then(|list| list.iter().find(|is| is["type"] == name));
            let heard = was.map(|was| was["lastHeartbeatTime"].clone()).unwrap_or_default();
            set_condition(
                &mut node["status"],
                json!({
                    "type": name, "status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": heard, "lastTransitionTime": stamp,
                }),
            );
        }
    });
}

/// Sets the taints that follow from the node's conditions, and leaves other taints alone.
fn taint(cluster: &mut Cluster, key: &Key) {
    let Some(node) = cluster.store.get(key) else { return };
    let ready = ready(node);
    let is = |name: &str| condition(node, name) == Some("True");
    let wanted = [
        ("node.kubernetes.io/not-ready", "NoSchedule", ready == Some("False")),
        ("node.kubernetes.io/unreachable", "NoSchedule", ready == Some("Unknown")),
        ("node.kubernetes.io/memory-pressure", "NoSchedule", is("MemoryPressure")),
        ("node.kubernetes.io/disk-pressure", "NoSchedule", is("DiskPressure")),
        ("node.kubernetes.io/pid-pressure", "NoSchedule", is("PIDPressure")),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", is("NetworkUnavailable")),
        ("node.kubernetes.io/unschedulable", "NoSchedule", node["spec"]["unschedulable"] == true),
        ("node.kubernetes.io/not-ready", "NoExecute", ready == Some("False")),
        ("node.kubernetes.io/unreachable", "NoExecute", ready == Some("Unknown")),
    ];
    let taints = node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = |taint: &Value| {
        wanted.iter().find(|(key, effect, _)| taint["key"] == *key && taint["effect"] == *effect)
    };
    let mut new: Vec<Value> =
        taints.iter().filter(|taint| ours(taint).is_none_or(|(.., wanted)| *wanted)).cloned().collect();
    let stamp = cluster.stamp();
    for (key, effect, _) in wanted.iter().filter(|(.., wanted)| *wanted) {
        if !new.iter().any(|taint| taint["key"] == *key && taint["effect"] == *effect) {
            new.push(json!({ "key": key, "effect": effect, "timeAdded": stamp }));
        }
    }
    if new == taints {
        return;
    }
    let _ = cluster.update(key, |node| match (new.is_empty(), node["spec"].as_object_mut()) {
        (true, Some(spec)) => drop(spec.remove("taints")),
        _ => node["spec"]["taints"] = new.into(),
    });
}

/// Marks a pod on an unreachable node as not ready. A running kubelet overwrites this.
fn say_pod_is_not_ready(cluster: &mut Cluster, key: &Key) {
    let Some(pod) = cluster.store.get(key) else { return };
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    if !conditions.any(|is| is["type"] == "Ready" && is["status"] == "True") {
        return;
    }
    let stamp = cluster.stamp();
    let _ = cluster.update_status(key, |pod| {
        let conditions = pod["status"]["conditions"].as_array_mut().into_iter().flatten();
        for is in conditions.filter(|is| is["type"] == "Ready") {
            is["status"] = "False".into();
            is["lastTransitionTime"] = stamp.as_str().into();
        }
    });
}

fn renew(cluster: &mut Cluster, node: &Key) {
    let lease = Key::new(Kind::Lease, "kube-node-lease", &node.name);
    let now = cluster.now();
    let now = format!("{}.{:06}Z", &crate::cluster::seconds(now)[..19], now.subsec_microsecond());
    let spec =
        json!({ "holderIdentity": &*node.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now });
    if cluster.store.get(&lease).is_some() {
        let _ = cluster.update(&lease, |lease| lease["spec"] = spec);
    } else {
        let metadata = json!({ "name": &*node.name, "namespace": "kube-node-lease" });
        let _ = cluster.create(Kind::Lease, json!({ "metadata": metadata, "spec": spec }));
    }
}
