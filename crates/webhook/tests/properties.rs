//! The webhook is idempotent: reviewing a pod that it has already changed changes nothing.

use crate::common::{after, facts, request, roster};
use proptest::prelude::*;
use rollcall_webhook::{Asked, review};
use serde_json::{Value, json};

const GATES: [&str; 3] =
    ["podsequence.example.com/sequence-gate", "a.example.com/gate", "z.example.com/gate"];

/// One of a few words, so that sequences often select pods.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn selector() -> impl Strategy<Value = Value> {
    let requirement = (word(), 0..4usize, word()).prop_map(|(key, operator, value)| match operator {
        0 => json!({ "key": key, "operator": "In", "values": [value] }),
        1 => json!({ "key": key, "operator": "NotIn", "values": [value] }),
        2 => json!({ "key": key, "operator": "Exists" }),
        _ => json!({ "key": key, "operator": "DoesNotExist" }),
    });
    prop::collection::vec(requirement, 1..3)
        .prop_map(|all| json!({ "podSelector": { "matchExpressions": all } }))
}

fn sequence() -> impl Strategy<Value = Value> {
    let group = prop_oneof![word().prop_map(|name| json!({ "pods": [name] })), selector()];
    let groups = prop::collection::vec(group, 1..4);
    (word(), groups, prop::sample::select(GATES.to_vec()), word()).prop_map(|(name, groups, gate, target)| {
        let spec = json!({ "podGroups": groups, "schedulingGateName": gate, "namespace": target });
        json!({ "metadata": { "name": name, "namespace": "a" }, "spec": spec })
    })
}

/// A field that is set, null or absent.
fn field(value: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Option<Value>> {
    prop_oneof![3 => value.prop_map(Some), 1 => Just(Some(Value::Null)), 1 => Just(None)]
}

fn pod() -> impl Strategy<Value = Value> {
    let texts = || prop::collection::btree_map(word(), word(), 0..3).prop_map(|map| json!(map));
    let annotations = (word(), 0..5u8).prop_map(|(name, group)| {
        json!({ "podsequence.example.com/name": name, "podsequence.example.com/group": group.to_string() })
    });
    let gates = prop::sample::subsequence(GATES.to_vec(), 0..=3)
        .prop_map(|gates| gates.into_iter().map(|gate| json!({ "name": gate })).collect::<Value>());
    let node = prop_oneof![4 => Just(json!("")), 1 => Just(json!("node"))];
    let fields =
        (field(word().prop_map(Value::from)), field(texts()), field(annotations), field(gates), field(node));
    fields.prop_map(|(name, labels, annotations, gates, node)| {
        let mut pod = json!({ "kind": "Pod", "metadata": {}, "spec": { "unknown": { "to": ["us"] } } });
        let metadata = [("name", name), ("labels", labels), ("annotations", annotations)];
        let spec = [("schedulingGates", gates), ("nodeName", node)];
        for (part, fields) in [("metadata", metadata.to_vec()), ("spec", spec.to_vec())] {
            for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                pod[part][name] = value;
            }
        }
        pod
    })
}

/// Arbitrary JSON that contains the relevant field names.
fn anything() -> impl Strategy<Value = Value> {
    let names =
        ["apiVersion", "kind", "request", "uid", "operation", "resource", "group", "namespace", "object"];
    let more =
        ["metadata", "spec", "name", "labels", "annotations", "schedulingGates", "nodeName", "subResource"];
    let names: Vec<&str> = names.into_iter().chain(more).collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "CREATE",
            "pods",
            "nodes",
            "admission.k8s.io/v1",
            "AdmissionReview",
            "x"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names.clone()), inner, 0..6)
                .prop_map(|map| json!(map)),
        ]
    })
}

/// A valid request with one value replaced.
fn almost_good() -> impl Strategy<Value = Value> {
    let pointers =
        ["", "/apiVersion", "/request", "/request/resource", "/request/object", "/request/object/metadata"];
    let more =
        ["/request/object/metadata/labels", "/request/object/spec", "/request/object/spec/schedulingGates"];
    let pointers: Vec<&str> = pointers.into_iter().chain(more).collect();
    (pod(), prop::sample::select(pointers), anything()).prop_map(|(pod, pointer, value)| {
        let mut review = request("pods", "a", pod);
        if let Some(place) = review.pointer_mut(pointer) {
            *place = value;
        }
        review
    })
}

proptest! {
    #[test]
    fn twice_is_once(sequences in prop::collection::vec(sequence(), 0..4), pod in pod()) {
        let sequences = facts(&sequences);
        prop_assert!(sequences.iter().all(|sequence| sequence.spec.is_ok()));
        let sequences = roster(&sequences);
        let first = after(&pod, &review(Asked::Sequences, &request("pods", "a", pod.clone()), &sequences));
        let answer = review(Asked::Sequences, &request("pods", "a", first.clone()), &sequences);
        prop_assert_eq!(answer["response"].get("patch"), None);
        prop_assert_eq!(after(&first, &answer), first.clone());

        // Gates are appended, and nothing else changes.
        let gates = |pod: &Value| pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
        prop_assert!(gates(&first).starts_with(&gates(&pod)));
        let mut rest = first.clone();
        rest["spec"]["schedulingGates"] = pod["spec"]["schedulingGates"].clone();
        let mut sent = pod.clone();
        sent["spec"]["schedulingGates"] = pod["spec"]["schedulingGates"].clone();
        prop_assert_eq!(rest, sent);
    }

    #[test]
    fn nothing_is_ever_refused(review_sent in prop_oneof![anything(), almost_good()], sequence in sequence()) {
        let answer = review(Asked::Sequences, &review_sent, &roster(&facts(&[sequence])));
        prop_assert_eq!(&answer["response"]["allowed"], true);
        prop_assert_eq!(&answer["kind"], "AdmissionReview");
        let warned = answer["response"].get("warnings").is_some();
        prop_assert!(!(warned && answer["response"].get("patch").is_some()));
    }
}
