//! Pods that belong to no sequence are not delayed: they are bound as fast as pods of an unrelated namespace, whatever the
//! state of admission.

use super::waiting::three;
use crate::common::*;
use anyhow::{Context, ensure};
use jiff::Timestamp;
use std::collections::BTreeMap;

const WEBHOOK: &str = "config/webhook/webhook.yaml";

/// Pods per namespace; with this number, the medians normally differ by less than a tenth.
const PODS: usize = 30;
/// Maximum ratio of the medians. A pod is bound after about 10 ms; a policy costs one or two milliseconds, and a webhook a
/// little more.
const BOUND: f64 = 3.0;

#[tokio::test]
async fn strangers_are_on_their_nodes_as_soon_as_elsewhere() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let mut controller = Controller::start(&lab, Options::default()).await?;
    let (here, elsewhere) =
        (Scene::without_controller(&lab, "here").await?, Scene::without_controller(&lab, "elsewhere").await?);
    // All nodes are blocked for the members of the sequence in this namespace.
    here.create(nodes::unready_agents()).await?;
    here.create(nodes::sequence("by-node", "Labels")).await?;
    here.create(make::deployment("app", 3)).await?;
    nodes::until_bound(&here, "agent", 3).await.with_context(|| controller.log())?;
    let enabled = json!({ "metadata": { "labels": { "podsequence-enabled": "true" } } });
    here.patch("Namespace", &here.namespace, enabled).await?;

    lab.apply_file(WEBHOOK)?;
    lab.call_webhook(controller.webhook)?;
    nodes::gated_at_admission(&here).await.with_context(|| controller.log())?;
    compare("webhook", &here, &elsewhere).await?;
    controller.kill()?;
    compare("webhook without a server", &here, &elsewhere).await?;

    // Without the webhook, only the policies can add gates.
    lab.cluster().kubectl_ok(&["delete", "-f", lab::repository(WEBHOOK).to_str().context("UTF-8")?])?;
    lab.apply_file("config/admission")?;
    nodes::gated_at_admission(&here).await?;
    compare("policies without a controller", &here, &elsewhere).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    compare("policies", &here, &elsewhere).await?;
    let held = here.pods_are("app", 3, |pod| scene::has_gate(pod, GATE)).await;
    held.map(drop).with_context(|| controller.log())
}

/// Creates pods alternately in both namespaces, and compares the times from creation to binding in the API server's audit log.
async fn compare(what: &str, here: &Scene<'_>, elsewhere: &Scene<'_>) -> Result<()> {
    let prefix = format!("{}.", what.replace(' ', "-"));
    for number in 0..PODS {
        for scene in [here, elsewhere] {
            let name = format!("{prefix}{number}");
            scene.create(make::pod(&name).gates(&[])).await?;
            scene.until("Pod", &name, "on a node", |pod| pod["spec"]["nodeName"].is_string()).await?;
        }
    }
    let (ours, theirs) = (median(here, &prefix)?, median(elsewhere, &prefix)?);
    eprintln!("{what}: {:.2} ({ours} µs, elsewhere {theirs} µs)", ours / theirs);
    ensure!(ours <= BOUND * theirs, "{what}: {ours} µs here, {theirs} µs elsewhere");
    Ok(())
}

/// Median time to binding in microseconds.
fn median(scene: &Scene<'_>, prefix: &str) -> Result<f64> {
    let events = scene.lab.events(|event| {
        event.namespace == scene.namespace && event.resource == "pods" && event.is_committed()
    })?;
    let made = events.iter().filter(|event| event.verb == "create");
    let (bindings, created): (Vec<_>, Vec<_>) = made.partition(|event| event.subresource == "binding");
    let asked: BTreeMap<&str, Timestamp> =
        created.iter().map(|event| (event.name.as_str(), event.request_received)).collect();
    let ours = bindings.iter().filter(|event| event.name.starts_with(prefix));
    let took = ours.map(|event| event.stage_time.duration_since(asked[event.name.as_str()]).as_micros());
    let mut took: Vec<i128> = took.collect();
    ensure!(took.len() == PODS, "{} of {PODS} pods in the log", took.len());
    took.sort_unstable();
    Ok(took[PODS / 2] as f64)
}
