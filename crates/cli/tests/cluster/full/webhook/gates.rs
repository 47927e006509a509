//! The gates and taints that pods and nodes get at creation.

use super::hook;
use crate::cases;
use crate::common::server::{Server, collection, gates};
use crate::common::*;
use futures::stream::{self, StreamExt, TryStreamExt};
use rollcall_api::names::{ALLOW_FROM, ALLOW_NODE_TAINTS};

/// Number of concurrent cases; namespaces and probes mostly wait.
const AT_ONCE: usize = 6;

#[tokio::test]
async fn the_webhook_does_what_the_policies_do_and_more() -> Result<()> {
    let lab = hook::install(0).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    lab.call_webhook(controller.webhook)?;
    let server = Server::new(lab.cluster());
    hook::in_force(&server).await?;
    let control = lab.cluster().namespace("control").await?;
    stream::iter(cases::pods())
        .map(async |case| server.judge(&control, &case).await.map_err(|error| error.context(case.case)))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    server.judge_tickets(&lab).await?;
    from_elsewhere(&server).await?;
    by_workload(&server).await?;
    by_workloads_called_alike(&server).await?;
    tolerations(&server).await?;
    for (number, case) in cases::nodes().into_iter().enumerate() {
        let node = server.create("nodes", "", &case.node(&format!("node-{number}"))).await?;
        assert_eq!(node["metadata"]["labels"], json!(case.labels), "{}", case.case);
    }
    let metrics = controller.metrics().await?;
    assert!(metrics["rollcall_webhook_reviews_total{outcome=\"changed\"}"] > 0.0);
    assert!(metrics["rollcall_webhook_reviews_total{outcome=\"unchanged\"}"] > 0.0);
    Ok(())
}

