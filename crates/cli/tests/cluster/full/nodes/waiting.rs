//! Sequences that wait for their first group.

use crate::common::*;
use anyhow::Context;

pub const GUARDS: [&str; 2] = ["Labels", "Taints"];

pub fn three() -> rollcall_testbed::Options {
    rollcall_testbed::Options { nodes: 3, ..Default::default() }
}

/// Creates agents that are not ready, and apps that wait for them. There is one sequence for each guard, `labels` and `taints`.
pub async fn waiting<'a>(lab: &'a Lab, prefix: &str, controller: &Controller) -> Result<Scene<'a>> {
    let scene = Scene::without_controller(lab, prefix).await?;
    nodes::allow_taints(&scene).await?;
    scene.create(nodes::unready_agents()).await?;
    for guard in GUARDS {
        scene.create(nodes::sequence(&guard.to_lowercase(), guard)).await?;
    }
    scene.create(make::deployment("app", 2)).await?;
    nodes::until_bound(&scene, "agent", 3).await.with_context(|| controller.log())?;
    for guard in GUARDS {
        let key =
            format!("podsequence.example.com/{}.{}.apps-blocked", scene.namespace, guard.to_lowercase());
        let closed = wait::until(&key, LIMIT, async || {
            let ours = nodes::ours(lab.cluster()).await?;
            Ok((ours.iter().filter(|line| line.ends_with(&key)).count() == 3).then_some(()))
        });
        closed.await.with_context(|| controller.log())?;
    }
    scene.pods_are("app", 2, |pod| scene::has_gate(pod, GATE)).await?;
    Ok(scene)
}
