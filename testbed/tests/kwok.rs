//! Pods on kwok nodes behave as their annotations specify.

use std::time::{Duration, Instant};

use crate::common::{LIMIT, condition, is_ready, phase, pod, status};
use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rollcall_testbed::{namespace, shared, wait};
use serde_json::json;

async fn pods() -> Api<Pod> {
    let namespace = namespace("kwok").await;
    Api::namespaced(shared().await.client(), &namespace)
}

async fn annotate(pods: &Api<Pod>, name: &str, key: &str, value: Option<&str>) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {format!("testbed.rollcall.dev/{key}"): value}}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The time when the API server committed the first status of this pod that `wanted` accepts.
async fn committed_at(name: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Timestamp> {
    let mut audit = shared().await.audit();
    let event = audit.wait_for(LIMIT, |event| {
        let object = serde_json::from_value::<Pod>(event.response_object.clone());
        event.resource == "pods" && event.name == name && object.is_ok_and(|pod| wanted(&pod))
    });
    Ok(event.await?.stage_time)
}

#[tokio::test]
async fn a_deployment_becomes_ready() -> Result<()> {
    let cluster = shared().await;
    let namespace = namespace("deployment").await;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))?;
    let deployments = Api::namespaced(cluster.client(), &namespace);
    deployments.create(&PostParams::default(), &deployment).await?;
    wait::for_object(&deployments, "web", LIMIT, |deployment: &Deployment| {
        deployment.status.as_ref().is_some_and(|status| status.ready_replicas == Some(5))
    })
    .await?;
    let list = cluster.kubectl_ok(&["-n", &namespace, "get", "pods", "--no-headers"])?;
    let running = |line: &&str| line.split_whitespace().skip(1).take(2).eq(["1/1", "Running"]);
    assert_eq!(list.lines().filter(running).count(), 5, "{list}");
    Ok(())
}

#[tokio::test]
async fn a_plain_pod_looks_like_a_kubelets() -> Result<()> {
    let pods = pods().await;
    pods.create(&PostParams::default(), &pod("plain", &[])).await?;
    let pod = wait::for_object(&pods, "plain", LIMIT, is_ready).await?;
    for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady"] {
        assert_eq!(condition(&pod, kind), "True", "{kind}");
    }
    let status = status(&pod);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.pod_ip.is_some() && status.host_ip.is_some() && status.start_time.is_some(), "{status:?}");
    let containers = status.container_statuses.context("no container statuses")?;
    assert!(containers[0].ready && containers[0].started == Some(true), "{containers:?}");
    assert!(containers[0].state.as_ref().is_some_and(|state| state.running.is_some()), "{containers:?}");
    Ok(())
}

#[tokio::test]
async fn start_and_ready_take_their_time() -> Result<()> {
    let pods = pods().await;
    let annotations = [("start-after", "1s"), ("ready-after", "2s")];
    let created = pods.create(&PostParams::default(), &pod("late", &annotations)).await?;
    wait::for_object(&pods, "late", LIMIT, is_ready).await?;
    let created = created.metadata.creation_timestamp.context("no creation time")?.0;
    let running = committed_at("late", |pod| phase(pod) == "Running" && !is_ready(pod)).await?;
    let ready = committed_at("late", is_ready).await?;
    // The creation time is rounded down to whole seconds, so the real time is up to 1 s later.
    let (start, wait) = (running.duration_since(created), ready.duration_since(running));
    assert!(start.as_millis() >= 1000, "started after {start:?}");
    assert!(wait.as_millis() >= 1900, "ready {wait:?} after the start");
    Ok(())
}

#[tokio::test]
async fn readiness_follows_the_annotations() -> Result<()> {
    let pods = pods().await;
    pods.create(&PostParams::default(), &pod("flap", &[("never-ready", "true")])).await?;
    let unready = |pod: &Pod| phase(pod) == "Running" && !is_ready(pod);
    let pod = wait::for_object(&pods, "flap", LIMIT, unready).await?;
    let containers = status(&pod).container_statuses.context("no container statuses")?;
    assert!(containers[0].started == Some(true) && !containers[0].ready, "{containers:?}");

    annotate(&pods, "flap", "never-ready", None).await?;
    wait::for_object(&pods, "flap", LIMIT, is_ready).await?;
    annotate(&pods, "flap", "never-ready", Some("true")).await?;
    wait::for_object(&pods, "flap", LIMIT, unready).await?;
    annotate(&pods, "flap", "ready", Some("true")).await?;
    wait::for_object(&pods, "flap", LIMIT, is_ready).await?;
    annotate(&pods, "flap", "ready", Some("false")).await?;
    wait::for_object(&pods, "flap", LIMIT, unready).await?;
    Ok(())
}

#[tokio::test]
async fn pods_fail_and_complete_when_told() -> Result<()> {
    let pods = pods().await;
    pods.create(&PostParams::default(), &pod("fails", &[("fail-after", "300ms")])).await?;
    pods.create(&PostParams::default(), &pod("completes", &[("complete-after", "300ms")])).await?;
    for (name, end, code) in [("fails", "Failed", 1), ("completes", "Succeeded", 0)] {
        let pod = wait::for_object(&pods, name, LIMIT, |pod| phase(pod) == end).await?;
        let containers = status(&pod).container_statuses.context("no container statuses")?;
        let terminated = containers[0].state.as_ref().and_then(|state| state.terminated.as_ref());
        assert_eq!(terminated.map(|state| state.exit_code), Some(code), "{containers:?}");
        assert!(!is_ready(&pod), "{name} is still ready");
        // The pod was ready before it ended.
        committed_at(name, is_ready).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_job_completes_by_itself() -> Result<()> {
    let namespace = namespace("job").await;
    let jobs = Api::namespaced(shared().await.client(), &namespace);
    let template = json!({
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "migrate"}]},
    });
    let job: Job =
        serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": {"template": template}}))?;
    jobs.create(&PostParams::default(), &job).await?;
    let done = |job: &Job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1));
    wait::for_object(&jobs, "j", LIMIT, done).await?;
    Ok(())
}

#[tokio::test]
async fn deletion_is_prompt_unless_told_otherwise() -> Result<()> {
    let pods = pods().await;
    for (name, annotations) in [("quick", &[][..]), ("slow", &[("slow-delete", "2s")][..])] {
        pods.create(&PostParams::default(), &pod(name, annotations)).await?;
        wait::for_object(&pods, name, LIMIT, is_ready).await?;
    }
    let begin = Instant::now();
    pods.delete("quick", &DeleteParams::default()).await?;
    wait::for_absence(&pods, "quick", LIMIT).await?;
    assert!(begin.elapsed() < Duration::from_secs(30), "it took the whole grace period");
    let begin = Instant::now();
    let answer = pods.delete("slow", &DeleteParams::default()).await?;
    assert!(answer.left().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some()), "not terminating");
    wait::for_absence(&pods, "slow", LIMIT).await?;
    assert!(begin.elapsed() >= Duration::from_secs(2), "slow was deleted after {:?}", begin.elapsed());
    Ok(())
}
