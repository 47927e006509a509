//! The webhook gives the same results as the policies, and admits objects that it cannot read.

use crate::cases;

use crate::common::{after, facts, request, review_of, roster};
use rollcall_api::reservation::OrderObject;
use rollcall_api::watch::OwnerObject;
use rollcall_core::Uid;
use rollcall_core::facts::OwnerKind;
use rollcall_core::index::{Index, Object};
use rollcall_core::reservation::spec::Places;
use rollcall_core::roster::Roster;
use rollcall_core::selector::Selector;
use rollcall_webhook::{Asked, review};
use serde_json::{Value, json};
use std::sync::Arc;

const NAMESPACE: &str = "shop";

#[test]
fn pods_get_their_gates() {
    for case in cases::pods() {
        let name = &case.case;
        let sequences = facts(&case.sequences(NAMESPACE));
        // This version rejects a whole sequence because of a group with a workload.
        let readable = sequences.iter().all(|sequence| sequence.spec.is_ok());
        assert!(readable || name.starts_with("a workload"), "{name}");
        let sent = case.pod();
        let answer = review(Asked::Sequences, &request("pods", NAMESPACE, sent.clone()), &roster(&sequences));
        let pod = after(&sent, &answer);
        let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
        let gates: Vec<&str> = gates.iter().filter_map(|gate| gate["name"].as_str()).collect();
        assert_eq!(gates, case.gates, "{name}");
        assert_eq!(without_gates(&pod), without_gates(&sent), "{name}: other fields");
        let untouched = gates.len() == case.gates_sent();
        assert_eq!(answer["response"].get("patch").is_none(), untouched, "{name}: an unnecessary patch");
        assert_eq!(answer["response"].get("warnings"), None, "{name}");
    }
}

