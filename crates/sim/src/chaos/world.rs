//! The objects of a run: a sequence of three groups of four pods, as a person would create them.

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use rollcall_api::names;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "default";
pub const SEQUENCE: &str = "shop";
pub const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// Settle time after the second group.
pub const SETTLE_SECONDS: i64 = 2;

/// The groups and the names of their pods.
pub const GROUPS: [(&str, [&str; 4]); 3] = [
    ("db", ["db-0", "db-1", "db-2", "db-3"]),
    ("app", ["app-0", "app-1", "app-2", "app-3"]),
    ("web", ["web-0", "web-1", "web-2", "web-3"]),
];

/// The group of a pod, by its place.
pub fn group_of(pod: &str) -> Option<usize> {
    GROUPS.iter().position(|(_, pods)| pods.contains(&pod))
}

pub fn sequence_key() -> Key {
    Key::new(Kind::PodSequence, NAMESPACE, SEQUENCE)
}

pub fn pod_key(name: &str) -> Key {
    Key::new(Kind::Pod, NAMESPACE, name)
}

pub fn all_pods() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, pods)| *pods)
}

pub fn create(cluster: &mut Cluster) {
    for node in NODES {
        create_node(cluster, node);
    }
    create_own_namespace(cluster);
    for name in all_pods() {
        create_pod(cluster, name);
    }
    create_sequence(cluster);
}

pub fn create_node(cluster: &mut Cluster, name: &str) {
    let _ = cluster.create(Kind::Node, json!({ "metadata": { "name": name } }));
}

pub fn create_own_namespace(cluster: &mut Cluster) {
    let _ = cluster.create(Kind::Namespace, json!({ "metadata": { "name": names::OWN_NAMESPACE } }));
}

pub fn create_pod(cluster: &mut Cluster, name: &str) {
    let group = group_of(name).map_or("none", |group| GROUPS[group].0);
    let pod = json!({
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "tier": group } },
        "spec": {
            // Another gate would stay; a second one of ours does not exist.
            "schedulingGates": [{ "name": names::SEQUENCE_GATE }],
            "containers": [{ "name": "main", "image": "example/main:1" }],
        },
    });
    let _ = cluster.create(Kind::Pod, pod);
}

pub fn create_sequence(cluster: &mut Cluster) {
    let sequence = json!({ "metadata": { "name": SEQUENCE, "namespace": NAMESPACE }, "spec": spec() });
    let _ = cluster.create(Kind::PodSequence, sequence);
}

pub fn spec() -> Value {
    json!({ "podGroups": [
        { "name": GROUPS[0].0, "pods": GROUPS[0].1 },
        { "name": GROUPS[1].0, "pods": GROUPS[1].1, "waitDuration": format!("{SETTLE_SECONDS}s") },
        {
            "name": GROUPS[2].0, "podSelector": { "matchLabels": { "tier": GROUPS[2].0 } },
            "expected": GROUPS[2].1.len(), "maxConcurrentStarts": 2,
        },
    ] })
}

/// Whether the pod has arrived, as a person would judge by `kubectl get pods`.
pub fn has_arrived(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|is| is["type"] == "Ready" && is["status"] == "True");
    pod["metadata"]["deletionTimestamp"].is_null() && (ready || pod["status"]["phase"] == "Succeeded")
}

pub fn is_held(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array().into_iter().flatten();
    gates.into_iter().any(|gate| gate["name"] == names::SEQUENCE_GATE)
}

/// Whether everything is as it should be in the end: every pod has arrived, and the sequence says so.
pub fn unfinished(cluster: &Cluster) -> Option<String> {
    for name in all_pods() {
        match cluster.store.get(&pod_key(name)) {
            None => return Some(format!("pod {name} is not there")),
            Some(pod) if is_held(pod) => return Some(format!("pod {name} is held")),
            Some(pod) if !has_arrived(pod) => return Some(format!("pod {name} has not arrived")),
            Some(_) => {}
        }
    }
    let Some(sequence) = cluster.store.get(&sequence_key()) else {
        return Some("there is no sequence".into());
    };
    let (phase, status) = (&sequence["status"]["phase"], &sequence["status"]);
    if phase != "Completed" {
        return Some(format!("the sequence is {phase}: {}", status["message"]));
    }
    if status["observedGeneration"] != sequence["metadata"]["generation"] {
        return Some(format!("the status is of generation {}", status["observedGeneration"]));
    }
    None
}

/// What has to be the same in the end whatever went wrong: no times, no uids, no versions.
pub fn picture(cluster: &Cluster) -> Vec<String> {
    let mut lines = Vec::new();
    for kind in [Kind::PodSequence, Kind::Pod, Kind::ConfigMap] {
        for (key, object) in cluster.store.list(kind, None) {
            let summary = match kind {
                Kind::Pod => json!([object["status"]["phase"], is_held(object), has_arrived(object)]),
                Kind::PodSequence => {
                    let groups = object["status"]["groups"].as_array().into_iter().flatten();
                    let fields = ["name", "state", "expected", "present", "released", "arrived"];
                    let groups: Vec<Value> = groups
                        .map(|group| fields.iter().map(|field| group[*field].clone()).collect())
                        .collect();
                    json!([object["status"]["phase"], object["spec"], groups])
                }
                // The name of a note is made of the uid.
                _ => json!(object["data"].as_object().map(|data| data.len())),
            };
            let name = if kind == Kind::ConfigMap { "note" } else { &key.name };
            lines.push(format!("{}/{name} {summary}", kind.info().plural));
        }
    }
    lines
}
