//! Test cases for both the policies on a real API server and the webhook.

// Each test file is a crate of its own and uses only a part of this module.
#![allow(dead_code)]

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodCase {
    pub case: String,
    /// The specs of the sequences, by name.
    sequences: BTreeMap<String, Value>,
    pod: Value,
    /// The expected gates.
    pub gates: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeCase {
    pub case: String,
    node: Value,
    /// The expected labels.
    pub labels: BTreeMap<String, String>,
}

/// Orders, and the pods that may wait for their tickets.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tickets {
    /// The specs of the Orders without a template, by name.
    orders: BTreeMap<String, Value>,
    pub pods: Vec<TicketCase>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketCase {
    pub case: String,
    pod: Value,
    /// Whether the pod is expected to have the ticket gate.
    pub waits: bool,
}

/// A pod of a workload, and the workloads that the controller has seen.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadCase {
    pub case: String,
    /// The workloads that the groups of a sequence name.
    groups: Vec<String>,
    seen: BTreeMap<String, String>,
    owner: String,
    /// Whether the pod is expected to have the gate.
    pub held: bool,
}

/// A placeholder for the namespace of the pod.
const OWN: &str = "OWN";

pub fn pods() -> Vec<PodCase> {
    let cases: Vec<PodCase> = serde_saphyr::from_str(include_str!("pods.yaml")).expect("pods.yaml");
    cases.into_iter().chain([many_groups(), many_labels()]).collect()
}

pub fn nodes() -> Vec<NodeCase> {
    serde_saphyr::from_str(include_str!("nodes.yaml")).expect("nodes.yaml")
}

impl PodCase {
    /// The sequences as objects.
    pub fn sequences(&self, namespace: &str) -> Vec<Value> {
        let object = |(name, spec): (&String, &Value)| {
            let mut spec = spec.clone();
            if spec["namespace"] == OWN {
                spec["namespace"] = namespace.into();
            }
            sequence(namespace, name, spec)
        };
        self.sequences.iter().map(object).collect()
    }

    /// The pod as submitted.
    pub fn pod(&self) -> Value {
        pod(&self.pod)
    }

    /// The number of gates of the submitted pod.
    pub fn gates_sent(&self) -> usize {
        self.pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len)
    }
}

pub fn workloads() -> Vec<WorkloadCase> {
    serde_saphyr::from_str(include_str!("workloads.yaml")).expect("workloads.yaml")
}

impl WorkloadCase {
    /// The sequence as an object.
    pub fn sequence(&self, namespace: &str) -> Value {
        let groups = self.groups.iter().map(|workload| {
            let (kind, name) = split(workload);
            let workload = json!({ "apiVersion": api_version(kind), "kind": kind, "name": name });
            json!({ "workloadRef": workload })
        });
        sequence(namespace, "shop", json!({ "podGroups": groups.collect::<Vec<_>>() }))
    }

    /// The workloads that the controller has seen, each with its kind.
    pub fn seen(&self, namespace: &str) -> Vec<(&str, Value)> {
        let seen = self.seen.iter().map(|(workload, parent)| {
            let (kind, name) = split(workload);
            let owners: Vec<Value> = (!parent.is_empty()).then(|| reference(parent)).into_iter().collect();
            let metadata = json!({
                "name": name, "namespace": namespace, "uid": workload, "resourceVersion": "1",
                "ownerReferences": owners,
            });
            (kind, json!({ "metadata": metadata }))
        });
        seen.collect()
    }

    /// The pod as submitted.
    pub fn pod(&self) -> Value {
        let hash = self.owner.rsplit_once('-').map_or("", |(_, hash)| hash);
        let labels = json!({ "pod-template-hash": hash });
        let owners = [reference(&self.owner)];
        pod(&json!({ "metadata": { "generateName": "pod-", "labels": labels, "ownerReferences": owners } }))
    }
}

fn split(workload: &str) -> (&str, &str) {
    workload.split_once('/').expect("kind/name")
}

