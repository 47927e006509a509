//! Sequences that are deleted, held and suspended while others continue.

use super::super::fault::Fault;
use super::{Group, NAMESPACE, SequenceEnd, SequenceRule, UserAction, When, World, has_note, pods, sequence};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use serde_json::{Value, json};

const DB: &[&str] = &["db-0"];
const APP: &[&str] = &["app-0"];

static RULES: [SequenceRule; 4] = [
    SequenceRule {
        namespace: NAMESPACE,
        sequence: "shop",
        groups: &[Group::named("db", DB), Group::named("app", APP)],
        end: SequenceEnd::Completed,
        permitted: true,
        lets_go: true,
        guard: None,
    },
    // Deleted while its first group starts; the pods that it still holds are released.
    SequenceRule {
        namespace: NAMESPACE,
        sequence: "gone",
        groups: &[
            Group::named("one", &["gone-0"]),
            Group { settle_seconds: 3600, ..Group::named("two", &["gone-1"]) },
            Group::named("three", &["gone-2"]),
        ],
        end: SequenceEnd::Deleted,
        permitted: true,
        lets_go: true,
        guard: None,
    },
    // Deleted without releasing the pods that it holds.
    SequenceRule {
        namespace: NAMESPACE,
        sequence: "kept",
        groups: &[Group::named("never", &["not-there"]), Group::named("kept", &["kept-0"])],
        end: SequenceEnd::Deleted,
        permitted: true,
        lets_go: false,
        guard: None,
    },
    SequenceRule {
        namespace: NAMESPACE,
        sequence: "paused",
        groups: &[Group::named("one", &["paused-0"]), Group::named("two", &["paused-1"])],
        end: SequenceEnd::Completed,
        permitted: true,
        lets_go: true,
        guard: None,
    },
];

pub static WORLD: World = World {
    name: "farewell",
    full: false,
    launch: false,
    reservation: false,
    rules: &RULES,
    manifests,
    script: &[
        UserAction { when: When::Once(2_500, has_note_of_gone), act: delete },
        UserAction { when: When::At(4_000), act: resume },
    ],
    held: &["kept-0"],
    // After these faults a note may be missing, and no controller then learns of a missed deletion. The guide documents
    // this.
    spared: &[Fault::Forbidden, Fault::ListForbidden, Fault::Quota, Fault::NamespaceGone],
};

fn manifests() -> Vec<(Kind, Value)> {
    let [shop, gone, kept, paused] = &RULES;
    let mut all: Vec<(Kind, Value)> = pods("db", DB).chain(pods("app", APP)).collect();
    all.extend(pods("gone", &["gone-0", "gone-1", "gone-2"]));
    all.extend(pods("other", &["kept-0", "paused-0", "paused-1"]));
    let groups = json!([{ "name": "db", "pods": DB }, { "name": "app", "pods": APP }]);
    all.push(sequence(shop, json!({ "podGroups": groups })));
    let groups = json!([
        { "name": "one", "pods": ["gone-0"] },
        { "name": "two", "pods": ["gone-1"], "waitDuration": "1h" },
        { "name": "three", "pods": ["gone-2"] },
    ]);
    all.push(sequence(gone, json!({ "podGroups": groups })));
    let groups = json!([{ "name": "never", "pods": ["not-there"] }, { "name": "kept", "pods": ["kept-0"] }]);
    all.push(sequence(kept, json!({ "podGroups": groups, "deletionPolicy": "Hold" })));
    let groups = json!([{ "name": "one", "pods": ["paused-0"] }, { "name": "two", "pods": ["paused-1"] }]);
    all.push(sequence(paused, json!({ "podGroups": groups, "suspend": true })));
    all
}

/// Whether the note of the sequence `gone` exists. Before that, nothing is guaranteed if the controller misses the
/// deletion.
fn has_note_of_gone(cluster: &Cluster) -> bool {
    has_note(cluster, &RULES[1])
}

fn delete(cluster: &mut Cluster) {
    for rule in &RULES[1..3] {
        let _ = cluster.delete(&rule.key());
    }
}

fn resume(cluster: &mut Cluster) {
    let _ = cluster.update(&RULES[3].key(), |paused| paused["spec"]["suspend"] = false.into());
}
