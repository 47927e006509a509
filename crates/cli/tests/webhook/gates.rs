//! Which pods and nodes get what.

use crate::common::*;
use crate::server::{Server, gates};
use crate::{cases, hook};
use futures::stream::{self, StreamExt, TryStreamExt};
use rollcall_api::names::{ALLOW_FROM, ALLOW_NODE_TAINTS};

/// Cases at a time: namespaces and probes mostly wait.
const AT_ONCE: usize = 6;

#[tokio::test]
async fn the_webhook_does_what_the_policies_do_and_more() -> Result<()> {
    let lab = hook::install(0).await?;
    let controller = Controller::start(&lab, Options::default()).await?;
    lab.call_webhook(controller.webhook)?;
    let server = Server::of(lab.cluster());
    hook::in_force(&server).await?;
    let control = lab.cluster().namespace("control").await?;
    stream::iter(cases::pods())
        .map(async |case| server.judge(&control, &case).await.map_err(|error| error.context(case.case)))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    from_elsewhere(&server).await?;
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

/// Sequences of another namespace, which the policies cannot see, as long as that is allowed.
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

/// Where nodes may be tainted, members tolerate the taints that are for later groups.
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
