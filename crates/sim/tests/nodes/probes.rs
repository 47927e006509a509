//! Probes, in virtual time.

use super::world::{World, annotations, both, pod_key};
use serde_json::{Value, json};

fn probed(mut probes: Value) -> Value {
    for probe in probes.as_object_mut().into_iter().flatten().map(|(_, probe)| probe) {
        probe["exec"] = json!({ "command": ["ask"] });
    }
    let mut container = json!({ "name": "app", "image": "x" });
    super::world::merge(&mut container, probes);
    json!({ "spec": { "containers": [container] } })
}

#[tokio::test(start_paused = true)]
async fn readiness_startup_and_liveness() {
    let world = World::with_nodes(&["n1"]).await;
    let readiness = json!({ "readinessProbe": { "periodSeconds": 5, "initialDelaySeconds": 3 } });
    world.pod("asked-late", probed(readiness.clone()));
    world.pod("answers-late", both(probed(readiness), annotations(&[("ready-after", "12s")])));
    let startup =
        json!({ "startupProbe": { "periodSeconds": 4, "failureThreshold": 5 }, "readinessProbe": {} });
    world.pod("starts-slowly", both(probed(startup.clone()), annotations(&[("ready-after", "10s")])));
    world.pod("never-starts", both(probed(startup), annotations(&[("ready-after", "1h")])));
    let liveness = json!({ "livenessProbe": { "periodSeconds": 10, "failureThreshold": 2 } });
    world.pod("hangs", both(probed(liveness.clone()), annotations(&[("app.hang-after", "30s")])));
    world.pod("too-impatient", both(probed(liveness), annotations(&[("ready-after", "1h")])));
    world.run(50.0).await;

    let created = ["0 Pending", "0 Pending app:ContainerCreating"];
    let expect = |name: &str, lines: &[&str]| world.expect(name, &[&created[..], lines].concat());
    expect("asked-late", &["1 Running app:runs", "6 Running app:runs ready"]);
    expect("answers-late", &["1 Running app:runs", "16 Running app:runs ready"]);
    // Probed at 4, 8 and 12, counted from when the kubelet saw the pod; ready as soon as it has started.
    expect("starts-slowly", &["1 Running app:starts", "12 Running app:runs ready"]);
    // The probes at 4, 8, 12, 16 and 20 fail; killed within a second, and restarted immediately.
    let seen = world.seen("never-starts");
    assert_eq!(seen[2..4], ["1 Running app:starts", "21 Running app:starts/1"]);
    // Hangs at 31: the probes at 40 and 50 fail.
    expect("hangs", &["1 Running app:runs ready"]);
    world.run(3.0).await;
    expect("hangs", &["1 Running app:runs ready", "51 Running app:runs/1 ready"]);
    // The probes at 10 and 20 fail.
    let seen = world.seen("too-impatient");
    assert_eq!(seen[2..4], ["1 Running app:runs", "21 Running app:runs/1"]);
}

#[tokio::test(start_paused = true)]
async fn killed_again_and_again() {
    let world = World::with_nodes(&["n1"]).await;
    let liveness = json!({ "livenessProbe": { "periodSeconds": 1, "failureThreshold": 1 } });
    world.pod("hangs", both(probed(liveness), annotations(&[("app.hang-after", "2s")])));
    world.run(21.0).await;
    // Killed a second after it hangs. The first two restarts follow immediately.
    world.expect(
        "hangs",
        &[
            "0 Pending",
            "0 Pending app:ContainerCreating",
            "1 Running app:runs ready",
            "4 Running app:runs/1 ready",
            "7 Running app:runs/2 ready",
            "10 Running app:CrashLoopBackOff/2",
            "20 Running app:runs/3 ready",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_gates() {
    let world = World::with_nodes(&["n1"]).await;
    world.pod("gated", json!({ "spec": { "readinessGates": [{ "conditionType": "example.com/lb" }] } }));
    world.run(5.0).await;
    let pod = world.get(&pod_key("gated")).expect("the object exists");
    let ready =
        pod["status"]["conditions"].as_array().and_then(|all| all.iter().find(|is| is["type"] == "Ready"));
    let message = "corresponding condition of pod readiness gate \"example.com/lb\" does not exist.";
    assert_eq!(ready.map(|ready| &ready["message"]), Some(&json!(message)));
    world
        .change(|cluster| {
            cluster.update_status(&pod_key("gated"), |pod| {
                let condition = json!({ "type": "example.com/lb", "status": "True" });
                rollcall_sim::server::pods::set_condition(&mut pod["status"], condition);
            })
        })
        .expect("the update succeeds");
    world.run(1.0).await;
    world.expect(
        "gated",
        &["0 Pending", "0 Pending app:ContainerCreating", "1 Running app:runs", "5 Running app:runs ready"],
    );
}
