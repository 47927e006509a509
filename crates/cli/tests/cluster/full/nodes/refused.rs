//! A sequence that cannot write its state to a node, or is not permitted to, does not block the node for other sequences, and
//! reports the problem.

use super::waiting::three;
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_api::names;
use rollcall_testbed::wait;
use std::time::Duration;

/// Maximum total size of the annotations of an object.
const ANNOTATIONS: usize = 262_144;
/// One minute, plus the time that the API server needs.
const A_MINUTE: Duration = Duration::from_secs(90);

async fn is_seen(scene: &Scene<'_>, node: &str, limit: Duration) -> Result<()> {
    wait::until("a processed node", limit, async || {
        let node = scene.get("Node", node).await?;
        Ok(node["metadata"]["labels"][names::UNSEEN_LABEL].is_null().then_some(()))
    })
    .await
}

#[tokio::test]
async fn who_cannot_write_on_a_node_keeps_it_from_nobody() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    let scene = Scene::without_controller(&lab, "victim").await?;
    let other = Scene::without_controller(&lab, "other").await?;
    scene.create(nodes::agents()).await?;
    scene.create(nodes::sequence("victim", "Labels")).await?;
    scene.create(make::deployment("app", 1)).await?;
    nodes::complete(&scene, &controller, "victim", 3).await?;
    let status = scene.phase("victim", "Completed").await?;
    for node in status["nodeStatus"].as_array().context("no nodes")? {
        let ready = &node["conditions"][0];
        ensure!(
            ready["type"] == "Ready" && ready["status"] == "True" && ready["reason"] == "Completed",
            "{node}"
        );
    }
    let name = scene::name_of(&nodes::all(lab.cluster()).await?[0]);
    let unseen = json!({ "metadata": { "labels": { names::UNSEEN_LABEL: "true" } } });

    // Taints are not permitted, so the sequence writes nothing, and other sequences do not wait for its writes.
    other.create(nodes::sequence("forbidden", "Taints")).await?;
    nodes::stalled(&other, &controller, "forbidden", "TaintsNotPermitted").await?;
    scene.patch("Node", &name, unseen.clone()).await?;
    is_seen(&scene, &name, LIMIT).await.with_context(|| controller.log())?;

    // Foreign annotations leave no space for the journal.
    let node = scene.get("Node", &name).await?;
    let annotations = node["metadata"]["annotations"].as_object().context("no annotations")?;
    let used: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    let full = "x".repeat(ANNOTATIONS - used - "example.com/full".len() - 10);
    scene.annotate("Node", &name, "example.com/full", Some(&full)).await?;
    other.create(nodes::sequence("slow", "Labels")).await?;
    let refused = |status: &Value| {
        let blocked = status["blockedBy"].as_array().into_iter().flatten();
        blocked.into_iter().any(|by| {
            by["reason"] == "NodeWriteRefused"
                && by["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("Too long") && text.contains(&name))
        })
    };
    let status =
        other.status("slow", "the rejected write", refused).await.with_context(|| controller.log())?;
    let of_node =
        status["nodeStatus"].as_array().into_iter().flatten().find(|node| node["nodeName"] == *name);
    let reason = of_node.map(|node| &node["conditions"][0]["reason"]);
    ensure!(reason == Some(&json!("NodeWriteRefused")), "{status}");
    ensure!(controller.log().contains("a write failed"), "the failed write is not logged");
    scene.patch("Node", &name, unseen).await?;
    is_seen(&scene, &name, A_MINUTE).await.with_context(|| controller.log())?;
    let said = wait::until("the event", LIMIT, async || {
        let events = lab.cluster().kubectl_ok(&["get", "events", "-n", "default", "-o", "json"])?;
        let events: Value = serde_json::from_str(&events)?;
        let mut events = events["items"].as_array().cloned().unwrap_or_default().into_iter();
        Ok(events.find(|event| event["reason"] == "NotWaitedFor"))
    });
    let said = said.await.with_context(|| controller.log())?;
    ensure!(said["involvedObject"]["kind"] == "Node" && said["involvedObject"]["name"] == *name, "{said}");
    let sequence = format!("{}/slow", other.namespace);
    ensure!(said["message"].as_str().is_some_and(|text| text.contains(&sequence)), "{said}");

    // The annotation is removed, so there is space for the journal again.
    scene.annotate("Node", &name, "example.com/full", None).await?;
    let written = |status: &Value| !refused(status);
    other.status("slow", "no rejected write", written).await.with_context(|| controller.log())?;
    for name in ["forbidden", "slow"] {
        other.delete("PodSequence", name).await?;
    }
    scene.delete("PodSequence", "victim").await?;
    nodes::clean(lab.cluster(), &controller).await
}
