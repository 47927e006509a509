//! Groups of pods that have owners: the owners determine the expected number of pods.

use crate::common::make::{
    self, by_ref, daemon_set, deployment, named, replica_set, selected, sequence, stateful_set,
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
    // The quota counts later pods at admission. It counts earlier pods in a controller that may not have seen them yet.
    scene.until("ResourceQuota", "few", "enforced", |quota| quota["status"]["hard"]["pods"] == "2").await?;
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
    // The Deployment runs before the sequence exists, and is now rolled out again.
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
    // While the Deployment's own controller is behind, the expected number is unknown.
    let four = |status: &Value| status["groups"][0]["present"] == 4 && status["groups"][0]["expected"] == 2;
    let status = scene.status("s", "four present of two expected", four).await?;
    assert_eq!(status["groups"][0]["arrived"], json!(0));
    for name in names {
        scene.make_ready(&name).await?;
    }
    scene.phase("s", "Completed").await?;

    // The group has been complete, so pods of the next rollout start at once.
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
async fn node_scope_needs_full_mode() -> Result<()> {
    let scene = Scene::new("later").await?;
    let groups = [named("first", &["a"]), named("second", &["b"])];
    scene.create(sequence("node", &groups).with(json!({"spec": {"scope": "Node"}}))).await?;
    scene.pods(&["a", "b"]).await?;
    scene.condition("node", "Stalled", "True", "NodeScopeNeedsFullMode").await?;
    assert_eq!(scene.phase("node", "Failed").await?["phase"], "Failed");
    scene.stays_held(&["a", "b"]).await?;
    // It can be deleted, and other sequences were not affected by it.
    scene.delete_and_wait("PodSequence", "node").await?;
    scene.stays_held(&["a", "b"]).await?;
    scene.sequence("cluster", &groups).await?;
    scene.phase("cluster", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_workload_that_is_named_and_missing_is_waited_for() -> Result<()> {
    let mut scene = Scene::new("by-name").await?;
    scene.expect("s", "db", 2);
    scene.expect("s", "web", 1);
    let groups = [by_ref("StatefulSet", "db"), by_ref("Deployment", "web"), named("late", &["late"])];
    // An object with the same name and another kind, and one with a similar name: the message suggests both.
    scene.create_all([deployment("db", 0), stateful_set("dbs", 0)]).await?;
    scene.sequence("s", &groups).await?;
    scene.pods(&["late"]).await?;
    let status = scene.blocked_by("s", "statefulset/db", "WorkloadMissing").await?;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("deployment/db") && message.contains("statefulset/dbs"), "{message}");
    assert_eq!(status["phase"], "Pending");
    assert_eq!(scene::condition(&status, "Stalled").map(|stalled| &stalled["status"]), Some(&json!("False")));
    // A pod with the same labels but another owner is not a member.
    scene.create(make::pod("stranger").label("app", "web")).await?;
    scene.create(deployment("web", 1)).await?;
    scene.pods_are("web", 2, |pod| scene::has_gate(pod, GATE)).await?;
    scene.create(stateful_set("db", 2)).await?;
    let counted = |status: &Value| status["groups"][0]["expected"] == 2;
    scene.status("s", "its size", counted).await?;
    scene.phase("s", "Completed").await?;
    scene.held(&["stranger"]).await?;
    scene.delete_and_wait("Pod", "stranger").await?;
    scene.done().await
}

#[tokio::test]
async fn every_kind_can_be_named() -> Result<()> {
    let mut scene = Scene::new("kinds").await?;
    for (group, members) in [("set", 2), ("agent", 3), ("migrate", 1), ("nightly", 1)] {
        scene.expect("s", group, members);
    }
    let groups = [
        by_ref("ReplicaSet", "set"),
        by_ref("DaemonSet", "agent"),
        by_ref("Job", "migrate"),
        by_ref("CronJob", "nightly"),
        named("late", &["late"]),
    ];
    scene.sequence("s", &groups).await?;
    scene.pods(&["late"]).await?;
    let workloads =
        [make::job("migrate"), daemon_set("agent"), replica_set("set", 2), make::cron_job("nightly")];
    scene.create_all(workloads).await?;
    // The CronJob exists, but has not run.
    let status = scene.blocked_by("s", "", "NoRunYet").await?;
    assert_eq!(
        (&status["groups"][2]["state"], &status["groups"][2]["arrived"]),
        (&json!("Complete"), &json!(1))
    );
    scene.stays_held(&["late"]).await?;
    scene.kubectl(&["create", "job", "--from=cronjob/nightly", "nightly-now"])?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][1]["expected"], 3);
    scene.done().await
}

#[tokio::test]
async fn a_workload_of_size_0_is_complete() -> Result<()> {
    let mut scene = Scene::new("zero").await?;
    scene.expect("s", "off", 0);
    scene.create(deployment("off", 0)).await?;
    scene.pods(&["late"]).await?;
    scene.sequence("s", &[by_ref("Deployment", "off"), named("late", &["late"])]).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(
        (&status["groups"][0]["state"], &status["groups"][0]["expected"]),
        (&json!("Complete"), &json!(0))
    );
    // The group has been complete, so its pods are released at once after the scale-up.
    scene.patch("Deployment", "off", json!({"spec": {"replicas": 2}})).await?;
    scene.pods_are("off", 2, scene::is_ready).await?;
    scene.done().await
}

#[tokio::test]
async fn an_optional_group_is_passed_if_nobody_is_there() -> Result<()> {
    let scene = Scene::new("optional").await?;
    let optional = |group: Value| group.with(json!({"optional": true}));
    let groups = [
        optional(by_ref("Deployment", "cache")),
        optional(selected("log", "log")),
        optional(named("extra", &["x"])),
        named("late", &["late"]),
    ];
    scene.sequence("s", &groups).await?;
    scene.pods(&["late"]).await?;
    let status = scene.phase("s", "Completed").await?;
    for group in 0..3 {
        let group = &status["groups"][group];
        assert_eq!((&group["state"], &group["expected"]), (&json!("Complete"), &json!(0)), "{status:#}");
    }
    // Members that appear later are released, and no pod is held again.
    scene.create(deployment("cache", 1)).await?;
    scene.pods_are("cache", 1, scene::is_ready).await?;
    scene.create(make::pod("x").kwok("never-ready", "true")).await?;
    scene.released("x").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn an_optional_group_is_waited_for_if_its_workload_is_there() -> Result<()> {
    let scene = Scene::new("wanted").await?;
    let paused = json!({"spec": {"paused": true}});
    // A paused Deployment creates no pods, but it exists, so the group is not skipped.
    scene.create(deployment("cache", 1).with(paused)).await?;
    let cache = by_ref("Deployment", "cache").with(json!({"optional": true}));
    scene.sequence("s", &[cache, named("late", &["late"])]).await?;
    scene.pods(&["late"]).await?;
    scene.status("s", "it waits", |status| status["blockedBy"][0]["reason"] == "TooFewPods").await?;
    scene.stays_held(&["late"]).await?;
    scene.patch("Deployment", "cache", json!({"spec": {"paused": false}})).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}
