//! Tests of validation: invalid objects are rejected with a clear message, and valid ones are accepted. The cases in `cases`
//! are checked by a real API server with the CRDs, and by `rollcall` without one. Further tests check that invalid PodSequences
//! do not affect others while the controller is running.

mod corpus;
mod coverage;
mod neighbours;
mod server;

use corpus::{Case, RESERVATION, SEQUENCE, custom, invalid, valid};
use rollcall_api::definition::Custom;
use rollcall_api::validate::{self, InvalidSpec};
use rollcall_api::{reservation, sequence};
use rollcall_sim::kinds::Kind;
use rollcall_sim::server::refusal::Refusal;
use rollcall_sim::server::{defaults, rules};
use serde_json::{Value, json};

fn all_invalid() -> impl Iterator<Item = Case> {
    [SEQUENCE, RESERVATION].into_iter().flat_map(invalid)
}

fn all_valid() -> impl Iterator<Item = (String, Value)> {
    let given = [SEQUENCE, RESERVATION].into_iter().flat_map(valid);
    given.chain(samples()).chain(largest())
}

/// The shipped samples of Orders and tickets.
fn samples() -> impl Iterator<Item = (String, Value)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/reservation");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|file| {
        let mut object: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        object["metadata"]["namespace"] = "default".into();
        (file.display().to_string(), object)
    })
}

/// Parses a spec with Rollcall, and validates it.
fn read(custom: Custom, spec: &Value) -> Result<(), InvalidSpec> {
    match custom {
        Custom::PodSequence => validate::validate(custom, &sequence::parse_spec(spec)?),
        Custom::Order => validate::validate(custom, &reservation::parse_order(spec)?),
        Custom::Ticket => validate::validate(custom, &reservation::parse_ticket(spec)?),
    }
}

