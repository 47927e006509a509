//! Pods that foreign controllers hold, and pods that no controller holds.

use crate::common::make::{named, pod};
use crate::common::*;

const FOREIGN: &str = "example.com/other-gate";

/// No node has this label, so the pod stays Pending even without gates.
fn nowhere() -> Value {
    json!({"spec": {"nodeSelector": {"example.com/nowhere": "true"}}})
}

#[tokio::test]
async fn foreign_gates_are_left_alone() -> Result<()> {
    let scene = Scene::new("foreign").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.create(pod("a").gates(&["example.com/before", GATE, FOREIGN])).await?;
    scene.pods(&["b"]).await?;
    let left = |pod: &Value| scene::gates(pod) == ["example.com/before", FOREIGN];
    scene.until("Pod", "a", "left with the foreign gates", left).await?;
    scene.blocked_by("s", "a", "ForeignGate").await?;
    scene.stays_held(&["b"]).await?;
    // Only when the owners of the foreign gates remove them does the pod run.
    scene.patch("Pod", "a", json!({"spec": {"schedulingGates": null}})).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn members_of_closed_groups_that_nothing_holds_are_named() -> Result<()> {
    let scene = Scene::new("unheld").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["without", "other"])]).await?;
    scene.create(pod("without").gates(&[]).with(nowhere())).await?;
    scene.create(pod("other").gates(&[FOREIGN])).await?;
    scene.blocked_by("s", "without", "NoGate").await?;
    scene.blocked_by("s", "other", "ForeignGate").await?;
    scene.blocked_by("s", "a", "NotCreated").await?;
    scene.done().await
}

#[tokio::test]
async fn a_pod_that_runs_out_of_order_is_announced() -> Result<()> {
    let scene = Scene::new("disorder").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"]), named("third", &["c"])]).await?;
    scene.create(pod("b").gates(&[])).await?;
    scene.ready("b").await?;
    scene.pods(&["c"]).await?;
    let disorder = scene.condition("s", "OutOfOrder", "True", "OutOfOrder").await?;
    assert!(
        disorder["message"].as_str().is_some_and(|text| text.contains("its group \"second\"")),
        "{disorder}"
    );
    let (reason, _) = scene.event("s", "b is running although its group \"second\" is not open").await?;
    assert_eq!(reason, "OutOfOrder");
    // The readiness of b opens no group, because its own group is not open.
    scene.stays_held(&["c"]).await?;
    scene.pods(&["a"]).await?;
    scene.phase("s", "Completed").await?;
    scene.condition("s", "OutOfOrder", "False", "InOrder").await?;
    scene.done().await
}

#[tokio::test]
async fn an_ungated_pod_of_an_open_group_is_simply_counted() -> Result<()> {
    let scene = Scene::new("counted").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    scene.create(pod("a").gates(&[])).await?;
    scene.pods(&["b"]).await?;
    scene.phase("s", "Completed").await?;
    scene.condition("s", "OutOfOrder", "False", "InOrder").await?;
    scene.done().await
}
