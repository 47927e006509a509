//! Pods in another namespace are released only while that namespace permits it.

use crate::common::make::{named, sequence};
use crate::common::order::{Guest, verify};
use crate::common::*;

const ALLOW: &str = "podsequence.example.com/allow-from";

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

async fn allow(scene: &Scene<'_>, from: Option<&str>) -> Result<u64> {
    let annotations = json!({"metadata": {"annotations": {(ALLOW): from}}});
    Ok(version(&scene.patch("Namespace", &scene.namespace, annotations).await?))
}

#[tokio::test]
async fn permission_is_needed_used_and_withdrawn() -> Result<()> {
    let home = Scene::new("home").await?;
    let mut there = Scene::new("there").await?;
    let groups = [named("first", &["a"]), named("second", &["b"]), named("third", &["c"])];
    let guest = sequence("guest", &groups).with(json!({"spec": {"namespace": there.namespace}}));
    home.create(guest).await?;
    there.unready_pods(&["b"]).await?;
    there.pods(&["a", "c"]).await?;
    let stalled = home.condition("guest", "Stalled", "True", "NotPermitted").await?;
    assert!(stalled["message"].as_str().is_some_and(|text| text.contains(ALLOW)), "{stalled}");
    assert_eq!(home.phase("guest", "Failed").await?["phase"], "Failed");
    there.stays_held(&["a", "b", "c"]).await?;
    // A permission for another namespace has no effect.
    allow(&there, Some("somebody,else")).await?;
    there.stays_held(&["a", "b", "c"]).await?;

    let since = allow(&there, Some(&format!("somebody, {}", home.namespace))).await?;
    there.released("b").await?;
    home.phase("guest", "InProgress").await?;
    let until = allow(&there, None).await?;
    home.condition("guest", "Stalled", "True", "NotPermitted").await?;
    there.make_ready("b").await?;
    there.ready("b").await?;
    there.stays_held(&["c"]).await?;
    let guest = |since, until| Guest { namespace: home.namespace.clone(), since, until };
    there.rules.cross_namespace.push(guest(since, until));
    there.verify().await?;

    let since = allow(&there, Some("*")).await?;
    home.phase("guest", "Completed").await?;
    there.rules.cross_namespace.push(guest(since, u64::MAX));
    // The verifier reports a violation if a gate is removed without permission.
    let mut strict = there.rules.clone();
    strict.cross_namespace.clear();
    let found = verify(&there.lab.audited(&there.namespace)?, &strict);
    assert!(found.iter().any(|violation| violation.invariant == "S6"), "{found:?}");
    there.done().await?;
    home.done().await
}

#[tokio::test]
async fn a_sequence_that_may_not_act_there_has_no_say_there() -> Result<()> {
    let home = Scene::new("intruder").await?;
    let there = Scene::new("victim").await?;
    let groups = [named("first", &["never"]), named("second", &["a", "b"])];
    let intruder = sequence("intruder", &groups).with(json!({"spec": {"namespace": there.namespace}}));
    home.create(intruder).await?;
    home.condition("intruder", "Stalled", "True", "NotPermitted").await?;
    there.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    there.pods(&["a", "b"]).await?;
    there.phase("s", "Completed").await?;
    // It also has no effect there when it is deleted.
    there.delete_and_wait("Pod", "b").await?;
    there.delete_and_wait("PodSequence", "s").await?;
    there.pods(&["b"]).await?;
    home.delete_and_wait("PodSequence", "intruder").await?;
    there.stays_held(&["b"]).await?;
    there.done().await?;
    home.done().await
}
