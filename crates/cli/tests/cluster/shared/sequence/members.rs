//! Membership of groups, and expected numbers of members.

use crate::common::make::{named, pod, selected, sequence};
use crate::common::*;

#[tokio::test]
async fn groups_open_one_after_the_other() -> Result<()> {
    let scene = Scene::new("basic").await?;
    let groups = [named("database", &["db"]), named("app", &["app-1", "app-2"]), named("front", &["front"])];
    scene.sequence("shop", &groups).await?;
    scene.unready_pods(&["db", "app-1", "app-2"]).await?;
    scene.pods(&["front"]).await?;
    scene.released("db").await?;
    scene.stays_held(&["app-1", "app-2", "front"]).await?;
    scene.make_ready("db").await?;
    scene.released("app-1").await?;
    scene.released("app-2").await?;
    scene.make_ready("app-1").await?;
    scene.ready("app-1").await?;
    scene.stays_held(&["front"]).await?;
    scene.make_ready("app-2").await?;
    let status = scene.phase("shop", "Completed").await?;
    assert_eq!(status["currentIndex"], 3);
    assert_eq!(status["readyPodsInCurrentGroup"], 0);
    assert!(status["currentGroupPods"].as_array().is_none_or(Vec::is_empty), "{status}");
    assert_eq!(status["processedPods"], json!(["db", "app-1", "app-2", "front"]));
    scene.done().await
}

#[tokio::test]
async fn names_that_appear_late_are_waited_for() -> Result<()> {
    let scene = Scene::new("late").await?;
    scene.sequence("s", &[named("first", &["a", "b"]), named("second", &["c"])]).await?;
    scene.pods(&["a", "c"]).await?;
    scene.ready("a").await?;
    scene.stays_held(&["c"]).await?;
    let status = scene.blocked_by("s", "b", "NotCreated").await?;
    assert_eq!(status["phase"], "InProgress");
    assert_eq!(status["groups"][0]["expected"], 2);
    scene.held(&["c"]).await?;
    scene.pods(&["b"]).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn replacements_after_completion_start_at_once() -> Result<()> {
    let scene = Scene::new("replaced").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.pods(&["a", "b"]).await?;
    scene.phase("s", "Completed").await?;
    let old = scene.get("Pod", "b").await?["metadata"]["uid"].clone();
    for name in ["a", "b"] {
        scene.delete_and_wait("Pod", name).await?;
    }
    // With enforcement Bootstrap, replacements do not wait for the first group again.
    scene.pods(&["b"]).await?;
    let new = scene.ready("b").await?;
    assert_ne!(new["metadata"]["uid"], old);
    scene.pods(&["a"]).await?;
    scene.ready("a").await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["currentIndex"], 2);
    scene.done().await
}

#[tokio::test]
async fn every_operator_of_a_selector_selects() -> Result<()> {
    let scene = Scene::new("operators").await?;
    let group = |name: &str, expressions: Value| json!({"name": name, "expected": 1, "podSelector": {"matchExpressions": expressions}});
    let tier =
        |operator: &str, values: &[&str]| json!({"key": "tier", "operator": operator, "values": values});
    let sort = |operator: &str| json!({"key": "sort", "operator": operator});
    let groups = [
        group("in", json!([tier("In", &["a", "b"])])),
        group("not-in", json!([tier("NotIn", &["a", "c"]), sort("Exists")])),
        group("exists", json!([tier("Exists", &[]), sort("Exists")])),
        group("absent", json!([sort("DoesNotExist"), {"key": "last", "operator": "Exists"}])),
    ];
    scene.sequence("s", &groups).await?;
    let pods = [
        pod("four").label("last", "yes"),
        pod("three").label("tier", "c").label("sort", "x"),
        pod("two").label("tier", "d").label("sort", "x"),
        pod("nobody").label("other", "yes"),
    ];
    scene.create_all(pods).await?;
    scene.stays_held(&["two", "three", "four"]).await?;
    scene.create(pod("one").label("tier", "b")).await?;
    scene.phase("s", "Completed").await?;
    let order: Vec<String> = scene.history()?.releases().into_iter().map(|release| release.pod).collect();
    assert_eq!(order, ["one", "two", "three", "four"]);
    scene.stays_held(&["nobody"]).await?;
    scene.done().await
}

