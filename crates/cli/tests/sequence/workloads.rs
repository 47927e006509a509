//! Groups of pods that have owners: how many there must be is what the owners want.

use crate::common::make::{
    self, daemon_set, deployment, named, replica_set, selected, sequence, stateful_set,
};
use crate::common::*;

#[tokio::test]
async fn a_quota_holds_pods_back_and_with_them_the_next_group() -> Result<()> {
    let mut scene = Scene::new("quota").await?;
    scene.expect("s", "web", 3);
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}},
    });
    scene.create(quota).await?;
    // Pods that come later are counted at admission; those before it by a controller that may have heard of none yet.
    scene.until("ResourceQuota", "few", "in force", |quota| quota["status"]["hard"]["pods"] == "2").await?;
    scene.pods(&["late"]).await?;
    scene.until("ResourceQuota", "few", "counted", |quota| quota["status"]["used"]["pods"] == "1").await?;
    scene.sequence("s", &[selected("web", "web"), named("late", &["late"])]).await?;
    scene.create(deployment("web", 3)).await?;
    scene.pods_are("web", 1, scene::is_ready).await?;
    let status = scene.blocked_by("s", "", "TooFewPods").await?;
    assert_eq!((&status["groups"][0]["expected"], &status["groups"][0]["present"]), (&json!(3), &json!(1)));
    scene.stays_held(&["late"]).await?;
    scene.patch("ResourceQuota", "few", json!({"spec": {"hard": {"pods": "10"}}})).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_scale_up_after_completion_starts_at_once() -> Result<()> {
    let scene = Scene::new("scale").await?;
    scene.sequence("s", &[selected("web", "web"), selected("front", "front")]).await?;
    scene.create_all([deployment("web", 1), deployment("front", 1)]).await?;
    scene.phase("s", "Completed").await?;
    scene.patch("Deployment", "front", json!({"spec": {"replicas": 4}})).await?;
    scene.pods_are("front", 4, scene::is_ready).await?;
    scene.patch("Deployment", "web", json!({"spec": {"replicas": 2}})).await?;
    scene.pods_are("web", 2, scene::is_ready).await?;
    let counted =
        |status: &Value| status["groups"][0]["expected"] == 2 && status["groups"][1]["arrived"] == 4;
    let status = scene.status("s", "the new numbers", counted).await?;
    assert_eq!(status["phase"], "Completed");
    scene.done().await
}

#[tokio::test]
async fn during_a_rollout_the_old_replica_set_does_not_count() -> Result<()> {
    let mut scene = Scene::new("rollout").await?;
    scene.expect("s", "web", 2);
    // It runs already, from before there was a sequence, and is being replaced.
    let strategy = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}});
    let ungated = json!({"spec": {"strategy": strategy, "template": {"spec": {"schedulingGates": []}}}});
    scene.create(deployment("web", 2).with(ungated)).await?;
    scene.pods_are("web", 2, scene::is_ready).await?;
    let template = json!({
        "metadata": {"annotations": {"testbed.rollcall.dev/never-ready": "true"}, "labels": {"version": "2"}},
        "spec": {"schedulingGates": [{"name": GATE}]},
    });
    scene.patch("Deployment", "web", json!({"spec": {"template": template}})).await?;
    let new = |pod: &Value| pod["metadata"]["labels"]["version"] == "2";
    scene.pods_are("web", 2, new).await?;

    scene.sequence("s", &[selected("web", "web"), named("late", &["late"])]).await?;
    scene.pods(&["late"]).await?;
    let names = scene.pods_are("web", 2, |pod| new(pod) && !scene::has_gate(pod, GATE)).await?;
    scene.pods_are("web", 2, scene::is_ready).await?;
    scene.stays_held(&["late"]).await?;
    // While the Deployment's own controller is behind, how many there should be is not known.
    let four = |status: &Value| status["groups"][0]["present"] == 4 && status["groups"][0]["expected"] == 2;
    let status = scene.status("s", "four present of two expected", four).await?;
    assert_eq!(status["groups"][0]["arrived"], json!(0));
    for name in names {
        scene.make_ready(&name).await?;
    }
    scene.phase("s", "Completed").await?;

    // The next rollout finds the group complete and starts at once.
    let template = json!({"metadata": {"annotations": {"testbed.rollcall.dev/never-ready": null}, "labels": {"version": "3"}}});
    scene.patch("Deployment", "web", json!({"spec": {"template": template}})).await?;
    let third = |pod: &Value| pod["metadata"]["labels"]["version"] == "3" && scene::is_ready(pod);
    scene.pods_are("web", 2, third).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_stateful_set_makes_its_pods_one_by_one() -> Result<()> {
    let mut scene = Scene::new("stateful").await?;
    scene.expect("s", "db", 3);
    scene.sequence("s", &[selected("db", "db"), named("late", &["late"])]).await?;
    scene.pods(&["late"]).await?;
    scene.create(stateful_set("db", 3)).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][0]["expected"], 3);
    let order: Vec<String> = scene.history()?.releases().into_iter().map(|release| release.pod).collect();
    assert_eq!(order, ["db-0", "db-1", "db-2", "late"]);
    scene.done().await
}

