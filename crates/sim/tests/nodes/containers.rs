//! Containers: order of start, ends and restarts.

use super::world::{World, annotations, both};
use serde_json::{Value, json};

/// A pod, the observation time, and the expected observations.
struct Case {
    name: &'static str,
    pod: Value,
    seconds: f64,
    seen: &'static [&'static str],
}

async fn check(cases: Vec<Case>) {
    for Case { name, pod, seconds, seen } in cases {
        let world = World::with_nodes(&["n1"]).await;
        world.pod(name, pod);
        world.run(seconds).await;
        world.expect(name, seen);
    }
}

fn policy(policy: &str) -> Value {
    json!({ "spec": { "restartPolicy": policy } })
}

fn containers(names: &[&str]) -> Value {
    let list: Vec<Value> = names.iter().map(|name| json!({ "name": name, "image": "x" })).collect();
    json!({ "spec": { "containers": list } })
}

fn inits(list: Value) -> Value {
    json!({ "spec": { "initContainers": list } })
}

fn init(name: &str) -> Value {
    json!({ "name": name, "image": "x" })
}

fn sidecar(name: &str) -> Value {
    json!({ "name": name, "image": "x", "restartPolicy": "Always" })
}

#[tokio::test(start_paused = true)]
async fn pods_that_start_and_end() {
    let job = json!({ "metadata": { "ownerReferences": [
        { "apiVersion": "example.com/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true } ] } });
    check(vec![
        Case {
            name: "plain",
            pod: json!({}),
            seconds: 100.0,
            seen: &["0 Pending", "0 Pending app:ContainerCreating", "1 Running app:runs ready"],
        },
        Case {
            name: "slow-to-start",
            pod: annotations(&[("start-after", "7s")]),
            seconds: 100.0,
            seen: &["0 Pending", "0 Pending app:ContainerCreating", "7 Running app:runs ready"],
        },
        Case {
            name: "slow-to-be-ready",
            pod: annotations(&[("start-after", "2s"), ("ready-after", "1m")]),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "2 Running app:runs",
                "62 Running app:runs ready",
            ],
        },
        Case {
            name: "never-ready",
            pod: annotations(&[("never-ready", "true")]),
            seconds: 100.0,
            seen: &["0 Pending", "0 Pending app:ContainerCreating", "1 Running app:runs"],
        },
        Case {
            name: "said-to-be-ready",
            pod: annotations(&[("never-ready", "true"), ("ready", "true")]),
            seconds: 100.0,
            seen: &["0 Pending", "0 Pending app:ContainerCreating", "1 Running app:runs ready"],
        },
        Case {
            name: "completes",
            pod: annotations(&[("ready-after", "2s"), ("complete-after", "3s")]),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs",
                "3 Running app:runs ready",
                "6 Succeeded app:exit0",
            ],
        },
        Case {
            name: "fails-though-it-would-be-restarted",
            pod: annotations(&[("fail-after", "3s")]),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "4 Failed app:exit1",
            ],
        },
        Case {
            name: "fails-and-was-never-ready",
            pod: annotations(&[("fail-after", "3s"), ("never-ready", "true")]),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs",
                "4 Failed app:exit1",
            ],
        },
        Case {
            name: "of-a-job",
            pod: both(job.clone(), policy("Never")),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "2 Succeeded app:exit0",
            ],
        },
        Case {
            name: "two-containers-at-their-own-pace",
            pod: both(
                containers(&["fast", "slow"]),
                annotations(&[("slow.start", "3s"), ("slow.ready-after", "2s")]),
            ),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending fast:ContainerCreating slow:ContainerCreating",
                "1 Pending fast:runs slow:ContainerCreating",
                "3 Running fast:runs slow:runs",
                "5 Running fast:runs slow:runs ready",
            ],
        },
        Case {
            name: "past-its-deadline",
            pod: json!({ "spec": { "activeDeadlineSeconds": 10 } }),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "11 Failed DeadlineExceeded app:exit0",
            ],
        },
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn containers_that_exit() {
    check(vec![
        Case {
            name: "exits-well-and-is-restarted",
            pod: annotations(&[("app.exit-after", "5s"), ("app.exit-times", "1")]),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "6 Running app:exit0",
                "7 Running app:runs/1 ready",
            ],
        },
        Case {
            name: "crash-loops",
            pod: annotations(&[("app.exit-after", "1s"), ("app.exit-code", "3")]),
            seconds: 160.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "2 Running app:exit3",
                "3 Running app:runs/1 ready",
                "4 Running app:exit3/1",
                "14 Running app:CrashLoopBackOff/1",
                "14.1 Running app:runs/2 ready",
                "15.1 Running app:exit3/2",
                "35.1 Running app:CrashLoopBackOff/2",
                "35.2 Running app:runs/3 ready",
                "36.2 Running app:exit3/3",
                "76.2 Running app:CrashLoopBackOff/3",
                "76.3 Running app:runs/4 ready",
                "77.3 Running app:exit3/4",
                // A back-off of more than a minute becomes visible after a minute.
                "137.3 Running app:CrashLoopBackOff/4",
                "157.3 Running app:runs/5 ready",
                "158.3 Running app:exit3/5",
            ],
        },
        Case {
            name: "fails-for-good",
            pod: both(policy("Never"), annotations(&[("app.exit-after", "1s"), ("app.exit-code", "3")])),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "2 Running app:exit3",
                "3 Failed app:exit3",
            ],
        },
        Case {
            name: "fails-once-then-succeeds",
            pod: both(
                policy("OnFailure"),
                annotations(&[
                    ("app.exit-after", "1s"),
                    ("app.exit-code", "1"),
                    ("app.exit-times", "1"),
                    ("complete-after", "4s"),
                ]),
            ),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "2 Running app:exit1",
                "3 Running app:runs/1 ready",
                "7 Succeeded app:exit0/1",
            ],
        },
        Case {
            name: "on-failure-and-no-failure",
            pod: both(policy("OnFailure"), annotations(&[("app.exit-after", "4s")])),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending app:ContainerCreating",
                "1 Running app:runs ready",
                "5 Running app:exit0",
                "6 Succeeded app:exit0",
            ],
        },
        Case {
            name: "one-of-two-ends",
            pod: both(
                policy("Never"),
                both(
                    containers(&["a", "b"]),
                    annotations(&[("a.exit-after", "2s"), ("b.exit-after", "9s"), ("b.exit-code", "2")]),
                ),
            ),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending a:ContainerCreating b:ContainerCreating",
                "1 Running a:runs b:runs ready",
                "3 Running a:exit0 b:runs",
                "10 Running a:exit0 b:exit2",
                "11 Failed a:exit0 b:exit2",
            ],
        },
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_and_sidecars() {
    check(vec![
        Case {
            name: "one-after-the-other",
            pod: both(inits(json!([init("one"), init("two")])), annotations(&[("two.exit-after", "4s")])),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending one:PodInitializing two:PodInitializing app:PodInitializing",
                "1 Pending one:runs two:PodInitializing app:PodInitializing",
                "2 Pending one:exit0 two:PodInitializing app:PodInitializing",
                "3 Pending one:exit0 two:runs app:PodInitializing",
                "7 Pending one:exit0 two:exit0 app:PodInitializing",
                "8 Running one:exit0 two:exit0 app:runs ready",
            ],
        },
        Case {
            name: "fails-twice",
            pod: both(inits(json!([init("one")])), annotations(&[("one.exit-code", "1"), ("one.exit-times", "2"), ("one.exit-after", "1s")])),
            seconds: 40.0,
            seen: &[
                "0 Pending",
                "0 Pending one:PodInitializing app:PodInitializing",
                "1 Pending one:runs app:PodInitializing",
                "2 Pending one:exit1 app:PodInitializing",
                "3 Pending one:runs/1 app:PodInitializing",
                "4 Pending one:exit1/1 app:PodInitializing",
                "14 Pending one:CrashLoopBackOff/1 app:PodInitializing",
                "14.1 Pending one:runs/2 app:PodInitializing",
                "15.1 Pending one:exit0/2 app:PodInitializing",
                "16.1 Running one:exit0/2 app:runs ready",
            ],
        },
        Case {
            name: "fails-and-that-was-it",
            pod: both(policy("Never"), both(inits(json!([init("one")])), annotations(&[("one.exit-code", "1")]))),
            seconds: 40.0,
            seen: &[
                "0 Pending",
                "0 Pending one:PodInitializing app:PodInitializing",
                "1 Pending one:runs app:PodInitializing",
                "2 Pending one:exit1 app:PodInitializing", "3 Failed one:exit1 app:PodInitializing",
            ],
        },
        Case {
            name: "sidecar-first",
            pod: inits(json!([sidecar("side"), init("one")])),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending side:PodInitializing one:PodInitializing app:PodInitializing",
                "1 Pending side:runs one:PodInitializing app:PodInitializing",
                "2 Pending side:runs one:runs app:PodInitializing",
                "3 Pending side:runs one:exit0 app:PodInitializing",
                "4 Running side:runs one:exit0 app:runs ready",
            ],
        },
        Case {
            name: "sidecar-with-a-startup-probe",
            pod: both(
                inits(json!([{ "name": "side", "image": "x", "restartPolicy": "Always", "startupProbe": { "periodSeconds": 2, "exec": { "command": ["ask"] } } }])),
                annotations(&[("side.ready-after", "4s")]),
            ),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending side:PodInitializing app:PodInitializing",
                "1 Pending side:starts app:PodInitializing",
                "6 Pending side:runs app:PodInitializing",
                "7 Running side:runs app:runs ready",
            ],
        },
        Case {
            name: "sidecar-ends-after-the-work",
            pod: both(policy("Never"), both(inits(json!([sidecar("side")])), annotations(&[("app.exit-after", "5s"), ("side.stop", "2s")]))),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending side:PodInitializing app:PodInitializing",
                "1 Pending side:runs app:PodInitializing",
                "2 Running side:runs app:runs ready",
                "7 Running side:runs app:exit0",
                "9 Running side:exit0 app:exit0", "10 Succeeded side:exit0 app:exit0",
            ],
        },
        Case {
            name: "sidecar-is-restarted-whatever-the-policy",
            pod: both(policy("Never"), both(inits(json!([sidecar("side")])), annotations(&[("side.exit-after", "5s"), ("side.exit-code", "1"), ("side.exit-times", "1")]))),
            seconds: 100.0,
            seen: &[
                "0 Pending",
                "0 Pending side:PodInitializing app:PodInitializing",
                "1 Pending side:runs app:PodInitializing",
                "2 Running side:runs app:runs ready",
                "6 Running side:exit1 app:runs",
                "7 Running side:runs/1 app:runs ready",
            ],
        },
    ])
    .await;
}