#[test]
fn pods_of_named_workloads_get_their_gates() {
    for case in cases::workloads() {
        let mut index = Index::of_full_mode();
        for (kind, object) in case.seen(NAMESPACE) {
            let owner: OwnerObject = serde_json::from_value(object).expect("a workload");
            let kind = OwnerKind::of_word(kind).expect("a kind of workload");
            index.apply(Object::Owner(owner.facts(kind)));
        }
        let mut roster = Roster::default();
        for sequence in facts(&[case.sequence(NAMESPACE)]) {
            let uid = sequence.uid;
            index.apply(Object::Sequence(sequence));
            roster.update(index.facts(), uid);
        }
        let sent = case.pod();
        let answer = review(Asked::Sequences, &request("pods", NAMESPACE, sent.clone()), &roster);
        let gates = after(&sent, &answer)["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
        assert_eq!(gates, usize::from(case.held), "{}", case.case);
    }
}

#[test]
fn pods_wait_for_tickets() {
    let tickets = cases::tickets();
    let mut roster = Roster::default();
    for order in &tickets.orders(NAMESPACE) {
        roster.orders.set(Uid::digest(&order["metadata"]["name"].to_string()), selector(order));
    }
    for case in &tickets.pods {
        let name = &case.case;
        let sent = case.pod();
        let gates = |roster: &Roster| {
            let answer = review(Asked::Sequences, &request("pods", NAMESPACE, sent.clone()), roster);
            let pod = after(&sent, &answer);
            assert_eq!(without_gates(&pod), without_gates(&sent), "{name}: other fields");
            let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
            gates.iter().filter_map(|gate| gate["name"].as_str()).map(str::to_owned).collect::<Vec<_>>()
        };
        roster.orders.set_served(true);
        assert_eq!(gates(&roster), case.gates(), "{name}");
        // If no controller serves tickets, no pod waits for one.
        roster.orders.set_served(false);
        let sent = sent["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
        assert_eq!(gates(&roster).len(), sent, "{name}: not served");
    }
}

/// The selector of an Order, as the controller would register it.
fn selector(order: &Value) -> Option<(Arc<str>, Selector)> {
    let order: OrderObject = serde_json::from_value(order.clone()).expect("an Order");
    let order = order.facts();
    let spec = order.spec.expect("a valid Order");
    let selector = spec.selector.clone().filter(|_| spec.places == Places::EachNode);
    Some((NAMESPACE.into(), selector?))
}

#[test]
fn nodes_are_unseen() {
    for case in cases::nodes() {
        let sent = case.node("a");
        let answer = review(Asked::Sequences, &request("nodes", "", sent.clone()), &Roster::default());
        let node = after(&sent, &answer);
        assert_eq!(node["metadata"]["labels"], json!(case.labels), "{}", case.case);
        let again = review(Asked::Sequences, &request("nodes", "", node), &Roster::default());
        assert_eq!(again["response"].get("patch"), None, "{}: again", case.case);
    }
}

#[test]
fn what_cannot_be_read_is_let_through_with_a_warning() {
    let sequences = facts(&[cases::sequence(NAMESPACE, "s", json!({ "podGroups": [{ "pods": ["odd"] }] }))]);
    let pod = |fields: Value| request("pods", NAMESPACE, cases::pod(&fields));
    let named = |fields: Value| {
        let mut pod = cases::pod(&json!({ "metadata": { "name": "odd" } }));
        json_patch::merge(&mut pod, &fields);
        request("pods", NAMESPACE, pod)
    };
    for (malformed, field) in [
        (Value::Null, "the review is not an object"),
        (json!([]), "the review is not an object"),
        (json!("review"), "the review is not an object"),
        (json!({}), "the review is not an AdmissionReview of admission.k8s.io/v1"),
        (review_of(Value::Null), "the review.request is not an object"),
        (review_of(json!({ "operation": 1 })), "request.operation is not a string"),
        (review_of(json!({ "operation": "CREATE" })), "request.resource is not an object"),
        (request("pods", NAMESPACE, Value::Null), "request.object is not an object"),
        (request("pods", NAMESPACE, json!([1])), "request.object is not an object"),
        (request("pods", NAMESPACE, json!({})), "object.spec is not an object"),
        (request("pods", NAMESPACE, json!({ "spec": {} })), "object.metadata is not an object"),
        (pod(json!({ "metadata": { "name": 7 } })), "object.metadata.name is not a string"),
        (named(json!({ "metadata": { "labels": ["a"] } })), "object.metadata.labels is not a map of strings"),
        (
            named(json!({ "metadata": { "labels": { "a": 1 } } })),
            "object.metadata.labels is not a map of strings",
        ),
        (
            named(json!({ "metadata": { "annotations": "x" } })),
            "object.metadata.annotations is not a map of strings",
        ),
        (named(json!({ "spec": { "nodeName": {} } })), "object.spec.nodeName is not a string"),
        (named(json!({ "spec": { "schedulingGates": "x" } })), "object.spec.schedulingGates is not a list"),
        (
            named(json!({ "spec": { "schedulingGates": [1] } })),
            "object.spec.schedulingGates[] is not an object",
        ),
        (
            named(json!({ "spec": { "schedulingGates": [{ "name": [] }] } })),
            "schedulingGates[].name is not a string",
        ),
        (named(json!({ "spec": { "tolerations": [1] } })), "object.spec.tolerations[] is not an object"),
        (
            request("nodes", "", json!({ "metadata": { "labels": 1 } })),
            "object.metadata.labels is not a map of strings",
        ),
    ] {
        let answer = review(Asked::Sequences, &malformed, &roster(&sequences));
        let response = &answer["response"];
        assert_eq!(response["allowed"], true, "{malformed}");
        assert_eq!(response.get("patch"), None, "{malformed}");
        let warning = response["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains(field), "{malformed}: {warning}");
        assert_eq!(response["uid"], malformed["request"]["uid"].as_str().unwrap_or_default());
    }
}

#[test]
fn what_is_not_ours_is_let_through_silently() {
    let everything = json!({ "podGroups": [{ "podSelector": { "matchExpressions": [{ "key": "no", "operator": "DoesNotExist" }] } }] });
    let pod = cases::pod(&json!({ "metadata": { "name": "a" } }));
    let with = |change: Value| {
        let mut review = request("pods", NAMESPACE, pod.clone());
        json_patch::merge(&mut review["request"], &change);
        review
    };
    let resource =
        |group: &str, resource: &str| json!({ "resource": { "group": group, "resource": resource } });
    for (what, review_sent) in [
        ("an update", with(json!({ "operation": "UPDATE" }))),
        ("a deletion, which has no object", with(json!({ "operation": "DELETE", "object": null }))),
        ("a binding", with(json!({ "subResource": "binding" }))),
        ("another resource", with(resource("", "services"))),
        ("pods of another group", with(resource("metrics.k8s.io", "pods"))),
        ("our own namespace", with(json!({ "namespace": "pod-sequence-system" }))),
        ("a namespace of the system", with(json!({ "namespace": "kube-system" }))),
        ("a namespace without sequences", with(json!({ "namespace": "other" }))),
    ] {
        let namespace = review_sent["request"]["namespace"].as_str().unwrap_or_default();
        let here = if namespace == "other" { NAMESPACE } else { namespace };
        let sequences = facts(&[cases::sequence(here, "s", everything.clone())]);
        let response = review(Asked::Sequences, &review_sent, &roster(&sequences))["response"].clone();
        assert_eq!(response, json!({ "uid": "the-uid", "allowed": true }), "{what}");
    }
}

/// An invalid sequence has no effect, so pods must not wait for it.
#[test]
fn a_sequence_that_cannot_be_understood_holds_nobody() {
    let sequences = facts(&[cases::sequence(NAMESPACE, "s", json!({ "podGroups": "none" }))]);
    assert!(sequences[0].spec.is_err());
    let pod = cases::pod(&json!({ "metadata": { "name": "a", "annotations": {
        "podsequence.example.com/name": "s", "podsequence.example.com/group": "0" } } }));
    assert_eq!(
        review(Asked::Sequences, &request("pods", NAMESPACE, pod), &roster(&sequences))["response"]
            .get("patch"),
        None
    );
}

fn without_gates(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["spec"].as_object_mut().expect("a spec").remove("schedulingGates");
    pod
}

#[test]
fn members_tolerate_what_keeps_nodes_closed_for_later_groups_only() {
    let groups = ["agent", "cache", "web"]
        .map(|app| json!({ "name": app, "podSelector": { "matchLabels": { "app": app } } }));
    let spec = json!({ "scope": "Node", "nodeGuard": "Taints", "podGroups": groups });
    let roster = roster(&facts(&[cases::sequence(NAMESPACE, "s", spec)]));
    let key = |group: &str| format!("podsequence.example.com/{NAMESPACE}.s.{group}-blocked");
    let ours = |group: &str| json!({ "key": key(group), "operator": "Exists", "effect": "NoSchedule" });
    let own = json!({ "key": "own" });
    let exact = json!({ "key": key("web"), "operator": "Equal", "value": "x" });
    let every = json!({ "operator": "Exists" });
    for (app, sent, expected) in [
        ("agent", json!(null), json!([ours("cache"), ours("web")])),
        ("agent", json!([own]), json!([own, ours("cache"), ours("web")])),
        ("cache", json!([]), json!([ours("web")])),
        ("cache", json!([exact]), json!([exact, ours("web")])),
        ("cache", json!([ours("web")]), json!([ours("web")])),
        ("agent", json!([every]), json!([every])),
        ("web", json!([own]), json!([own])),
        ("other", json!([own]), json!([own])),
    ] {
        let mut pod = cases::pod(&json!({ "metadata": { "labels": { "app": app } } }));
        pod["spec"]["tolerations"] = sent.clone();
        let after = after(&pod, &review(Asked::Sequences, &request("pods", NAMESPACE, pod.clone()), &roster));
        assert_eq!(after["spec"]["tolerations"], expected, "{app} {sent}");
        let again = review(Asked::Sequences, &request("pods", NAMESPACE, after), &roster);
        assert_eq!(again["response"].get("patch"), None, "{app} {sent}: again");
    }
}