#[tokio::test]
async fn a_selector_that_matches_nothing_is_never_complete() -> Result<()> {
    let scene = Scene::new("nothing").await?;
    scene.sequence("s", &[selected("first", "absent"), named("second", &["b"])]).await?;
    scene.pods(&["b"]).await?;
    scene.blocked_by("s", "", "NothingMatches").await?;
    scene.stays_held(&["b"]).await?;
    scene.create(pod("a").label("app", "absent")).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn expected_is_waited_for() -> Result<()> {
    let scene = Scene::new("expected").await?;
    let first = selected("first", "x").with(json!({"expected": 2}));
    scene.sequence("s", &[first, named("second", &["b"])]).await?;
    scene.create(pod("x-1").label("app", "x")).await?;
    scene.pods(&["b"]).await?;
    scene.ready("x-1").await?;
    scene.stays_held(&["b"]).await?;
    scene.blocked_by("s", "", "TooFewMembers").await?;
    scene.create(pod("x-2").label("app", "x")).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn min_ready_in_numbers_and_percent() -> Result<()> {
    let scene = Scene::new("minready").await?;
    let first = named("first", &["a", "b", "c"]).with(json!({"minReady": "50%"}));
    let second = named("second", &["d", "e"]).with(json!({"minReady": 1}));
    scene.sequence("s", &[first, second, named("third", &["f"])]).await?;
    scene.unready_pods(&["a", "b", "d", "e"]).await?;
    scene.pods(&["f"]).await?;
    scene.released("a").await?;
    scene.make_ready("a").await?;
    scene.ready("a").await?;
    // Half of three members rounds up to two.
    scene.stays_held(&["d", "e", "f"]).await?;
    scene.make_ready("b").await?;
    scene.released("d").await?;
    scene.released("e").await?;
    scene.stays_held(&["f"]).await?;
    scene.make_ready("e").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_pod_in_two_groups_belongs_to_the_earlier() -> Result<()> {
    let scene = Scene::new("twice").await?;
    scene.sequence("s", &[named("first", &["a", "b"]), named("second", &["b", "c"])]).await?;
    scene.pods(&["a", "b", "c"]).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][1]["present"], 1, "{status}");
    let (reason, note) = scene.event("s", "b is selected by groups \"first\" and \"second\"").await?;
    assert_eq!(reason, "DuplicateMember", "{note}");
    scene.done().await
}

#[tokio::test]
async fn a_pod_of_two_sequences_waits_for_both() -> Result<()> {
    let scene = Scene::new("rivals").await?;
    scene.sequence("left", &[named("l", &["l"]), named("both", &["x"])]).await?;
    scene.sequence("right", &[named("r", &["r"]), named("both", &["x"])]).await?;
    scene.unready_pods(&["l", "r"]).await?;
    scene.pods(&["x"]).await?;
    scene.released("l").await?;
    scene.released("r").await?;
    scene.make_ready("l").await?;
    scene.blocked_by("left", "x", "OtherSequence").await?;
    scene.stays_held(&["x"]).await?;
    scene.make_ready("r").await?;
    scene.phase("left", "Completed").await?;
    scene.phase("right", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_gate_of_its_own_name_is_the_only_one_taken() -> Result<()> {
    let scene = Scene::new("gate").await?;
    let own = "example.com/own-gate";
    let allowed = json!({"metadata": {"annotations": {rollcall_api::names::ALLOW_GATES: own}}});
    scene.patch("Namespace", &scene.namespace, allowed).await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    scene.create(sequence("s", &groups).with(json!({"spec": {"schedulingGateName": own}}))).await?;
    scene.create(pod("a").gates(&[own])).await?;
    scene.create(pod("b").gates(&[own, GATE])).await?;
    let wanted = |pod: &Value| scene::gates(pod) == [GATE];
    scene.until("Pod", "b", "left with the foreign gate alone", wanted).await?;
    scene.blocked_by("s", "b", "ForeignGate").await?;
    scene.done().await
}

#[tokio::test]
async fn unnamed_groups_have_numbers() -> Result<()> {
    let scene = Scene::new("unnamed").await?;
    scene.sequence("s", &[json!({"pods": ["a"]}), json!({"pods": ["b"]})]).await?;
    scene.pods(&["a", "b"]).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][0]["name"], "Group 1");
    assert_eq!(status["groups"][1]["name"], "Group 2");
    scene.done().await
}
