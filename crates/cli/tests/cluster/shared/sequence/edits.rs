//! Edits of the spec while the sequence runs: released pods stay released, and no pod gets stuck.

use crate::common::make::named;
use crate::common::*;

#[tokio::test]
async fn groups_are_inserted_removed_reordered_and_renamed() -> Result<()> {
    let scene = Scene::new("edits").await?;
    let (a, b, c) = (named("a", &["a"]), named("b", &["b"]), named("c", &["c"]));
    scene.sequence("s", &[a.clone(), b.clone(), c.clone()]).await?;
    scene.unready_pods(&["b", "x"]).await?;
    scene.pods(&["a", "c"]).await?;
    scene.released("b").await?;

    // Inserted after the open group: the third group waits for both.
    let x = named("x", &["x"]);
    scene.edit("s", json!({"podGroups": [a, b, x, c]})).await?;
    scene.make_ready("b").await?;
    scene.released("x").await?;
    scene.stays_held(&["c"]).await?;

    // Reordered and renamed: the incomplete group moves to the end.
    let (first, second) = (named("renamed", &["a"]), named("b", &["b"]));
    let groups = [first.clone(), second.clone(), named("c", &["c"]), named("x", &["x"])];
    scene.edit("s", json!({"podGroups": groups})).await?;
    scene.ready("c").await?;
    let status = scene.status("s", "only x is missing", |status| status["currentIndex"] == 3).await?;
    assert_eq!(status["groups"][0]["name"], "renamed");

    // The removed group was the only incomplete one.
    let generation = scene.edit("s", json!({"podGroups": [first, second, named("c", &["c"])]})).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["observedGeneration"], generation);
    scene.done().await
}

#[tokio::test]
async fn a_group_inserted_before_an_open_one_does_not_close_it() -> Result<()> {
    let scene = Scene::new("before").await?;
    let (a, b, c) = (named("a", &["a"]), named("b", &["b", "b-2"]), named("c", &["c"]));
    scene.sequence("s", &[a.clone(), b.clone(), c.clone()]).await?;
    scene.unready_pods(&["b", "x"]).await?;
    scene.pods(&["a", "c"]).await?;
    scene.released("b").await?;
    scene.edit("s", json!({"podGroups": [a, named("x", &["x"]), b, c]})).await?;
    // The new group opens. Pod b keeps running, and unreleased pods wait for the new group too.
    scene.released("x").await?;
    scene.make_ready("b").await?;
    scene.pods(&["b-2"]).await?;
    scene.stays_held(&["b-2", "c"]).await?;
    assert!(scene::is_ready(&scene.get("Pod", "b").await?));
    scene.make_ready("x").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn an_edit_rolled_back_in_the_middle_changes_nothing() -> Result<()> {
    let scene = Scene::new("back").await?;
    let groups = [named("first", &["a"]), named("second", &["b"]), named("third", &["c"])];
    scene.sequence("s", &groups).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b", "c"]).await?;
    scene.released("a").await?;
    scene.edit("s", json!({"podGroups": [named("other", &["nobody"]), named("third", &["c"])]})).await?;
    scene.edit("s", json!({"podGroups": groups})).await?;
    scene.stays_held(&["b", "c"]).await?;
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_pod_that_an_edit_leaves_out_stays_as_it_is() -> Result<()> {
    let scene = Scene::new("leftout").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b", "c"])]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b", "c"]).await?;
    scene.released("a").await?;
    scene.edit("s", json!({"podGroups": [named("first", &["a"]), named("second", &["b"])]})).await?;
    scene.make_ready("a").await?;
    scene.phase("s", "Completed").await?;
    scene.stays_held(&["c"]).await?;
    scene.done().await
}
