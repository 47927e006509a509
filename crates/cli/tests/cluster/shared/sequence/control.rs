//! Settings of a spec that determine when a group opens.

use jiff::{SignedDuration, Timestamp};

use crate::common::make::{named, pod, sequence};
use crate::common::*;

/// Parses a time in a status.
fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is not a time"))
}

#[tokio::test]
async fn the_settle_time_is_waited() -> Result<()> {
    const WAIT: SignedDuration = SignedDuration::from_secs(2);
    let scene = Scene::new("settle").await?;
    let first = named("first", &["a"]).with(json!({"waitDuration": "2s"}));
    scene.sequence("s", &[first, named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    let settling =
        |status: &Value| status["message"].as_str().is_some_and(|text| text.contains("waitDuration ends"));
    let status = scene.status("s", "settling", settling).await?;
    assert_eq!(status["groups"][0]["state"], "Complete");
    assert_eq!(status["groups"][1]["state"], "Waiting");
    let status = scene.phase("s", "Completed").await?;
    let waited =
        time(&status["groups"][1]["openedAt"]).duration_since(time(&status["groups"][0]["completedAt"]));
    assert!(waited >= WAIT, "{waited:?}");

    // The settle time is checked not only in the controller's message, but also in the audit log: from readiness to release.
    let events = scene.lab.audited(&scene.namespace)?;
    let find = |pod: &str, wanted: &dyn Fn(&Value) -> bool| {
        let versions = events.iter().filter(|event| event.is_committed() && event.name == pod);
        versions.filter(|event| wanted(&event.response_object)).map(|event| event.stage_time).min()
    };
    let ready = find("a", &scene::is_ready).expect("a became ready");
    let released =
        find("b", &|pod| pod["kind"] == "Pod" && !scene::has_gate(pod, GATE)).expect("b was released");
    assert!(released.duration_since(ready) >= WAIT, "{ready} {released}");
    scene.done().await
}

#[tokio::test]
async fn a_timeout_fails_until_the_group_arrives_after_all() -> Result<()> {
    let scene = Scene::new("timeout").await?;
    let first = named("first", &["a"]).with(json!({"timeout": "500ms"}));
    scene.sequence("s", &[first, named("second", &["b"])]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b"]).await?;
    let stalled = scene.condition("s", "Stalled", "True", "Timeout").await?;
    assert!(stalled["message"].as_str().is_some_and(|text| text.contains("0 of 1")), "{stalled}");
    let status = scene.phase("s", "Failed").await?;
    assert_eq!(status["groups"][0]["state"], "TimedOut");
    scene.stays_held(&["b"]).await?;
    let (reason, _) = scene.event("s", "timed out after 0.5s").await?;
    assert_eq!(reason, "Timeout");
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.condition("s", "Stalled", "False", "NotStalled").await?;
    scene.done().await
}

#[tokio::test]
async fn a_timeout_can_be_passed() -> Result<()> {
    let scene = Scene::new("passed").await?;
    let first = named("first", &["a"]).with(json!({"timeout": "500ms", "onTimeout": "Continue"}));
    scene.sequence("s", &[first, named("second", &["b"])]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b"]).await?;
    scene.ready("b").await?;
    let status = scene.status("s", "timed out", |status| status["groups"][0]["state"] == "TimedOut").await?;
    assert_eq!(status["phase"], "InProgress");
    assert_eq!(status["currentIndex"], 0);
    let (reason, note) = scene.event("s", "the sequence continues").await?;
    assert_eq!(reason, "Timeout", "{note}");
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_suspended_sequence_releases_nothing() -> Result<()> {
    let scene = Scene::new("suspend").await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    scene.create(sequence("s", &groups).with(json!({"spec": {"suspend": true}}))).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b"]).await?;
    let suspended = scene.condition("s", "Suspended", "True", "Suspended").await?;
    assert!(suspended["message"].as_str().is_some_and(|text| text.contains("spec.suspend")), "{suspended}");
    scene.stays_held(&["a", "b"]).await?;
    scene.edit("s", json!({"suspend": false})).await?;
    scene.released("a").await?;

    // Suspended half-way: open groups stay open, and no other group opens.
    scene.edit("s", json!({"suspend": true})).await?;
    scene.condition("s", "Suspended", "True", "Suspended").await?;
    scene.make_ready("a").await?;
    scene.ready("a").await?;
    scene.stays_held(&["b"]).await?;
    scene.edit("s", json!({"suspend": false})).await?;
    scene.phase("s", "Completed").await?;
    scene.condition("s", "Suspended", "False", "NotSuspended").await?;
    scene.event("s", "timeouts start again from zero").await?;
    scene.done().await
}

#[tokio::test]
async fn resuming_starts_the_timeout_anew() -> Result<()> {
    let scene = Scene::new("anew").await?;
    // The first timeout expires while the sequence is suspended. The timeout after resuming is long enough for slow machines.
    let first = named("first", &["a"]).with(json!({"timeout": "700ms"}));
    scene.sequence("s", &[first]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.phase("s", "Failed").await?;
    scene.edit("s", json!({"suspend": true})).await?;
    let status = scene.status("s", "suspended", |status| status["phase"] != "Failed").await?;
    let opened = time(&status["groups"][0]["openedAt"]);
    let longer = named("first", &["a"]).with(json!({"timeout": "600s"}));
    scene.edit("s", json!({"suspend": false, "podGroups": [longer]})).await?;
    let status = scene.status("s", "resumed", |status| status["resumedAt"].is_string()).await?;
    assert_ne!(status["phase"], "Failed", "{status}");
    assert!(time(&status["resumedAt"]) > opened + SignedDuration::from_millis(700), "{status}");
    // The timeout is 700 ms again, counted from the resumption.
    let shorter = named("first", &["a"]).with(json!({"timeout": "700ms"}));
    scene.edit("s", json!({"podGroups": [shorter]})).await?;
    scene.phase("s", "Failed").await?;
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn groups_can_form_a_graph() -> Result<()> {
    let scene = Scene::new("graph").await?;
    let after = |names: &[&str]| json!({"dependsOn": names});
    let groups = [
        named("base", &["base"]),
        named("left", &["left"]).with(after(&["base"])),
        named("right", &["right"]).with(after(&["base"])),
        named("beside-right", &["beside"]).with(after(&["right"])),
        named("top", &["top"]).with(after(&["left", "right"])),
    ];
    scene.sequence("s", &groups).await?;
    scene.unready_pods(&["left"]).await?;
    scene.pods(&["base", "right", "beside", "top"]).await?;
    scene.ready("beside").await?;
    scene.stays_held(&["top"]).await?;
    let status = scene.blocked_by("s", "left", "NotReady").await?;
    assert_eq!(status["currentIndex"], 1);
    scene.make_ready("left").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_group_can_start_immediately() -> Result<()> {
    let scene = Scene::new("immediately").await?;
    let groups = [
        named("first", &["a"]),
        named("at-once", &["b"]).with(json!({"start": "Immediately"})),
        named("third", &["c"]),
    ];
    scene.sequence("s", &groups).await?;
    scene.unready_pods(&["a", "b"]).await?;
    scene.pods(&["c"]).await?;
    scene.released("b").await?;
    scene.stays_held(&["c"]).await?;
    // The third group waits only for the second.
    scene.make_ready("b").await?;
    scene.ready("c").await?;
    assert!(!scene::is_ready(&scene.get("Pod", "a").await?));
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn starts_at_once_are_limited() -> Result<()> {
    let scene = Scene::new("limit").await?;
    let names: Vec<String> = (0..8).map(|n| format!("p-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let storm = named("storm", &names).with(json!({"maxConcurrentStarts": 2}));
    scene.sequence("s", &[storm, named("late", &["late"])]).await?;
    // The first two pods do not become ready, so that the limit is observable.
    scene.unready_pods(&names[..2]).await?;
    scene.released(names[0]).await?;
    scene.released(names[1]).await?;
    scene.create_all(names[2..].iter().map(|name| pod(name).kwok("ready-after", "100ms"))).await?;
    scene.pods(&["late"]).await?;
    scene.stays_held(&names[2..]).await?;
    scene.make_ready(names[0]).await?;
    scene.make_ready(names[1]).await?;
    // `done` checks in the audit log that at most two pods started at the same time.
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_group_opened_by_hand_is_open() -> Result<()> {
    let scene = Scene::new("byhand").await?;
    let groups = [named("first", &["a"]), named("second", &["b"]), named("third", &["c"])];
    scene.sequence("s", &groups).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b", "c"]).await?;
    scene.released("a").await?;
    scene.stays_held(&["b", "c"]).await?;
    scene.annotate("PodSequence", "s", "podsequence.example.com/open-groups", Some("second")).await?;
    scene.ready("b").await?;
    let shown = |status: &Value| status["groups"][1]["openedByHand"] == true;
    scene.status("s", "which group was opened by hand", shown).await?;
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_pod_released_by_hand_is_not_out_of_order() -> Result<()> {
    let scene = Scene::new("podbyhand").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b"]).await?;
    scene.released("a").await?;
    let kubeconfig = scene.lab.cluster().kubeconfig();
    let mut release = std::process::Command::new(env!("CARGO_BIN_EXE_rollcall"));
    release
        .args(["release", "pod/b", "-n", &scene.namespace, "--reason", "tested"])
        .env("KUBECONFIG", kubeconfig);
    let output = release.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pod = scene.ready("b").await?;
    assert_eq!(pod["metadata"]["annotations"]["podsequence.example.com/released-reason"], "tested");
    scene.canary().await?;
    scene.condition("s", "OutOfOrder", "False", "InOrder").await?;
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn five_hundred_groups_are_possible() -> Result<()> {
    let scene = Scene::new("many").await?;
    let groups: Vec<Value> = (0..500).map(|n| named(&format!("group-{n}"), &[&format!("p-{n}")])).collect();
    scene.sequence("s", &groups).await?;
    scene.pods(&["p-0", "p-1", "p-2", "p-499"]).await?;
    scene.ready("p-2").await?;
    let status = scene.status("s", "the fourth group", |status| status["currentIndex"] == 3).await?;
    assert_eq!(status["summary"]["group"], "4/500 group-3");
    scene.stays_held(&["p-499"]).await?;
    scene.done().await
}
