//! Bad PodSequences get a clear answer, and good ones none: the cases in `cases/invalid` and `cases/valid`, judged by
//! a real API server with our definition and by `rollcall` without one; and what bad ones mean for others, with the
//! controller at work.

#[path = "../common/mod.rs"]
mod common;
mod corpus;
mod coverage;
mod neighbours;
mod server;

use corpus::{Case, invalid, valid};
use rollcall_api::sequence;
use serde_json::{Value, json};

#[test]
fn rollcall_refuses_what_is_bad_and_says_why() {
    for Case { name, bad, good, rollcall, .. } in invalid() {
        match sequence::parse_spec(&bad) {
            Ok(_) => panic!("{name}: the bad spec was accepted"),
            Err(invalid) => assert_eq!(invalid.to_string(), rollcall, "{name}"),
        }
        let good =
            sequence::parse_spec(&good).unwrap_or_else(|invalid| panic!("{name}: the good one: {invalid}"));
        sequence::validate(&good)
            .unwrap_or_else(|invalid| panic!("{name}: the good one, written again: {invalid}"));
    }
}

#[test]
fn rollcall_accepts_what_is_good() {
    for (name, object) in valid().into_iter().chain(largest()) {
        let spec =
            sequence::parse_spec(&object["spec"]).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        sequence::validate(&spec).unwrap_or_else(|invalid| panic!("{name}, written again: {invalid}"));
        assert_eq!(sequence::unknown_fields(&object["spec"]), [""; 0], "{name}");
    }
}

#[test]
fn every_bound_and_every_rule_of_the_definition_has_a_case() {
    let missing = coverage::missing(&invalid());
    assert!(missing.is_empty(), "no case in cases/invalid for:\n{}", missing.join("\n"));
}

#[tokio::test]
async fn the_api_server_refuses_what_is_bad_and_says_why() {
    let server = server::start().await;
    for Case { name, bad, good, field, message, .. } in invalid() {
        let causes = server.refusal(&corpus::object(&name, bad)).await;
        assert_eq!(causes, [(field, message)], "{name}");
        assert_eq!(server.refusal(&corpus::object(&name, good)).await, [], "{name}: the good one");
    }
}

#[tokio::test]
async fn the_api_server_accepts_what_is_good() {
    let server = server::start().await;
    for (name, object) in valid().into_iter().chain(largest()) {
        assert_eq!(server.refusal(&object).await, [], "{name}");
    }
}

#[tokio::test]
async fn kubectl_explains_and_shows_the_columns() {
    let server = server::start().await;
    let explained = server.kubectl(&["explain", "podseq.spec.podGroups.minReady"]);
    assert!(explained.contains("a number, or a percentage such as 50%"), "{explained}");

    let (_, object) = valid().swap_remove(0);
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

/// What costs the API server most: the greatest number of groups, with many dependencies, or with many labels.
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
    specs.into_iter().map(|(name, spec)| (name.to_owned(), corpus::object(name, spec))).collect()
}
