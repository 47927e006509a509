//! Ten thousand pods.

use super::world::{World, selector, template};
use rollcall_sim::kinds::Kind;
use serde_json::json;
use std::time::{Duration, Instant};

/// Far above the actual time, and far below the time of an algorithm with quadratic cost.
const LONGEST: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_hundred_deployments_of_a_hundred_pods() {
    let began = Instant::now();
    let world = World::with_nodes(10);
    for number in 0..100 {
        let name = format!("web-{number}");
        world.create(
            Kind::Deployment,
            json!({
                "metadata": { "name": name },
                "spec": { "replicas": 100, "selector": selector(&name), "template": template(&name, "1") },
            }),
        );
    }
    world.wait(60).await;
    let ready = |name: &str| world.status(Kind::Deployment, name)["readyReplicas"].clone();
    assert!((0..100).all(|number| ready(&format!("web-{number}")) == 100));
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
}
