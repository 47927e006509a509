//! The effects of deleting a sequence.

use crate::common::make::{named, sequence};
use crate::common::*;

#[tokio::test]
async fn deleting_a_sequence_lets_its_pods_go() -> Result<()> {
    let scene = Scene::new("letgo").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"]), named("third", &["c"])]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b", "c"]).await?;
    scene.released("a").await?;
    scene.stays_held(&["b", "c"]).await?;
    scene.delete_and_wait("PodSequence", "s").await?;
    scene.ready("b").await?;
    scene.ready("c").await?;
    scene.done().await
}

#[tokio::test]
async fn deleting_a_sequence_with_hold_leaves_its_pods_held() -> Result<()> {
    let scene = Scene::new("hold").await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    scene.create(sequence("s", &groups).with(json!({"spec": {"deletionPolicy": "Hold"}}))).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b"]).await?;
    scene.released("a").await?;
    scene.delete_and_wait("PodSequence", "s").await?;
    scene.stays_held(&["b"]).await?;
    scene.make_ready("a").await?;
    scene.stays_held(&["b"]).await?;
    scene.done().await
}

#[tokio::test]
async fn another_sequence_goes_on_holding_what_it_claims() -> Result<()> {
    let scene = Scene::new("shared").await?;
    scene.sequence("goes", &[named("first", &["a"]), named("second", &["b", "c"])]).await?;
    scene.sequence("stays", &[named("first", &["z"]), named("second", &["b"])]).await?;
    scene.unready_pods(&["a"]).await?;
    scene.pods(&["b", "c"]).await?;
    scene.released("a").await?;
    scene.delete_and_wait("PodSequence", "goes").await?;
    scene.ready("c").await?;
    scene.stays_held(&["b"]).await?;
    scene.pods(&["z"]).await?;
    scene.phase("stays", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_sequence_made_again_starts_anew() -> Result<()> {
    let scene = Scene::new("anew").await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    scene.sequence("s", &groups).await?;
    scene.pods(&["a", "b"]).await?;
    scene.phase("s", "Completed").await?;
    scene.delete_and_wait("PodSequence", "s").await?;
    for name in ["a", "b"] {
        scene.delete_and_wait("Pod", name).await?;
    }
    scene.sequence("s", &groups).await?;
    scene.pods(&["b"]).await?;
    // The completion of the old sequence does not count for the new one.
    scene.stays_held(&["b"]).await?;
    scene.pods(&["a"]).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}