#[test]
fn rollcall_refuses_what_is_bad_and_says_why() {
    let mut differences = Vec::new();
    for case in all_invalid() {
        let Case { name, bad, good, rollcall, .. } = &case;
        match read(case.custom(), bad) {
            Ok(()) => panic!("{name}: the invalid spec was accepted"),
            Err(invalid) if invalid.to_string() == *rollcall => {}
            Err(invalid) => differences.push(format!("{name}\n  expected {rollcall}\n  found    {invalid}")),
        }
        read(case.custom(), good)
            .unwrap_or_else(|invalid| panic!("{name}: the valid spec was rejected: {invalid}"));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn rollcall_accepts_what_is_good() {
    for (name, object) in all_valid() {
        let custom = custom(object["kind"].as_str().unwrap());
        read(custom, &object["spec"]).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        assert_eq!(validate::unknown_fields(custom, &object["spec"]), [""; 0], "{name}");
    }
}

#[test]
fn rollcall_refuses_what_is_too_large_to_be_copied() {
    for (name, object) in largest_reservations() {
        let invalid = read(custom(object["kind"].as_str().unwrap()), &object["spec"]).unwrap_err();
        assert!(invalid.expected.starts_with("must be at most 16384 bytes, not "), "{name}: {invalid}");
    }
}

#[test]
fn every_bound_and_every_rule_of_the_definition_has_a_case() {
    let cases: Vec<Case> = all_invalid().collect();
    for custom in Custom::ALL {
        let missing = coverage::missing(*custom, &cases);
        assert!(missing.is_empty(), "{custom:?}: no case in cases for:\n{}", missing.join("\n"));
    }
}

#[tokio::test]
async fn the_api_server_refuses_what_is_bad_and_says_why() {
    let server = server::start().await;
    for case in all_invalid() {
        let custom = case.custom();
        let Case { name, bad, good, field, message, .. } = case;
        let causes = server.refusal(&corpus::object(custom, &name, bad)).await;
        assert_eq!(causes, [(field, message)], "{name}");
        assert_eq!(
            server.refusal(&corpus::object(custom, &name, good)).await,
            [],
            "{name}: the valid spec was rejected"
        );
    }
}

/// The embedded server of `simulate` reports the same causes. Cases with duplicate names are excluded, because a real API
/// server also reports where the evaluation failed.
#[test]
fn the_embedded_server_says_the_same() {
    for case in all_invalid().filter(|case| !case.message.contains("evaluating rule")) {
        let kind = Kind::all().find(|kind| kind.custom() == Some(case.custom())).unwrap();
        let causes = |spec: &Value| {
            let mut object = corpus::object(case.custom(), &case.name, spec.clone());
            defaults::fill(kind, &mut object);
            let refusal = Refusal::invalid(kind, &case.name, &rules::created(kind, &object));
            let causes = refusal.details["causes"].as_array().cloned().unwrap_or_default();
            let told = causes.into_iter().filter(|cause| cause["field"] != "<nil>");
            told.map(|cause| (cause["field"].clone(), cause["message"].clone())).collect::<Vec<_>>()
        };
        let expected = (json!(case.field), json!(case.message));
        assert_eq!(causes(&case.bad), [expected], "{}", case.name);
        assert_eq!(causes(&case.good), [], "{}: the valid spec was rejected", case.name);
    }
}

#[tokio::test]
async fn the_api_server_accepts_what_is_good() {
    let server = server::start().await;
    for (name, object) in all_valid().chain(largest_reservations()) {
        assert_eq!(server.refusal(&object).await, [], "{name}");
    }
}

#[tokio::test]
async fn kubectl_explains_and_shows_the_columns() {
    let server = server::start().await;
    let explained = server.kubectl(&["explain", "podseq.spec.podGroups.minReady"]);
    assert!(explained.contains("a number, or a percentage such as 50%"), "{explained}");

    let (_, object) = valid(SEQUENCE).swap_remove(0);
    server.create_with_status(&object, json!({
        "phase": "InProgress",
        "message": "waiting for 1 of 2 pods",
        "summary": { "group": "2/3 Application Layer", "ready": "1/2" },
        "groups": [{ "name": "Database Layer", "state": "Complete", "completedAt": "2026-11-15T23:00:00.123Z" }],
    }));
    let shown = server.kubectl(&["get", "podseq", "--namespace", "default"]);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words[..5], ["NAME", "PHASE", "GROUP", "READY", "AGE"], "{shown}");
    assert!(shown.contains("InProgress   2/3 Application Layer   1/2"), "{shown}");
    let wide = server.kubectl(&["get", "podseq", "--namespace", "default", "--output", "wide"]);
    assert!(wide.contains("SCOPE   MESSAGE") && wide.contains("Node    waiting for 1 of 2 pods"), "{wide}");
}

/// The most expensive valid sequences for the API server: the maximum number of groups, with many dependencies or many labels.
fn largest() -> Vec<(String, Value)> {
    let group = |index: usize, dependencies: usize, width: usize| {
        let earlier = (index.saturating_sub(dependencies)..index).map(|index| format!("{index:0>width$}"));
        json!({
            "name": format!("{index:0>width$}"),
            "dependsOn": earlier.collect::<Vec<_>>(),
            "pods": [format!("pod-{index}")],
            "minReady": "100%",
            "timeout": "1h30m",
            "waitDuration": "1h30m",
        })
    };
    let labels: Value = (0..32).map(|index| (format!("example.com/label-{index}"), json!("value"))).collect();
    let selecting = json!({ "podSelector": { "matchLabels": labels } });
    let small = |index: usize| json!({ "name": format!("Group {index}"), "pods": [format!("pod-{index}")] });
    let specs = [
        ("1000-groups", json!({ "podGroups": (0..1000).map(small).collect::<Vec<_>>() })),
        (
            "100-dependencies-each",
            json!({ "podGroups": (0..1000).map(|i| group(i, 100, 4)).collect::<Vec<_>>() }),
        ),
        ("long-names", json!({ "podGroups": (0..1000).map(|i| group(i, 10, 100)).collect::<Vec<_>>() })),
        ("32-labels-each", json!({ "podGroups": vec![selecting; 1000] })),
    ];
    specs
        .into_iter()
        .map(|(name, spec)| (name.to_owned(), corpus::object(Custom::PodSequence, name, spec)))
        .collect()
}

/// The most expensive reservations for the API server: the maximum number of conditions on nodes and pods. Rollcall rejects
/// them because of their size, since it would keep a copy for each ticket.
fn largest_reservations() -> Vec<(String, Value)> {
    let many = |count: usize, item: Value| vec![item; count];
    let labels: Value = (0..32).map(|index| (format!("example.com/label-{index}"), json!("value"))).collect();
    let condition = json!({ "key": "example.com/key", "operator": "In", "values": vec!["value"; 5] });
    let term = json!({ "matchExpressions": many(16, condition.clone()) });
    let selector = json!({ "matchLabels": labels, "matchExpressions": many(32, condition) });
    let pods = json!({ "topologyKey": "zone", "labelSelector": selector, "namespaceSelector": selector });
    let near = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": many(8, pods.clone()),
        "preferredDuringSchedulingIgnoredDuringExecution": many(8, json!({ "weight": 1, "podAffinityTerm": pods })),
    });
    let resources: Value = (0..16).map(|index| (format!("example.com/r-{index}"), json!("1.5Gi"))).collect();
    let ticket = json!({
        "resources": { "requests": resources, "limits": resources },
        "nodeSelector": labels,
        "tolerations": many(32, json!({ "key": "example.com/taint", "operator": "Exists" })),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": many(16, term.clone()) },
                "preferredDuringSchedulingIgnoredDuringExecution": many(16, json!({ "weight": 1, "preference": term })),
            },
            "podAffinity": near,
            "podAntiAffinity": near,
        },
    });
    let order = json!({ "replicas": 1000, "template": { "spec": ticket } });
    vec![
        ("large-ticket".to_owned(), corpus::object(Custom::Ticket, "large", ticket)),
        ("large-order".to_owned(), corpus::object(Custom::Order, "large", order)),
    ]
}

