//! For any bytes, the webhook does not panic and denies no pod, and it decides the same as a simple implementation that
//! first parses the whole review.

use crate::cases;
use crate::plain;

use crate::common::{facts, request, review_of, roster};
use proptest::prelude::*;
use rollcall_core::roster::Roster;
use rollcall_webhook::{Asked, review, review_text};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

const NAMESPACE: &str = "shop";

/// The default is small enough for every test run; `PROPTEST_CASES` overrides it.
const CASES: u32 = 3000;

/// Sequences of every kind, so that every field of a pod matters to one of them.
static ROSTER: LazyLock<Roster> = LazyLock::new(|| {
    let by = |key: &str, operator: &str| json!({ "podSelector": { "matchExpressions": [{ "key": key, "operator": operator }] } });
    let workload =
        |kind: &str| json!({ "workloadRef": { "apiVersion": "apps/v1", "kind": kind, "name": "app" } });
    let spec = |groups: Vec<Value>| json!({ "podGroups": groups });
    let mut taints = spec(vec![by("app", "Exists"), by("tier", "Exists")]);
    taints["scope"] = "Node".into();
    taints["nodeGuard"] = "Taints".into();
    let mut gated = spec(vec![by("app", "DoesNotExist")]);
    gated["schedulingGateName"] = "a.example.com/gate".into();
    let named = spec(vec![json!({ "pods": ["a", "odd"] }), workload("Deployment"), workload("StatefulSet")]);
    let specs = [("taints", taints), ("gated", gated), ("shop", named)];
    let sequences: Vec<Value> =
        specs.into_iter().map(|(name, spec)| cases::sequence(NAMESPACE, name, spec)).collect();
    let facts = facts(&sequences);
    assert!(facts.iter().all(|sequence| sequence.spec.is_ok()));
    roster(&facts)
});

/// Reviews as the API server sends them.
static REAL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let pods = cases::pods().into_iter().map(|case| request("pods", NAMESPACE, case.pod()));
    let nodes = cases::nodes().into_iter().map(|case| request("nodes", "", case.node("a")));
    let busy = cases::pod(&json!({
        "metadata": {
            "name": "a", "labels": { "app": "x", "tier": "\u{e9}\n\"", "pod-template-hash": "1" },
            "annotations": { "podsequence.example.com/name": "taints", "podsequence.example.com/group": "1" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1" },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-1", "uid": "2", "controller": true },
            ],
        },
        "spec": {
            "schedulingGates": [{ "name": "a.example.com/gate" }], "nodeName": "",
            "tolerations": [{ "operator": "Exists", "key": "x", "effect": "NoSchedule" }, { "key": "y" }],
        },
    }));
    let reviews = pods.chain(nodes).chain([request("pods", NAMESPACE, busy), review_of(json!({}))]);
    reviews.map(|review| review.to_string()).filter(|review| review.len() < 10_000).collect()
});

/// Fragments that are inserted into reviews.
const WORDS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u003c",
    "\\ud800",
    "null",
    "true",
    "1e999999",
    "-0",
    "\u{0}",
    "\u{e9}",
    "{}",
    "[]",
    "\"\"",
    "\"app\":",
    "\"labels\":{",
    "\"spec\":",
];