fn api_version(kind: &str) -> &'static str {
    if matches!(kind, "Job" | "CronJob") { "batch/v1" } else { "apps/v1" }
}

/// An owner reference to a workload, whose uid is its name.
fn reference(workload: &str) -> Value {
    let (kind, name) = split(workload);
    json!({ "apiVersion": api_version(kind), "kind": kind, "name": name, "uid": workload, "controller": true })
}

pub fn tickets() -> Tickets {
    serde_saphyr::from_str(include_str!("tickets.yaml")).expect("tickets.yaml")
}

impl Tickets {
    /// The Orders as objects.
    pub fn orders(&self, namespace: &str) -> Vec<Value> {
        self.orders.iter().map(|(name, spec)| order(namespace, name, spec)).collect()
    }
}

impl TicketCase {
    /// The pod as submitted.
    pub fn pod(&self) -> Value {
        let mut pod = pod(&self.pod);
        pod["metadata"]["name"] = "a".into();
        pod
    }

    /// The expected gates: those of the submitted pod, and the ticket gate if the pod waits and did not have it
    /// already.
    pub fn gates(&self) -> Vec<String> {
        let sent = self.pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
        let mut gates: Vec<String> =
            sent.iter().filter_map(|gate| gate["name"].as_str()).map(str::to_owned).collect();
        if self.waits && !gates.iter().any(|gate| gate == rollcall_core::gates::TICKET) {
            gates.push(rollcall_core::gates::TICKET.to_owned());
        }
        gates
    }
}

impl NodeCase {
    /// The node as submitted, with another name.
    pub fn node(&self, name: &str) -> Value {
        let mut node = json!({ "apiVersion": "v1", "kind": "Node" });
        merge(&mut node, &self.node);
        node["metadata"]["name"] = name.into();
        node
    }
}

pub fn sequence(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "scheduling.example.com/v1alpha1",
        "kind": "PodSequence",
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

pub fn order(namespace: &str, name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["template"]["spec"]["resources"]["requests"]["cpu"] = "10m".into();
    json!({
        "apiVersion": "core.korder.dev/v1alpha1",
        "kind": "Order",
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

/// A pod that Kubernetes accepts, with `fields` merged in. Without a service-account token, because its volume would
/// get a random name.
pub fn pod(fields: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "registry.example.com/pause:1" }],
        },
    });
    merge(&mut pod, fields);
    pod
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// The largest number of groups; only the last one matches. The policies must stay within their cost budget in the
/// worst case.
fn many_groups() -> PodCase {
    let names = |group: usize| (0..30).map(|pod| format!("pod-{group}-{pod}")).collect::<Vec<_>>();
    let groups: Vec<Value> = (0..1000).map(|group| json!({ "pods": names(group) })).collect();
    PodCase {
        case: "the last name of 30,000 in 1,000 groups".into(),
        sequences: [("shop".into(), json!({ "podGroups": groups }))].into(),
        pod: json!({ "metadata": { "name": "pod-999-29" } }),
        gates: vec!["podsequence.example.com/sequence-gate".into()],
    }
}

/// Selectors with many labels; only the last label does not match.
fn many_labels() -> PodCase {
    let label = |index: usize| (format!("example.com/label-{index}"), json!("value"));
    let labels: Map<String, Value> = (0..31).map(label).collect();
    let group = |index: usize| {
        let mut labels = labels.clone();
        labels.insert("zzz".into(), format!("group-{index}").into());
        json!({ "podSelector": { "matchLabels": labels } })
    };
    let mut mine = labels.clone();
    mine.insert("zzz".into(), "group-499".into());
    PodCase {
        case: "the last of 500 groups with 32 labels each".into(),
        sequences: [("shop".into(), json!({ "podGroups": (0..500).map(group).collect::<Vec<_>>() }))].into(),
        pod: json!({ "metadata": { "name": "a", "labels": mine } }),
        gates: vec!["podsequence.example.com/sequence-gate".into()],
    }
}