/// A rule that compares with the stored object: the type of a strategy cannot change.
#[tokio::test]
async fn the_type_of_an_order_cannot_be_changed() {
    let server = server::start().await;
    let spec = |kind: &str| {
        json!({
            "strategy": { "type": kind, "schedule": "@daily" },
            "template": { "spec": { "resources": { "requests": { "cpu": "1" } } } },
        })
    };
    server.kubectl_apply(&corpus::object(Custom::Order, "fixed", spec("Recurring"))).unwrap();
    let refused = server
        .kubectl_apply(&corpus::object(Custom::Order, "fixed", spec("Scheduled")))
        .unwrap_err()
        .to_string();
    let expected = "spec.strategy.type: Invalid value: \"Scheduled\": cannot be changed from Recurring to Scheduled; create another Order";
    assert!(refused.contains(expected), "{refused}");
}

/// The API server stores all defaults, except the one for the duration.
#[tokio::test]
async fn the_api_server_stores_the_defaults() {
    let server = server::start().await;
    let ticket = json!({ "resources": { "requests": { "cpu": "1" } } });
    let stored = server
        .stored(&corpus::object(Custom::Order, "default", json!({ "template": { "spec": ticket } })))
        .await;
    let expected = json!({
        "paused": false, "replicas": 1, "daemonSet": false, "minReadySeconds": 0,
        "strategy": { "type": "OneTime", "timeZone": "UTC", "refreshPolicy": "OnClaim" },
        "template": { "spec": {
            "lifecycle": { "ttlSecondsAfterFinished": 3600, "cleanupPolicy": "Delete" },
            "resources": { "requests": { "cpu": "1" } },
        } },
    });
    assert_eq!(stored["spec"], expected);
}

#[tokio::test]
async fn kubectl_explains_orders_and_tickets_and_shows_their_columns() {
    let server = server::start().await;
    let explained = server.kubectl(&["explain", "ticket.spec.duration"]);
    assert!(explained.contains("Defaults to 24h"), "{explained}");

    let object = |custom: Custom| {
        let mut all = valid(RESERVATION).into_iter().map(|(_, object)| object);
        all.find(|object| object["kind"] == custom.kind()).unwrap()
    };
    server.create_with_status(
        &object(Custom::Order),
        json!({
            "mode": "DaemonSet", "desiredReplicas": 3, "availableReplicas": 2, "claimedReplicas": 1,
            "nextScheduleTime": "2030-01-01T06:00:00Z",
        }),
    );
    let shown = server.kubectl(&["get", "orders", "--namespace", "default"]);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words[..7], ["NAME", "MODE", "DESIRED", "READY", "CLAIMED", "NEXT", "AGE"], "{shown}");
    let row = "DaemonSet   3         2       1         2030-01-01T06:00:00Z";
    assert!(shown.contains(row), "{shown}");

    server.create_with_status(
        &object(Custom::Ticket),
        json!({
            "phase": "Claimed", "nodeName": "node-1", "podName": "agent-x", "podUID": "u",
            "expirationTime": "2030-01-01T06:00:00.123Z", "expires": "2030-01-01T06:00:00Z",
        }),
    );
    let shown = server.kubectl(&["get", "tickets", "--namespace", "default"]);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words[..6], ["NAME", "PHASE", "NODE", "CLAIMED-BY", "EXPIRES", "AGE"], "{shown}");
    let row = "Claimed   node-1   agent-x      2030-01-01T06:00:00Z";
    assert!(shown.contains(row), "{shown}");
}