/// A change of the bytes, at positions given as fractions of the length.
#[derive(Clone, Debug)]
enum Change {
    Replace(f64, u8),
    Insert(f64, &'static str),
    Remove(f64, f64),
    Repeat(f64, f64),
    Cut(f64),
}

fn change() -> impl Strategy<Value = Change> {
    let (share, short) = (|| 0.0..1.0f64, || 0.0..0.05f64);
    prop_oneof![
        (share(), any::<u8>()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        (share(), prop::sample::select(WORDS.to_vec())).prop_map(|(at, word)| Change::Insert(at, word)),
        (share(), short()).prop_map(|(at, size)| Change::Remove(at, size)),
        (share(), short()).prop_map(|(at, size)| Change::Repeat(at, size)),
        share().prop_map(Change::Cut),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = bytes.len();
        let place = |share: f64| ((length as f64 * share) as usize).min(length.saturating_sub(1));
        let range =
            |at: f64, size: f64| place(at)..(place(at) + 1 + (length as f64 * size) as usize).min(length);
        match *change {
            _ if length == 0 => {}
            Change::Replace(at, byte) => bytes[place(at)] = byte,
            Change::Insert(at, word) => drop(bytes.splice(place(at)..place(at), word.bytes())),
            Change::Remove(at, size) => drop(bytes.drain(range(at, size))),
            Change::Repeat(at, size) => {
                let copy = bytes[range(at, size)].to_vec();
                drop(bytes.splice(place(at)..place(at), copy));
            }
            Change::Cut(at) => bytes.truncate(place(at)),
        }
    }
    bytes
}

/// A valid review with one value replaced.
fn replaced() -> impl Strategy<Value = Vec<u8>> {
    let value = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(7),
        json!(-1.5),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!([null]),
        json!([{}]),
        json!([1]),
        json!({ "a": null }),
        json!({ "app": 1 }),
        json!({ "name": [] }),
    ]);
    (prop::sample::select(&**REAL), any::<prop::sample::Index>(), value).prop_map(|(review, place, value)| {
        let mut review: Value = serde_json::from_str(&review).expect("a review");
        let mut pointers = Vec::new();
        pointers_of(&review, "", &mut pointers);
        if let Some(place) = review.pointer_mut(place.get(&pointers[..]).as_str()) {
            *place = value;
        }
        review.to_string().into_bytes()
    })
}

fn pointers_of(value: &Value, path: &str, all: &mut Vec<String>) {
    all.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                pointers_of(value, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers_of(value, &format!("{path}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn sent() -> impl Strategy<Value = Vec<u8>> {
    let mutated = (prop::sample::select(&**REAL), prop::collection::vec(change(), 0..4))
        .prop_map(|(review, changes)| changed(review.clone().into_bytes(), &changes));
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..200), 4 => mutated, 4 => replaced()]
}

/// JSON without duplicate field names. Only such JSON is compared, because our reader does not notice duplicates in
/// fields that it skips.
struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Unambiguous, D::Error> {
        json.deserialize_any(Unambiguous)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = Unambiguous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unambiguous, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unambiguous, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unambiguous, A::Error> {
        while items.next_element::<Unambiguous>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Unambiguous, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            fields.next_value::<Unambiguous>()?;
            if !names.insert(name) {
                return Err(A::Error::custom("twice"));
            }
        }
        Ok(self)
    }
}

/// Sends the bytes as a launch-order review: it must be answered, and a denial must have a message.
fn order_review(sent: &[u8]) {
    let Ok(answer) = review_text(Asked::Launch, sent, &ROSTER) else { return };
    let (response, status) = (&answer["response"], &answer["response"]["status"]);
    assert_eq!(response["allowed"] == false, status["message"].as_str().is_some_and(|why| why.len() > 10));
    assert!(response["allowed"] == true || response.get("patch").is_none());
}

/// The fuzz target.
fn admission_review(sent: &[u8]) {
    order_review(sent);
    let answer = review_text(Asked::Sequences, sent, &ROSTER);
    if let Ok(answer) = &answer {
        assert_eq!(answer["response"]["allowed"], true);
        assert_eq!(
            (&answer["kind"], &answer["apiVersion"]),
            (&json!("AdmissionReview"), &json!("admission.k8s.io/v1"))
        );
    }
    let Ok(whole) = serde_json::from_slice::<Value>(sent) else { return };
    let answer = answer.expect("valid JSON is answered");
    let expected = plain::decide(&whole, &ROSTER);
    assert_eq!(plain::decided(&review(Asked::Sequences, &whole, &ROSTER)), expected);
    let uid = whole["request"]["uid"].as_str().unwrap_or_default();
    if serde_json::from_slice::<Unambiguous>(sent).is_ok() {
        assert_eq!(plain::decided(&answer), expected);
        assert_eq!(answer["response"]["uid"], uid);
    }
}

#[test]
fn real_reviews_are_decided_in_every_way() {
    let decided: Vec<plain::Decision> = REAL
        .iter()
        .map(|review| {
            admission_review(review.as_bytes());
            plain::decide(&serde_json::from_str(review).expect("a review"), &ROSTER)
        })
        .collect();
    assert!(decided.iter().any(|decision| decision.warned));
    assert!(decided.iter().any(|decision| decision.patch.is_some()));
    assert!(decided.iter().any(|decision| !decision.warned && decision.patch.is_none()));
}

#[test]
fn no_bytes_make_it_fail() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    proptest!(ProptestConfig::with_cases(cases), |(sent in sent())| {
        admission_review(&sent);
    });
}
