//! For arbitrary objects from a watch: decoding does not panic, and the auditor accepts the decisions about them. The
//! objects are realistic, with some values replaced, moved or removed.

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::Index as Place;
use rollcall_api::launch::BarrierObject;
use rollcall_api::sequence::{SequenceObject, note::NoteObject};
use rollcall_api::watch::{CsiNodeObject, NamespaceObject, NodeObject, OwnerObject, PodObject};
use rollcall_core::Uid;
use rollcall_core::dispatch::{check, decide, explain_pod, keep};
use rollcall_core::facts::OwnerKind;
use rollcall_core::index::{Index, Object};
use rollcall_core::kind::Kind;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The default is small enough for every test run; `PROPTEST_CASES` overrides it.
const CASES: u32 = 1500;

const UID: &str = "11111111-1111-1111-1111-11111111111";

fn metadata(name: &str, digit: u32) -> Value {
    json!({ "name": name, "namespace": "shop", "uid": format!("{UID}{digit}"), "resourceVersion": "7", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "app": "web" } })
}

/// One object of each kind; together they form a small application.
fn objects() -> Vec<(Kind, Value)> {
    let mut pod = metadata("web-1", 1);
    pod["annotations"] = json!({ "podsequence.example.com/launch-rank": "1", "podsequence.example.com/name": "s",
                                 "podsequence.example.com/group": "0" });
    pod["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": format!("{UID}2"), "controller": true }]);
    let key = |key: &str| json!({ "configMapKeyRef": { "name": "web-1-barrier", "key": key } });
    let container = |name: &str, rank: &str| {
        json!({ "name": name, "image": "i", "readinessProbe": {},
                "env": [{ "name": "KRUISE_CONTAINER_LAUNCH_BARRIER", "valueFrom": key(rank) }] })
    };
    let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] });
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:05Z" } });
    let waiting = json!({ "waiting": { "reason": "CreateContainerConfigError" } });
    let status = |name: &str, ready: bool, state: &Value| json!({ "name": name, "ready": ready, "started": ready, "state": state });
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container("a", "c_1")] } });
    let group = json!({ "podSelector": { "matchLabels": { "app": "web" } }, "name": "first" });
    let workload =
        json!({ "workloadRef": { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web" } });
    vec![
        (Kind::Namespace, json!({ "metadata": metadata("shop", 3) })),
        (
            Kind::Node,
            json!({ "metadata": metadata("n", 4), "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] },
                             "status": { "conditions": [{ "type": "Ready", "status": "True" }], "allocatable": { "cpu": "1" } } }),
        ),
        (
            Kind::CsiNode,
            json!({ "metadata": metadata("n", 5), "spec": { "drivers": [{ "name": "csi", "nodeID": "n" }] } }),
        ),
        (
            Kind::StatefulSet,
            json!({ "metadata": metadata("web", 2), "spec": { "replicas": 2, "template": template },
                                    "status": { "observedGeneration": 1 } }),
        ),
        (
            Kind::Sequence,
            json!({ "metadata": metadata("s", 6),
                                 "spec": { "scope": "Cluster", "podGroups": [group, workload] },
                                 "status": { "groups": [{ "name": "first", "openedAt": "2026-01-01T00:00:01Z" }] } }),
        ),
        (Kind::Note, json!({ "metadata": metadata("podsequence-note-x", 7), "data": { "note": "{}" } })),
        (
            Kind::Pod,
            json!({
                "metadata": pod,
                "spec": { "containers": [container("a", "c_1"), container("b", "c_0")], "affinity": { "nodeAffinity": required },
                          "schedulingGates": [{ "name": "podsequence.example.com/sequence-gate" }], "restartPolicy": "Always" },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
                            "containerStatuses": [status("a", true, &running), status("b", false, &waiting)] },
            }),
        ),
        (Kind::Barrier, json!({ "metadata": metadata("web-1-barrier", 8), "data": { "c_1": "true" } })),
    ]
}

/// A value that can replace any other value.
fn anything() -> impl Strategy<Value = Value> {
    let words = [
        "",
        "-",
        "0",
        "-1",
        "2147483648",
        "99999999999999999999",
        "1.5",
        "true",
        "2026-13-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "0000-00-00",
        "c_0",
        "c_--1",
        "p_2147483647",
        "KRUISE_CONTAINER_BARRIER",
        "web-1-barrier",
        "Never",
        "Exists",
        "NotIn",
        "podsequence.example.com/launch-gate",
        "In",
        "Node",
        "100%",
        "-5s",
        "\u{9b}31m",
        "\u{202e}x",
        "9223372036854775807",
    ];
    prop_oneof![
        4 => proptest::sample::select(words.to_vec()).prop_map(|word| json!(word)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => Just(Value::Null),
        1 => Just(json!({})),
        1 => Just(json!([])),
        1 => Just(json!([null, {}, [], "x"])),
        1 => any::<bool>().prop_map(|is| json!(is)),
    ]
}

/// The paths of all values of an object.
fn paths(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                paths(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| paths(item, format!("{at}/{place}"), all))
        }
        _ => {}
    }
    all.push(at);
}