#[tokio::test]
async fn a_daemon_set_is_complete_on_all_its_nodes() -> Result<()> {
    let mut scene = Scene::new("daemon").await?;
    scene.expect("s", "agents", 3);
    scene.sequence("s", &[selected("agents", "agent"), named("late", &["late"])]).await?;
    scene.pods(&["late"]).await?;
    let annotations = json!({"testbed.rollcall.dev/never-ready": "true"});
    scene
        .create(
            daemon_set("agent")
                .with(json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})),
        )
        .await?;
    let agents = scene.pods_are("agent", 3, |pod| !scene::has_gate(pod, GATE)).await?;
    for agent in &agents[..2] {
        scene.make_ready(agent).await?;
        scene.ready(agent).await?;
    }
    scene.stays_held(&["late"]).await?;
    scene.make_ready(&agents[2]).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn owners_of_several_kinds_add_up() -> Result<()> {
    let mut scene = Scene::new("several").await?;
    scene.expect("s", "all", 4);
    let group = json!({"name": "all", "podSelector": {"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["web", "set", "single"]},
    ]}});
    scene.sequence("s", &[group, named("late", &["late"])]).await?;
    scene.pods(&["late"]).await?;
    scene.create(replica_set("set", 2)).await?;
    scene.create(make::pod("single").label("app", "single").kwok("never-ready", "true")).await?;
    scene.create(deployment("web", 1)).await?;
    scene.pods_are("set", 2, scene::is_ready).await?;
    scene.pods_are("web", 1, scene::is_ready).await?;
    scene.released("single").await?;
    scene.stays_held(&["late"]).await?;
    scene.make_ready("single").await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][0]["expected"], 4);
    scene.done().await
}

#[tokio::test]
async fn workload_refs_and_node_scope_get_a_clear_answer() -> Result<()> {
    let scene = Scene::new("later").await?;
    let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    scene.sequence("by-ref", &[json!({"name": "web", "workloadRef": reference})]).await?;
    let stalled = scene.condition("by-ref", "Stalled", "True", "InvalidSpec").await?;
    let message = stalled["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("spec.podGroups[0].workloadRef") && message.contains("podSelector"),
        "{message}"
    );

    let groups = [named("first", &["a"]), named("second", &["b"])];
    scene.create(sequence("node", &groups).with(json!({"spec": {"scope": "Node"}}))).await?;
    scene.pods(&["a", "b"]).await?;
    scene.condition("node", "Stalled", "True", "NodeScopeNeedsFullMode").await?;
    for name in ["by-ref", "node"] {
        assert_eq!(scene.phase(name, "Failed").await?["phase"], "Failed");
    }
    scene.stays_held(&["a", "b"]).await?;
    // It can be deleted, and its neighbours never noticed it.
    scene.delete_and_wait("PodSequence", "node").await?;
    scene.delete_and_wait("PodSequence", "by-ref").await?;
    scene.stays_held(&["a", "b"]).await?;
    scene.sequence("cluster", &groups).await?;
    scene.phase("cluster", "Completed").await?;
    scene.done().await
}
