//! Pods whose containers start in order, in the groups of a sequence. They use priorities in both spellings and `Ordered`,
//! and belong to a StatefulSet, a Deployment or no workload. Some containers exit with code 0; one fails at first. One pod
//! stays held because a foreign ConfigMap has the name that it needs.

use super::super::fault::Fault;
use super::{Group, NAMESPACE, SequenceEnd, SequenceRule, UserAction, When, World, pod_key, sequence};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use jiff::SignedDuration;
use rollcall_core::launch::ranks::{ORDERED, ORDERED_KEY, Spelling, barrier_name};
use serde_json::{Value, json};

/// Long enough for a re-created pod to find the ConfigMap of its predecessor.
pub const GARBAGE_COLLECTED_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// A foreign ConfigMap has the name that this pod needs.
const TAKEN: &str = "taken-0";
/// Re-created by its StatefulSet.
const NAMESAKE: &str = "store-0";
const BATCH: &str = "batch-0";
/// Belongs to no sequence. It becomes ready but never succeeds.
const SHAKY: &str = "shaky-0";

static SHOP: SequenceRule = SequenceRule {
    namespace: NAMESPACE,
    sequence: "shop",
    groups: &[Group::tier("store", 1), Group::named("batch", &[BATCH]), Group::tier("web", 1)],
    end: SequenceEnd::Completed,
    permitted: true,
    lets_go: true,
    guard: None,
};

pub static WORLD: World = World {
    name: "launch order",
    full: true,
    launch: true,
    reservation: false,
    rules: std::slice::from_ref(&SHOP),
    manifests,
    script: &[UserAction { when: When::Finished, act: make_namesake }],
    held: &[TAKEN],
    // There are no agents here, and no sequence writes to nodes, so a removed label of new nodes would not be restored.
    spared: &[Fault::AgentsRolled, Fault::MarksTaken, Fault::MarksAdded],
};

/// A container: its name, its priority if it has one, and the behaviour of its program.
struct ContainerTemplate {
    name: &'static str,
    priority: Option<&'static str>,
    behaves: &'static [(&'static str, &'static str)],
}

const fn container(
    name: &'static str,
    priority: Option<&'static str>,
    behaves: &'static [(&'static str, &'static str)],
) -> ContainerTemplate {
    ContainerTemplate { name, priority, behaves }
}

/// Three ranks. One container of the first rank becomes ready much later than the other.
const IN_STORE: &[ContainerTemplate] = &[
    container("main", None, &[("ready-after", "300ms")]),
    container("log", Some("2"), &[("ready-after", "1200ms")]),
    container("proxy", Some("1"), &[("ready-after", "400ms")]),
    container("agent", Some("2"), &[("ready-after", "200ms")]),
];
/// Each container does its work and ends.
const IN_BATCH: &[ContainerTemplate] = &[
    container("main", Some("-1"), &[("ready-after", "1h"), ("exit-after", "400ms")]),
    container("fetch", Some("1"), &[("ready-after", "1h"), ("exit-after", "300ms")]),
    container("unpack", None, &[("ready-after", "1h"), ("exit-after", "300ms")]),
];
/// The second container fails twice before it becomes ready.
const IN_SHAKY: &[ContainerTemplate] = &[
    container("first", None, &[("ready-after", "200ms")]),
    container(
        "second",
        None,
        &[("ready-after", "600ms"), ("exit-after", "500ms"), ("exit-code", "1"), ("exit-times", "2")],
    ),
    container("third", None, &[]),
];
const IN_WEB: &[ContainerTemplate] = &[
    container("main", None, &[]),
    container("side", Some("5"), &[("ready-after", "500ms")]),
    container("mesh", Some("2147483647"), &[("ready-after", "300ms")]),
];

/// The metadata and spec of a pod or a pod template.
fn ordered(tier: &str, restart: &str, spelling: Spelling, containers: &[ContainerTemplate]) -> Value {
    let mut annotations = json!({});
    let described = containers.iter().map(|ContainerTemplate { name, priority, behaves }| {
        for (what, value) in *behaves {
            annotations[format!("testbed.rollcall.dev/{name}.{what}")] = (*value).into();
        }
        let variable = |value| json!({ "name": spelling.priority_variable(), "value": value });
        let env: Vec<Value> = priority.iter().map(variable).collect();
        json!({ "name": name, "image": "example/main:1", "env": env })
    });
    let containers: Vec<Value> = described.collect();
    json!({
        "metadata": { "namespace": NAMESPACE, "labels": { "tier": tier }, "annotations": annotations },
        "spec": { "restartPolicy": restart, "containers": containers },
    })
}

/// A pod of this world that has no workload.
pub fn pod_named(name: &str) -> Option<(Kind, Value)> {
    let mut pod = match name {
        BATCH => ordered("batch", "Never", Spelling::Proposed, IN_BATCH),
        SHAKY => ordered("other", "OnFailure", Spelling::Proposed, IN_SHAKY),
        TAKEN => ordered("other", "Always", Spelling::Shipped, IN_WEB),
        _ => return None,
    };
    if name == SHAKY {
        pod["metadata"]["annotations"][ORDERED_KEY] = ORDERED.into();
    }
    pod["metadata"]["name"] = name.into();
    Some((Kind::Pod, pod))
}

fn manifests() -> Vec<(Kind, Value)> {
    let named = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
    let selector = |tier: &str| json!({ "matchLabels": { "tier": tier } });
    let set = json!({ "metadata": named("store"), "spec": {
        "replicas": 1, "serviceName": "store", "selector": selector("store"),
        "template": ordered("store", "Always", Spelling::Proposed, IN_STORE),
    } });
    let deployment = json!({ "metadata": named("web"), "spec": {
        "replicas": 1, "selector": selector("web"), "template": ordered("web", "Always", Spelling::Shipped, IN_WEB),
    } });
    let groups = json!([
        { "name": "store", "podSelector": selector("store") },
        { "name": "batch", "pods": [BATCH] },
        { "name": "web", "podSelector": selector("web") },
    ]);
    let strangers = json!({ "metadata": named(&barrier_name(TAKEN)), "data": { "colour": "blue" } });
    let mut all = vec![sequence(&SHOP, json!({ "podGroups": groups })), (Kind::ConfigMap, strangers)];
    all.extend([(Kind::StatefulSet, set), (Kind::Deployment, deployment)]);
    all.extend([BATCH, SHAKY, TAKEN].into_iter().filter_map(pod_named));
    all
}

/// Deletes the pod. The StatefulSet re-creates it while the ConfigMap of the old pod still exists.
fn make_namesake(cluster: &mut Cluster) {
    let _ = cluster.delete_now(&pod_key(NAMESAKE));
}
