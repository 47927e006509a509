//! Switches from Full mode to Lite mode and back, with sequences of both scopes that are not complete.

use super::waiting::{GUARDS, three, waiting};
use crate::common::*;
use anyhow::{Context, ensure};
use rollcall_testbed::AuditEvent;

const GUIDE: &str = "docs/guide/node-scope.md";

#[tokio::test]
async fn from_full_to_lite_and_back_nothing_is_lost() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let cluster = lab.cluster();
    lab.apply_file("config/admission")?;
    lab.apply_file("config/webhook/launch.yaml")?;
    let mut controller = Controller::start(&lab, Options::default()).await?;
    let deleted = waiting(&lab, "deleted", &controller).await?;
    let kept = waiting(&lab, "kept", &controller).await?;
    let tiers = Scene::without_controller(&lab, "tiers").await?;
    tiers.sequence("tiers", &[make::named("first", &["a"]), make::named("second", &["b"])]).await?;
    // The pods tolerate the taints of the other sequences, which apply to all pods.
    let tolerant = json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } });
    tiers.create(make::pod("a").kwok("never-ready", "true").with(tolerant.clone())).await?;
    tiers.create(make::pod("b").with(tolerant)).await?;
    tiers.released("a").await.with_context(|| controller.log())?;
    // One node is open for the sequences that are kept, while it still has the taints of the sequences that will be deleted.
    let agents = nodes::bound(&kept, "agent").await?;
    let (agent, open) = &agents[0];
    kept.make_ready(agent).await?;
    for guard in GUARDS {
        let one = |status: &Value| status["nodes"]["complete"] == 1;
        kept.status(&guard.to_lowercase(), "one node", one).await.with_context(|| controller.log())?;
    }
    let on_their_way = kept.pods_are("app", 2, |pod| !scene::has_gate(pod, GATE)).await;
    on_their_way.with_context(|| controller.log())?;
    ensure!(controller.stop().await?.success(), "{}", controller.log());
    let before = nodes::ours(cluster).await?;

    docs::shell(cluster, &docs::commands(GUIDE, "From Full back to Lite")?)?;
    let kinds = "mutatingwebhookconfigurations,services,clusterroles,clusterrolebindings,roles,rolebindings";
    let ours = ["get", kinds, "-A", "-l", "app.kubernetes.io/name=pod-sequence-controller", "-o", "name"];
    let left = cluster.kubectl_ok(&ours)?;
    let of_full =
        left.lines().find(|name| ["launch", "webhook", "nodes"].iter().any(|word| name.contains(word)));
    ensure!(of_full.is_none() && left.contains("pod-sequence-controller-lite"), "{left}");
    lab.without_pods_of_ours()?;
    let mut audit = cluster.audit_from_now()?;
    let lite = Options { mode: Some("lite"), ..Options::default() };
    let mut controller = Controller::start(&lab, lite).await?;
    for guard in GUARDS {
        nodes::stalled(&kept, &controller, &guard.to_lowercase(), "NodeScopeNeedsFullMode").await?;
        deleted.delete_and_wait("PodSequence", &guard.to_lowercase()).await?;
    }
    kept.patch("Deployment", "app", json!({ "spec": { "replicas": 4 } })).await?;
    kept.pods_are("app", 4, |_| true).await?;
    // This progress shows that the controller has processed all earlier events.
    tiers.make_ready("a").await?;
    tiers.phase("tiers", "Completed").await.with_context(|| controller.log())?;
    kept.pods_are("app", 2, |pod| scene::has_gate(pod, GATE))
        .await
        .context("pods created in Lite mode are not held")?;
    ensure!(controller.stop().await?.success(), "{}", controller.log());
    ensure!(nodes::ours(cluster).await? == before, "Lite mode changed a node");
    let is_bad = |event: &&AuditEvent| {
        event.user == ACCOUNT && (event.resource == "nodes" || event.status_code == 403)
    };
    let bad: Vec<&AuditEvent> = audit.all()?.iter().filter(is_bad).collect();
    ensure!(bad.is_empty(), "Lite mode sent forbidden requests: {bad:?}");

    docs::shell(cluster, &docs::commands(GUIDE, "From Lite to Full")?)?;
    lab.without_pods_of_ours()?;
    let controller = Controller::start(&lab, Options::default()).await?;
    deleted.pods_are("app", 2, scene::is_ready).await.with_context(|| controller.log())?;
    let landed = nodes::until_bound(&kept, "app", 4).await.with_context(|| controller.log())?;
    ensure!(landed.iter().all(|(_, node)| node == open), "landed on {landed:?}, but only {open} was open");
    for (agent, _) in &agents[1..] {
        kept.make_ready(agent).await?;
    }
    for guard in GUARDS {
        nodes::complete(&kept, &controller, &guard.to_lowercase(), 3).await?;
        kept.delete("PodSequence", &guard.to_lowercase()).await?;
    }
    nodes::clean(cluster, &controller).await?;
    for scene in [deleted, kept, tiers] {
        scene.done().await?;
    }
    Ok(())
}