fn read<T: for<'de> Deserialize<'de>>(value: &Value) -> Option<T> {
    // The object is decoded from text, as in a watch.
    serde_json::from_str(&value.to_string()).ok()
}

fn object(kind: Kind, value: &Value) -> Option<Object> {
    Some(match kind {
        Kind::Pod => Object::Pod(read::<PodObject>(value)?.facts()),
        Kind::Namespace => Object::Namespace(read::<NamespaceObject>(value)?.facts()),
        Kind::Node => Object::Node(read::<NodeObject>(value)?.facts()),
        Kind::CsiNode => Object::Drivers(read::<CsiNodeObject>(value)?.facts()),
        Kind::Sequence => Object::Sequence(read::<SequenceObject>(value)?.facts()),
        Kind::Note => Object::Note(read::<NoteObject>(value)?.facts()?),
        Kind::Barrier => Object::Barrier(read::<BarrierObject>(value)?.facts(Uid::new(&format!("{UID}1")))),
        _ => Object::Owner(read::<OwnerObject>(value)?.facts(OwnerKind::StatefulSet)),
    })
}

fn process_all(objects: &[(Kind, Value)]) {
    let mut index = Index::of_full_mode();
    for kind in Kind::of_mode(true) {
        index.list_begins(kind, 1);
        index.list_ended(kind, &BTreeSet::new());
    }
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a time");
    for (kind, value) in objects {
        let Some(object) = object(*kind, value) else { continue };
        index.apply(object);
        for key in index.take_touched() {
            let decision = decide(&index, key, Default::default(), now, 8);
            assert_eq!(check(&index, key, &decision, now), [], "{decision:?}");
            keep(&mut index, key, decision.keep);
        }
    }
    index.cluster.pods().for_each(|pod| drop(explain_pod(&index, pod, now)));
}

#[test]
fn the_objects_are_read() {
    for (kind, value) in objects().iter().filter(|(kind, _)| *kind != Kind::Note) {
        assert!(object(*kind, value).is_some(), "{kind:?}");
    }
    process_all(&objects());
}

#[test]
fn whatever_a_watch_tells_nothing_breaks() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let change = (any::<Place>(), any::<Place>(), proptest::option::weighted(0.8, anything()));
    let changes = proptest::collection::vec(change, 1..6);
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }, |(changes in changes)| {
        let mut objects = objects();
        for (which, place, value) in changes {
            let place_of = which.index(objects.len());
            let changed = &mut objects[place_of].1;
            let mut all = Vec::new();
            paths(changed, String::new(), &mut all);
            let path = place.get(&all).clone();
            match (value, changed.pointer_mut(&path)) {
                (Some(value), Some(there)) => *there = value,
                // Without a new value, the old one becomes null.
                (None, Some(there)) => drop(there.take()),
                (_, None) => {}
            }
        }
        process_all(&objects);
    });
}