/// Sequences that select pods of another namespace, which the policies cannot see, while that namespace permits it.
async fn from_elsewhere(server: &Server<'_>) -> Result<()> {
    let (home, abroad) =
        (server.namespace("home", json!({})).await?, server.namespace("abroad", json!({})).await?);
    let allow = |allowed: Value| json!({ "metadata": { "annotations": { ALLOW_FROM: allowed } } });
    let path = format!("/api/v1/namespaces/{abroad}");
    let spec = json!({ "namespace": abroad, "podGroups": [{ "pods": ["guest"] }] });
    server.sequences(&home, &[cases::sequence(&home, "s", spec)]).await?;
    let pod = cases::pod(&json!({ "metadata": { "name": "guest" } }));
    for (allowed, held) in
        [(json!(home), true), (json!("other"), false), (json!("*"), true), (Value::Null, false)]
    {
        server.patch(&path, &allow(allowed.clone())).await?;
        wait::until(&format!("allow-from {allowed}"), LIMIT, async || {
            let pod = server.try_pod(&abroad, &pod).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
            Ok((gates(&pod).is_empty() != held).then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// Pods of a workload that a sequence names are recognised through their owners: by name alone, before the controller has seen
/// them.
async fn by_workload(server: &Server<'_>) -> Result<()> {
    let namespace = server.namespace("owned", json!({})).await?;
    let group = |api_version: &str, kind: &str, name: &str| json!({ "workloadRef": { "apiVersion": api_version, "kind": kind, "name": name } });
    let groups = [
        group("apps/v1", "Deployment", "web"),
        group("apps/v1", "StatefulSet", "db"),
        group("batch/v1", "CronJob", "nightly"),
    ];
    let spec = json!({ "podGroups": groups });
    server.sequences(&namespace, &[cases::sequence(&namespace, "s", spec)]).await?;
    for (api_version, kind, name, hash, held) in [
        ("apps/v1", "ReplicaSet", "web-5d9c7", Some("5d9c7"), true),
        ("apps/v1", "ReplicaSet", "web-5d9c7", Some("other"), false),
        ("apps/v1", "ReplicaSet", "web-5d9c7", None, false),
        ("apps/v1", "ReplicaSet", "webs-5d9c7", Some("5d9c7"), false),
        ("apps/v1", "StatefulSet", "db", None, true),
        ("apps/v1", "StatefulSet", "db2", None, false),
        ("example.com/v1", "StatefulSet", "db", None, false),
        ("batch/v1", "Job", "nightly-29384756", None, true),
        ("batch/v1", "Job", "nightly-by-hand", None, false),
        ("apps/v1", "DaemonSet", "web", None, false),
    ] {
        let uid = "00000000-0000-4000-8000-000000000001";
        let owner =
            json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true });
        let labels = hash.map(|hash| json!({ "pod-template-hash": hash })).unwrap_or(json!({}));
        let metadata = json!({ "generateName": "pod-", "labels": labels, "ownerReferences": [owner] });
        let pod = cases::pod(&json!({ "metadata": metadata }));
        let pod = server.try_pod(&namespace, &pod).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        assert_eq!(!gates(&pod).is_empty(), held, "{kind} {name} {hash:?}");
    }
    Ok(())
}

/// Two Deployments, where the name of one is a prefix of the other's. Each keeps its own pods once the controller has seen
/// them.
async fn by_workloads_called_alike(server: &Server<'_>) -> Result<()> {
    let namespace = server.namespace("alike", json!({})).await?;
    let names = ["api", "api-worker"];
    let group = |name: &str| {
        let workload = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name });
        json!({ "name": name, "workloadRef": workload })
    };
    let spec = json!({ "suspend": true, "podGroups": names.map(group) });
    server.sequences(&namespace, &[cases::sequence(&namespace, "s", spec)]).await?;
    for name in names {
        let labels = json!({ "app": name });
        let template = json!({ "metadata": { "labels": labels }, "spec": cases::pod(&json!({}))["spec"] });
        let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
        let deployment = json!({ "metadata": { "name": name, "namespace": namespace }, "spec": spec });
        server.create("deployments", &namespace, &deployment).await?;
    }
    let sequence = format!("{}/s", collection("podsequences", &namespace));
    wait::until("the controller to see the pods", LIMIT, async || {
        let status = server.get(&sequence).await?["status"].take();
        Ok(names.iter().enumerate().all(|(group, _)| status["groups"][group]["present"] == 1).then_some(()))
    })
    .await?;
    let pods = server.get(&collection("pods", &namespace)).await?;
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    assert_eq!(pods.len(), names.len());
    for pod in pods {
        let metadata = &pod["metadata"];
        let again = json!({
            "generateName": "again-", "labels": metadata["labels"], "ownerReferences": metadata["ownerReferences"],
        });
        let again = cases::pod(&json!({ "metadata": again }));
        let again =
            server.try_pod(&namespace, &again).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        assert_eq!(gates(&again), [GATE], "another pod like {}", metadata["name"]);
    }
    Ok(())
}

/// Where nodes may be tainted, members tolerate the taints of later groups.
async fn tolerations(server: &Server<'_>) -> Result<()> {
    let permitted = json!({ "annotations": { ALLOW_NODE_TAINTS: "true" } });
    for (metadata, expected) in [(permitted, true), (json!({}), false)] {
        let namespace = server.namespace("taints", metadata).await?;
        let group = |app: &str| json!({ "name": app, "podSelector": { "matchLabels": { "app": app } } });
        let spec =
            json!({ "scope": "Node", "nodeGuard": "Taints", "podGroups": [group("agent"), group("web")] });
        server.sequences(&namespace, &[cases::sequence(&namespace, "s", spec)]).await?;
        for (app, expected) in [("agent", expected), ("web", false)] {
            let pod = cases::pod(&json!({ "metadata": { "name": app, "labels": { "app": app } } }));
            let pod =
                server.try_pod(&namespace, &pod).await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
            assert_eq!(gates(&pod), [GATE], "{app}");
            let key = format!("podsequence.example.com/{namespace}.s.web-blocked");
            let ours = json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
            let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
            assert_eq!(tolerations.contains(&ours), expected, "{app}: {tolerations:?}");
        }
    }
    Ok(())
}
