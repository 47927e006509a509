//! Several sequences of several namespaces that share pods. There are also foreign gates, a pod that is created late, and a
//! namespace that permits no sequences of other namespaces.

use super::{
    CLOSED, Group, NAMESPACE, SequenceEnd, SequenceRule, UserAction, When, World, namespace, pod, pod_key,
    pods, sequence,
};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::Key;
use rollcall_api::names;
use serde_json::{Value, json};

const OPS: &str = "ops";
const DB: &[&str] = &["db-0"];
const APP: &[&str] = &["app-0", "app-1"];
const FOREIGN_GATE: &str = "example.com/licence";

static RULES: [SequenceRule; 4] = [
    SequenceRule {
        namespace: NAMESPACE,
        sequence: "shop",
        groups: &[
            Group::named("db", DB),
            Group::named("app", APP),
            Group { finally: 2, ..Group::tier("web", 1) },
        ],
        end: SequenceEnd::Completed,
        permitted: true,
        lets_go: true,
        guard: None,
    },
    // Shares app-0 with the first sequence, and releases it later.
    SequenceRule {
        namespace: NAMESPACE,
        sequence: "night",
        groups: &[
            Group { settle_seconds: 3, ..Group::named("cache", &["cache-0"]) },
            Group::named("app", &["app-0"]),
        ],
        end: SequenceEnd::Completed,
        permitted: true,
        lets_go: true,
        guard: None,
    },
    // Acts from another namespace, with permission.
    SequenceRule {
        namespace: OPS,
        sequence: "guest",
        groups: &[Group::named("db", DB), Group::named("backup", &["backup-0"])],
        end: SequenceEnd::Completed,
        permitted: true,
        lets_go: true,
        guard: None,
    },
    // Acts from another namespace without permission: it neither releases nor holds pods.
    SequenceRule {
        namespace: OPS,
        sequence: "stranger",
        groups: &[Group::named("secret", &["secret-0"])],
        end: SequenceEnd::Failed,
        permitted: false,
        lets_go: false,
        guard: None,
    },
];

pub static WORLD: World = World {
    name: "neighbours",
    full: false,
    launch: false,
    reservation: false,
    rules: &RULES,
    manifests,
    script: &[
        UserAction { when: When::At(1_000), act: permit },
        UserAction { when: When::At(5_000), act: remove_foreign_gate },
        UserAction { when: When::Finished, act: create_late_pod },
    ],
    held: &["secret-0"],
    spared: &[],
};

fn manifests() -> Vec<(Kind, Value)> {
    let (mut all, web) = (Vec::new(), json!({ "matchLabels": { "tier": "web" } }));
    all.push(namespace(OPS, json!({})));
    all.push(namespace(CLOSED, json!({})));
    all.extend(pods("db", DB).chain(pods("app", APP)).chain(pods("web", &["web-0"])));
    all.extend(pods("other", &["cache-0", "backup-0"]));
    let (kind, mut secret) = pod("secret-0", "secret");
    secret["metadata"]["namespace"] = CLOSED.into();
    all.push((kind, secret));
    for (_, object) in &mut all {
        if object["metadata"]["name"] == "app-1"
            && let Some(gates) = object["spec"]["schedulingGates"].as_array_mut()
        {
            gates.push(json!({ "name": FOREIGN_GATE }));
        }
    }
    let [shop, night, guest, stranger] = &RULES;
    all.push(sequence(
        shop,
        json!({ "podGroups": [
            { "name": "db", "pods": DB },
            { "name": "app", "pods": APP },
            { "name": "web", "podSelector": web, "expected": 1 },
        ] }),
    ));
    all.push(sequence(
        night,
        json!({ "podGroups": [
            { "name": "cache", "pods": ["cache-0"], "waitDuration": "3s" },
            { "name": "app", "pods": ["app-0"] },
        ] }),
    ));
    let guests = json!([{ "name": "db", "pods": DB }, { "name": "backup", "pods": ["backup-0"] }]);
    all.push(sequence(guest, json!({ "namespace": NAMESPACE, "podGroups": guests })));
    let groups = json!([{ "name": "secret", "pods": ["secret-0"] }]);
    all.push(sequence(stranger, json!({ "namespace": CLOSED, "podGroups": groups })));
    all
}

fn permit(cluster: &mut Cluster) {
    let key = Key::new(Kind::Namespace, "", NAMESPACE);
    let _ = cluster.update(&key, |there| there["metadata"]["annotations"][names::ALLOW_FROM] = OPS.into());
}

/// The owner of the foreign gate removes it. Rollcall's gate stays if it is still there.
fn remove_foreign_gate(cluster: &mut Cluster) {
    let _ = cluster.update(&pod_key("app-1"), |pod| {
        if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
            gates.retain(|gate| gate["name"] != FOREIGN_GATE);
        }
    });
}

fn create_late_pod(cluster: &mut Cluster) {
    let (kind, late) = pod("web-1", "web");
    let _ = cluster.create(kind, late);
}
