//! The criteria for a member to have arrived.

use crate::common::make::{job, named, pod, selected, sequence};
use crate::common::*;

#[tokio::test]
async fn steps_that_exit_are_over_when_they_succeeded() -> Result<()> {
    let scene = Scene::new("exit").await?;
    let groups = [
        named("Initialize Schema", &["init-db"]),
        named("Start Database", &["database"]),
        named("Run Migrations", &["migrate"]),
        named("Start Application", &["app"]),
    ];
    scene.sequence("s", &groups).await?;
    scene.create(pod("init-db").with(json!({"spec": {"restartPolicy": "Never"}}))).await?;
    scene.create(pod("migrate").completes()).await?;
    scene.pods(&["database", "app"]).await?;
    // The pod runs and is even Ready, but only completion counts for a pod that runs to completion.
    scene.ready("init-db").await?;
    scene.stays_held(&["database", "migrate", "app"]).await?;
    scene.annotate("Pod", "init-db", "testbed.rollcall.dev/complete-after", Some("0s")).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_job_behind_a_selector_is_over_when_it_is_complete() -> Result<()> {
    let scene = Scene::new("job").await?;
    let groups = [selected("init", "init-db"), selected("migrate", "migrate"), named("app", &["app"])];
    scene.sequence("s", &groups).await?;
    scene.create(job("init-db")).await?;
    scene.create(job("migrate").with(json!({"spec": {"completions": 2, "parallelism": 1}}))).await?;
    scene.pods(&["app"]).await?;
    let status = scene.phase("s", "Completed").await?;
    assert_eq!(status["groups"][1]["expected"], 2, "{status}");
    let history = scene.history()?;
    let migrations: Vec<u64> =
        history.releases().iter().filter(|r| r.pod.starts_with("migrate-")).map(|r| r.rv).collect();
    let app = history.released_at("app").expect("the app was released");
    assert_eq!(migrations.len(), 2);
    assert!(migrations.iter().all(|migration| *migration < app), "{migrations:?} {app}");

    // After a finished Job is deleted, its group stays complete.
    scene.kubectl(&["delete", "job", "init-db", "migrate"])?;
    scene.delete_and_wait("Pod", "app").await?;
    scene.pods(&["app"]).await?;
    scene.ready("app").await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_failed_job_is_named() -> Result<()> {
    let scene = Scene::new("jobfails").await?;
    scene.sequence("s", &[selected("migrate", "migrate"), named("app", &["app"])]).await?;
    let annotations = json!({"testbed.rollcall.dev/fail-after": "0s"});
    let failing =
        json!({"spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}}}});
    scene.create(job("migrate").with(failing)).await?;
    scene.pods(&["app"]).await?;
    scene.blocked_by("s", "", "JobFailed").await?;
    scene.stays_held(&["app"]).await?;
    scene.kubectl(&["delete", "job", "migrate"])?;
    scene.create(job("migrate")).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_suspended_job_is_named_and_the_hint_resumes_it() -> Result<()> {
    let scene = Scene::new("jobsuspended").await?;
    scene.sequence("s", &[selected("migrate", "migrate"), named("app", &["app"])]).await?;
    scene.create(job("migrate").with(json!({"spec": {"suspend": true}}))).await?;
    scene.pods(&["app"]).await?;
    scene.blocked_by("s", "", "JobSuspended").await?;
    scene.stays_held(&["app"]).await?;
    scene.kubectl(&["patch", "job/migrate", "-p", r#"{"spec":{"suspend":false}}"#])?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn until_says_what_counts() -> Result<()> {
    let scene = Scene::new("until").await?;
    let never = json!({"spec": {"restartPolicy": "Never"}});
    let groups = [
        named("started", &["a"]).with(json!({"until": "Started"})),
        named("ready", &["b"]).with(json!({"until": "Ready"})),
        named("succeeded", &["c"]).with(json!({"until": "Succeeded"})),
        named("last", &["d"]),
    ];
    scene.sequence("s", &groups).await?;
    scene.create(pod("a").kwok("never-ready", "true")).await?;
    // The group waits only for readiness, so it does not matter that the pod has not completed.
    scene.create(pod("b").with(never.clone())).await?;
    scene.create(pod("c").with(never)).await?;
    scene.pods(&["d"]).await?;
    scene.ready("c").await?;
    scene.stays_held(&["d"]).await?;
    scene.annotate("Pod", "c", "testbed.rollcall.dev/complete-after", Some("0s")).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn a_failed_pod_blocks_and_its_replacement_does_not() -> Result<()> {
    let scene = Scene::new("failed").await?;
    scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
    let fails = pod("a").kwok("fail-after", "0s").with(json!({"spec": {"restartPolicy": "Never"}}));
    scene.create(fails).await?;
    scene.pods(&["b"]).await?;
    let status = scene.blocked_by("s", "a", "PodFailed").await?;
    assert_eq!(status["phase"], "InProgress");
    scene.stays_held(&["b"]).await?;
    scene.delete_and_wait("Pod", "a").await?;
    scene.create(pod("a").completes()).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn terminating_pods_do_not_count() -> Result<()> {
    let scene = Scene::new("terminating").await?;
    let groups = [named("first", &["a"]), named("second", &["b", "c"])];
    scene.create(sequence("s", &groups).with(json!({"spec": {"enforcement": "Continuous"}}))).await?;
    let slow = json!({"spec": {"terminationGracePeriodSeconds": 600}});
    scene.create(pod("a").kwok("slow-delete", "600s").with(slow)).await?;
    scene.pods(&["b"]).await?;
    scene.ready("b").await?;
    scene.delete("Pod", "a").await?;
    scene
        .status("s", "no pod has arrived in the first group", |status| status["groups"][0]["arrived"] == 0)
        .await?;
    assert!(scene::is_ready(&scene.get("Pod", "a").await?), "it is terminating, but still ready");
    scene.pods(&["c"]).await?;
    scene.stays_held(&["c"]).await?;
    scene.kubectl(&["delete", "pod", "a", "--grace-period=0", "--force"])?;
    scene.pods(&["a"]).await?;
    scene.phase("s", "Completed").await?;
    scene.done().await
}

#[tokio::test]
async fn continuous_holds_again_and_bootstrap_does_not() -> Result<()> {
    let scene = Scene::new("again").await?;
    for (name, enforcement) in [("bootstrap", "Bootstrap"), ("continuous", "Continuous")] {
        let pod = |n: &str| format!("{name}-{n}");
        let groups = [named("first", &[&pod("a")]), named("second", &[&pod("b"), &pod("c")])];
        scene.create(sequence(name, &groups).with(json!({"spec": {"enforcement": enforcement}}))).await?;
        scene.pods(&[&pod("a"), &pod("b"), &pod("c")]).await?;
    }
    for name in ["bootstrap", "continuous"] {
        scene.phase(name, "Completed").await?;
        scene.make_unready(&format!("{name}-a")).await?;
        scene.delete_and_wait("Pod", &format!("{name}-c")).await?;
    }
    scene.phase("continuous", "InProgress").await?;
    scene.pods(&["bootstrap-c", "continuous-c"]).await?;
    scene.ready("bootstrap-c").await?;
    scene.stays_held(&["continuous-c"]).await?;
    scene.make_ready("continuous-a").await?;
    scene.phase("continuous", "Completed").await?;
    scene.phase("bootstrap", "Completed").await?;
    scene.done().await
}
