//! The API server limits the cost of CEL expressions, and rejects requests that exceed it. The largest objects that users can
//! create must stay below the limit; otherwise the controller could not release them.

use super::{MERGE, STRATEGIC, create, full, pod_with, send};
use crate::common::*;
use http::Method;
use serde_json::Map;

/// Creates an object with `count` numbered fields.
fn many(count: usize, prefix: &str, value: &str) -> Value {
    (0..count).map(|number| (format!("{prefix}{number}"), value.into())).collect::<Map<_, _>>().into()
}

#[tokio::test]
async fn giant_pods_are_released_all_the_same() -> Result<()> {
    let lab = full().await?;
    let namespace = lab.cluster().namespace("giants").await?;
    let client = lab.controllers_client().await?;
    let gates = json!({ "schedulingGates": [{ "name": GATE }, { "name": "example.com/theirs" }] });
    let expressions: Vec<Value> =
        (0..100).map(|number| json!({ "key": format!("key-{number}"), "operator": "Exists" })).collect();
    let terms = vec![json!({ "matchExpressions": expressions }); 60];
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } });
    let tolerations: Vec<Value> = (0..3000)
        .map(|number| json!({ "key": format!("example.com/{number}"), "operator": "Exists" }))
        .collect();
    let giants = [
        ("labels", json!({ "metadata": { "labels": many(40_000, "a", "") } })),
        ("annotations", json!({ "metadata": { "annotations": many(20_000, "a", "x") } })),
        ("ours", json!({ "metadata": { "annotations": many(5000, "podsequence.example.com/", "x") } })),
        (
            "long",
            json!({ "metadata": { "annotations": many(1, "podsequence.example.com/", &"x".repeat(250_000)) } }),
        ),
        ("terms", json!({ "spec": { "affinity": affinity } })),
        ("tolerations", json!({ "spec": { "tolerations": tolerations } })),
        (
            "env",
            json!({ "spec": { "containers": [{
            "name": "main", "image": "a", "env": [{ "name": "X", "value": "<".repeat(1_200_000) }],
        }] } }),
        ),
    ];
    let release = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": GATE }] } });
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    for (name, fields) in giants {
        create(lab.cluster(), &pods, &pod_with(name, &json!({ "spec": gates.clone() }).with(fields))).await?;
        let path = format!("{pods}/{name}");
        let answer = send(&client, Method::PATCH, &path, STRATEGIC, &release).await?;
        let left = answer.map(|pod| pod["spec"]["schedulingGates"].clone());
        assert_eq!(left, Ok(json!([{ "name": "example.com/theirs" }])), "{name}");
        // The limits still check every annotation of such a pod.
        let evil = json!({ "metadata": { "annotations": { "example.com/evil": "x" } } });
        let answer = send(&client, Method::PATCH, &path, MERGE, &evil).await?;
        let named = |(code, words): &(u16, String)| *code == 403 && words.contains("not example.com/evil");
        assert!(answer.as_ref().is_err_and(named), "{name}: {answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn giant_nodes_are_marked_all_the_same() -> Result<()> {
    let lab = full().await?;
    let client = lab.controllers_client().await?;
    let taints: Vec<Value> = (0..500)
        .map(|number| json!({ "key": format!("example.com/{number}"), "effect": "NoSchedule" }))
        .collect();
    let giants = [
        ("giant-labels", json!({ "metadata": { "labels": many(10_000, "a", "") } })),
        ("giant-marks", json!({ "metadata": { "labels": many(5000, "podsequence.example.com/", "x") } })),
        (
            "giant-journals",
            json!({ "metadata": { "annotations": many(16, "podsequence.example.com/", &"x".repeat(16_000)) } }),
        ),
        ("giant-taints", json!({ "spec": { "taints": taints } })),
    ];
    for (name, fields) in giants {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        create(lab.cluster(), "/api/v1/nodes", &node.with(fields)).await?;
        let path = format!("/api/v1/nodes/{name}");
        // If there are too many entries already, a write may keep or reduce their number.
        let fewer = json!({ "metadata": {
            "labels": { "podsequence.example.com/0": null, "podsequence.example.com/new": "x" },
            "annotations": { "podsequence.example.com/0": "x" },
        } });
        let fewer = if name == "giant-labels" || name == "giant-taints" {
            json!({ "metadata": { "labels": { "podsequence.example.com/new": "x" } } })
        } else {
            fewer
        };
        let answer = send(&client, Method::PATCH, &path, MERGE, &fewer).await?;
        assert!(answer.is_ok(), "{name}: {:?}", answer.err());
        lab.cluster().kubectl_ok(&["delete", "node", name])?;
    }
    Ok(())
}
