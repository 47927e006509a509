//! Pods whose containers start in order, in the groups of a sequence: by priorities in both spellings and by `Ordered`; of a
//! StatefulSet, of a Deployment and of nobody; some that exit with 0, one that fails at first. One whose ConfigMap is somebody
//! else's stays held.

use super::super::fault::Fault;
use super::{Group, NAMESPACE, SequenceEnd, SequenceRule, UserAction, When, World, pod_key, sequence};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use jiff::SignedDuration;
use rollcall_core::launch::ranks::{ORDERED, ORDERED_KEY, Spelling, barrier_name};
use serde_json::{Value, json};

/// Long enough for a pod to be made again under its name, and to find the ConfigMap of the one before.
pub const GARBAGE_COLLECTED_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// The pod whose ConfigMap is somebody else's.
const TAKEN: &str = "taken-0";
/// Made again by its StatefulSet.
const NAMESAKE: &str = "store-0";
const BATCH: &str = "batch-0";
/// Belongs to no sequence: it is ready in the end, and never done.
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
    // There are no agents here. Nobody marks nodes, so nobody puts back the label of new nodes, either.
    spared: &[Fault::AgentsRolled, Fault::MarksTaken, Fault::MarksAdded],
};

/// A container: its name, its priority if it says one, and how its program behaves.
struct Container {
    name: &'static str,
    priority: Option<&'static str>,
    behaves: &'static [(&'static str, &'static str)],
}

const fn container(
    name: &'static str,
    priority: Option<&'static str>,
    behaves: &'static [(&'static str, &'static str)],
) -> Container {
    Container { name, priority, behaves }
}

/// Three ranks. The first one has two containers, of which one is ready much later.
const IN_STORE: &[Container] = &[
    container("main", None, &[("ready-after", "300ms")]),
    container("log", Some("2"), &[("ready-after", "1200ms")]),
    container("proxy", Some("1"), &[("ready-after", "400ms")]),
    container("agent", Some("2"), &[("ready-after", "200ms")]),
];
/// Each does its work and ends.
const IN_BATCH: &[Container] = &[
    container("main", Some("-1"), &[("ready-after", "1h"), ("exit-after", "400ms")]),
    container("fetch", Some("1"), &[("ready-after", "1h"), ("exit-after", "300ms")]),
    container("unpack", None, &[("ready-after", "1h"), ("exit-after", "300ms")]),
];
/// The second one fails twice before it is ready.
const IN_SHAKY: &[Container] = &[
    container("first", None, &[("ready-after", "200ms")]),
    container(
        "second",
        None,
        &[("ready-after", "600ms"), ("exit-after", "500ms"), ("exit-code", "1"), ("exit-times", "2")],
    ),
    container("third", None, &[]),
];
const IN_WEB: &[Container] = &[
    container("main", None, &[]),
    container("side", Some("5"), &[("ready-after", "500ms")]),
    container("mesh", Some("2147483647"), &[("ready-after", "300ms")]),
];

/// A pod, or what a workload makes its pods of.
fn ordered(tier: &str, restart: &str, spelling: Spelling, containers: &[Container]) -> Value {
    let mut annotations = json!({});
    let described = containers.iter().map(|Container { name, priority, behaves }| {
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

/// A pod of this world that no workload makes.
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

/// The StatefulSet makes the pod again, and the ConfigMap of the old one is still there.
fn make_namesake(cluster: &mut Cluster) {
    let _ = cluster.delete_now(&pod_key(NAMESAKE));
}
