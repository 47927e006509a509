//! `simulate` with pods whose containers start in order.

use rollcall_sim::plan::{Given, NodePool, Origin, Plan};
use rollcall_sim::report::{Outcome, PodState, Report};
use serde_json::{Value, json};
use std::time::Duration;

fn simulate(object: Value) -> anyhow::Result<Report> {
    let origin = Origin { file: "launch.yaml".into(), line: 1 };
    rollcall_sim::simulate(Plan {
        objects: vec![Given { value: object, origin }],
        nodes: vec![NodePool { count: 1, capacity: Default::default() }],
        ready_after: Vec::new(),
        fail: Vec::new(),
        at: Vec::new(),
        seed: 1,
        until: Duration::from_secs(3600),
    })
}

fn spec(priorities: &[(&str, Option<&str>)]) -> Value {
    let container = |(name, priority): &(&str, Option<&str>)| {
        let variable = |value| json!({ "name": "KRUISE_CONTAINER_LAUNCH_PRIORITY", "value": value });
        let env: Vec<Value> = priority.iter().map(variable).collect();
        json!({ "name": name, "image": "example/main:1", "env": env })
    };
    json!({ "containers": priorities.iter().map(container).collect::<Vec<_>>() })
}

fn pod(spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" }, "spec": spec })
}

#[test]
fn each_rank_is_held_until_the_one_above_is_ready() {
    let report = simulate(pod(spec(&[("main", None), ("log", Some("2")), ("proxy", Some("-1"))])));
    let report = report.expect("it can be simulated");
    assert_eq!(report.outcome, Outcome::Complete);
    let ranks = &report.pods[0].ranks;
    let named: Vec<(i32, &str)> = ranks.iter().map(|rank| (rank.priority, &*rank.containers[0])).collect();
    assert_eq!(named, [(2, "log"), (0, "main"), (-1, "proxy")]);
    let ready = |place: usize| {
        let ready = ranks[place].spans.iter().find(|span| span.state == PodState::Ready);
        ready.expect("it is ready in the end").from
    };
    for (place, rank) in ranks.iter().enumerate().skip(1) {
        let starts = rank.spans.iter().find(|span| span.state != PodState::Held).expect("it starts");
        assert!(starts.from >= ready(place - 1), "rank {}: {:?}", rank.priority, rank.spans);
        assert_eq!(rank.spans[0].state, PodState::Held);
    }
}

#[test]
fn who_has_no_order_has_no_ranks() {
    let report = simulate(pod(spec(&[("main", None), ("log", None)]))).expect("it can be simulated");
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["pods"][0].get("ranks"), None);
}

/// Messages are the same as in a real cluster, both for bare pods and for pods of workloads.
#[test]
fn what_admission_refuses_is_refused_here() {
    let wrong = spec(&[("main", None), ("log", Some("1.5"))]);
    let words = "container \"log\": KRUISE_CONTAINER_LAUNCH_PRIORITY is \"1.5\"; expected an integer";
    let refused = simulate(pod(wrong.clone())).expect_err("it is refused");
    assert!(format!("{refused:#}").contains(words), "{refused:#}");
    let labels = json!({ "app": "web" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": wrong } },
    });
    let report = simulate(deployment).expect("the Deployment itself is right");
    assert_eq!(report.outcome, Outcome::Stuck);
    assert!(report.never.iter().any(|never| never.why.sentence.contains(words)), "{:?}", report.never);
}
