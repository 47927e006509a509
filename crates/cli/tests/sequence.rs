//! A sequence on a real cluster: groups open one after the other, and what that means.

mod common;

use common::make::named;
use common::*;

#[tokio::test]
async fn groups_open_one_after_the_other() -> Result<()> {
    let scene = Scene::new("basic").await?;
    scene.sequence("shop", &[named("database", &["db"]), named("app", &["app-1", "app-2"])]).await?;
    scene.pods(&["app-1", "app-2"]).await?;
    scene.stays_held(&["app-1", "app-2"]).await?;
    scene.pods(&["db"]).await?;
    scene.phase("shop", "Completed").await?;
    scene.done().await
}
