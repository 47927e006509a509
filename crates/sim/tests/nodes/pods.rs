//! Pods: missing dependencies, changes while they run, deletion, and status.

use super::world::{World, annotations, both, pod_key};
use rollcall_sim::kinds::Kind;
use rollcall_sim::plan::Selector;
use rollcall_sim::program_behaviour::{BehaviourRule, PodFilter, ProgramBehaviour};
use serde_json::{Value, json};

fn env_of(kind: &str, name: &str, key: &str, optional: bool) -> Value {
    let from = json!({ kind: { "name": name, "key": key, "optional": optional } });
    json!({ "spec": { "containers": [
        { "name": "app", "image": "x", "env": [{ "name": "A", "valueFrom": from }] } ] } })
}

fn message(world: &World, pod: &str) -> Value {
    world.get(&pod_key(pod)).expect("the object exists")["status"]["containerStatuses"][0]["state"]["waiting"]
        ["message"]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_missing() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("nudged", env_of("configMapKeyRef", "go", "first", false));
    world.pod("patient", env_of("configMapKeyRef", "go", "first", false));
    world.pod("indifferent", env_of("secretKeyRef", "none", "k", true));
    world.pod("secretive", env_of("secretKeyRef", "none", "k", false));
    world.run(2.0).await;
    assert_eq!(message(&world, "nudged"), "configmap \"go\" not found");
    assert_eq!(message(&world, "secretive"), "secret \"none\" not found");
    world
        .create(Kind::ConfigMap, json!({ "metadata": { "name": "go", "namespace": "default" }, "data": {} }));
    world.annotate(&pod_key("nudged"), "nudge", "1".into());
    world.run(1.0).await;
    assert_eq!(message(&world, "nudged"), "couldn't find key first in ConfigMap default/go");
    let map = rollcall_sim::store::Key::new(Kind::ConfigMap, "default", "go");
    world.update(&map, |map| map["data"]["first"] = "x".into());
    world.annotate(&pod_key("nudged"), "nudge", "2".into());
    world.run(60.0).await;
    world.expect(
        "nudged",
        &[
            "0 Pending",
            "0 Pending app:ContainerCreating",
            "1 Pending app:CreateContainerConfigError",
            "3 Running app:runs ready",
        ],
    );
    world
        .expect("indifferent", &["0 Pending", "0 Pending app:ContainerCreating", "1 Running app:runs ready"]);
    // Without a nudge, the retry follows 10 to 15 seconds after the last attempt.
    let seen = world.seen("patient");
    let (at, what) = seen.last().and_then(|last| last.split_once(' ')).expect("it was seen");
    let at: f64 = at.parse().expect("a time");
    assert!(what == "Running app:runs ready" && (11.0..=16.0).contains(&at), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn volumes_that_are_missing() {
    let world = World::with_nodes(&["n1"]).await;
    let volume = |source: Value| {
        let mut volume = json!({ "name": "v" });
        super::world::merge(&mut volume, source);
        json!({ "spec": { "volumes": [volume], "containers": [
            { "name": "app", "image": "x", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] } ] } })
    };
    world.pod("waits", volume(json!({ "configMap": { "name": "later" } })));
    world.pod("optional", volume(json!({ "secret": { "secretName": "none", "optional": true } })));
    world.run(2.0).await;
    world.create(
        Kind::ConfigMap,
        json!({ "metadata": { "name": "later", "namespace": "default" }, "data": {} }),
    );
    world.run(30.0).await;
    // Attempts at 0, 0.5, 1.5 and 3.5.
    world.expect("waits", &["0 Pending", "0 Pending app:ContainerCreating", "4.5 Running app:runs ready"]);
    world.expect("optional", &["0 Pending", "0 Pending app:ContainerCreating", "1 Running app:runs ready"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_pods() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("plain", json!({}));
    world.pod("slow", annotations(&[("slow-delete", "5s")]));
    world.pod(
        "deaf",
        both(annotations(&[("app.stop", "1h")]), json!({ "spec": { "terminationGracePeriodSeconds": 8 } })),
    );
    world.pod(
        "with-sidecars",
        json!({ "spec": { "initContainers": [
        { "name": "one", "image": "x", "restartPolicy": "Always" },
        { "name": "two", "image": "x", "restartPolicy": "Always" },
    ] } }),
    );
    world.pod("not-started", annotations(&[("start-after", "1h")]));
    world.run(10.0).await;
    for name in ["plain", "slow", "deaf", "with-sidecars", "not-started"] {
        world.delete(&pod_key(name));
    }
    world.run(60.0).await;
    let running = [
        "0 Pending",
        "0 Pending app:ContainerCreating",
        "1 Running app:runs ready",
        "10 Running app:runs ready terminating",
    ];
    world.expect("plain", &[&running[..], &["11 Succeeded app:exit0 terminating", "11 gone"]].concat());
    world.expect("slow", &[&running[..], &["15 Succeeded app:exit0 terminating", "15 gone"]].concat());
    world.expect("deaf", &[&running[..], &["18 Failed app:exit137 terminating", "18 gone"]].concat());
    let sidecars = world.seen("with-sidecars");
    assert_eq!(
        sidecars[sidecars.len() - 2..],
        ["13 Succeeded one:exit0 two:exit0 app:exit0 terminating".to_owned(), "13 gone".to_owned()]
    );
    world.expect(
        "not-started",
        &[
            "0 Pending",
            "0 Pending app:ContainerCreating",
            "10 Pending app:ContainerCreating terminating",
            "10 Failed app:exit137 terminating",
            "10 gone",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_that_change() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("moody", annotations(&[("never-ready", "true")]));
    world.run(5.0).await;
    world.annotate(&pod_key("moody"), "never-ready", "false".into());
    world.run(5.0).await;
    world.annotate(&pod_key("moody"), "ready", "false".into());
    world.run(5.0).await;
    world.annotate(&pod_key("moody"), "ready", Value::Null);
    world.run(5.0).await;
    world.expect(
        "moody",
        &[
            "0 Pending",
            "0 Pending app:ContainerCreating",
            "1 Running app:runs",
            "5 Running app:runs ready",
            "10 Running app:runs",
            "15 Running app:runs ready",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn rules_of_the_cluster() {
    let world = World::with_nodes(&["n1"]).await;
    let seconds = jiff::SignedDuration::from_secs;
    world.change(|cluster| {
        let named = |pattern: &str| PodFilter::Selected(Selector::named(pattern));
        let slow =
            BehaviourRule { pods: named("db-*"), ready_after: Some(seconds(9)), ..BehaviourRule::default() };
        let broken = BehaviourRule {
            pods: named("web-*"),
            fail_after: Some(seconds(2)),
            times: Some(1),
            ..BehaviourRule::default()
        };
        cluster.programs =
            ProgramBehaviour { start: seconds(3), rules: vec![slow, broken], ..ProgramBehaviour::default() };
    });
    world.pod("db-0", json!({}));
    world.pod("web-0", json!({}));
    world.run(60.0).await;
    world.expect(
        "db-0",
        &["0 Pending", "0 Pending app:ContainerCreating", "3 Running app:runs", "12 Running app:runs ready"],
    );
    world.expect(
        "web-0",
        &[
            "0 Pending",
            "0 Pending app:ContainerCreating",
            "3 Running app:runs ready",
            "5 Running app:exit1",
            "6 Running app:runs/1 ready",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_as_a_kubelet_writes_it() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod(
        "whole",
        both(
            json!({ "spec": { "initContainers": [{ "name": "one", "image": "x" }] } }),
            annotations(&[("ready-after", "5s")]),
        ),
    );
    world.run(2.5).await;
    let status = world.get(&pod_key("whole")).expect("the object exists")["status"].clone();
    let conditions: Vec<(&str, &str, Option<&str>, Option<&str>)> = status["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .map(|is| {
            let text = |field: &str| is[field].as_str();
            (
                text("type").unwrap_or_default(),
                text("status").unwrap_or_default(),
                text("reason"),
                text("message"),
            )
        })
        .collect();
    let unready = Some("containers with unready status: [app]");
    assert_eq!(
        conditions,
        [
            ("PodReadyToStartContainers", "True", None, None),
            ("Initialized", "True", None, None),
            ("Ready", "False", Some("ContainersNotReady"), unready),
            ("ContainersReady", "False", Some("ContainersNotReady"), unready),
            ("PodScheduled", "True", None, None),
        ]
    );
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["startTime"], "2026-01-01T00:00:01Z");
    assert_eq!((&status["hostIP"], &status["podIPs"][0]["ip"]), (&json!("127.0.0.1"), &status["podIP"]));
    let init = &status["initContainerStatuses"][0];
    assert_eq!((&init["ready"], &init["state"]["terminated"]["reason"]), (&json!(true), &json!("Completed")));
    world.run(60.0).await;
    let status = world.get(&pod_key("whole")).expect("the object exists")["status"].clone();
    let ready = status["conditions"].as_array().and_then(|all| all.iter().find(|is| is["type"] == "Ready"));
    let ready = ready.expect("the object exists");
    assert_eq!(
        (&ready["status"], &ready["lastTransitionTime"]),
        (&json!("True"), &json!("2026-01-01T00:00:09Z"))
    );
}

/// As recorded on a real kubelet 1.36.4.
#[tokio::test(start_paused = true)]
async fn every_step_of_a_pod() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("plain", json!({}));
    let never = json!({ "spec": { "restartPolicy": "Never" } });
    world.pod("never", both(never, annotations(&[("app.exit-after", "1s"), ("app.exit-code", "3")])));
    world.run(10.0).await;
    world.delete(&pod_key("plain"));
    world.run(10.0).await;
    let start = [
        "Pending",
        "Pending P0",
        "Pending s1 I1 r1 c1 P1",
        "Pending S1 I1 r1 c1 P1",
        "Running S1 I1 R1 C1 P1 ip",
    ];
    let end = [
        "Running S1 I1 R1 C1 P1 ip grace30",
        "Running S2 I2 R2 C2 P2 ip grace30",
        "Succeeded s2 I2 r2 c2 P2 ip grace30",
        "Succeeded s2 I2 r2 c2 P2 ip grace0",
        "gone",
    ];
    assert_eq!(world.trail("plain"), [start, end].concat());
    let end = ["Running S1 I1 r1 c1 P1 ip", "Failed s1 I1 r1 c1 P1 ip"];
    assert_eq!(world.trail("never"), [&start[..], &end].concat());
}
