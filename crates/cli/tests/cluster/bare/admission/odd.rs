//! Malformed and unusual requests get the same answers as without Rollcall.

use crate::cases;
use crate::common::server::{self, Answer, Server, collection, gates};
use crate::common::*;
use http::Method;

/// Name and body of each request, and whether it creates a pod.
fn requests() -> Vec<(&'static str, Vec<u8>, bool)> {
    let pod = cases::pod(&json!({ "metadata": { "name": "odd", "labels": { "app": "odd" } } }));
    let with = |patch: Value| pod.clone().with(patch).to_string().into_bytes();
    let gates = |gates: Value| with(json!({ "spec": { "schedulingGates": gates } }));
    let nulls = {
        let mut pod = pod.clone();
        pod["metadata"]["annotations"] = Value::Null;
        pod["spec"]["schedulingGates"] = Value::Null;
        pod["spec"]["nodeName"] = Value::Null;
        pod.to_string().into_bytes()
    };
    vec![
        ("no JSON", b"{\"metadata\":".to_vec(), false),
        ("no body", Vec::new(), false),
        ("a list", b"[]".to_vec(), false),
        (
            "another kind",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "odd" } })
                .to_string()
                .into(),
            false,
        ),
        ("no spec", with(json!({ "spec": null })), false),
        ("no name", with(json!({ "metadata": { "name": null } })), false),
        ("a name that is none", with(json!({ "metadata": { "name": "No Name" } })), false),
        ("labels as a list", with(json!({ "metadata": { "labels": ["app"] } })), false),
        ("a number as a label", with(json!({ "metadata": { "labels": { "app": 1 } } })), false),
        ("a label with a blank", with(json!({ "metadata": { "labels": { "app": "o d" } } })), false),
        ("annotations as text", with(json!({ "metadata": { "annotations": "odd" } })), false),
        ("no containers", with(json!({ "spec": { "containers": [] } })), false),
        ("gates as text", gates(json!("odd")), false),
        ("a gate without a name", gates(json!([{}])), false),
        ("a gate twice", gates(json!([{ "name": "a.example.com/b" }, { "name": "a.example.com/b" }])), false),
        ("our gate twice", gates(json!([{ "name": GATE }, { "name": GATE }])), false),
        ("a gate that is none", gates(json!([{ "name": "no gate" }])), false),
        (
            "a gate and a node",
            with(json!({ "spec": { "nodeName": "n", "schedulingGates": [{ "name": GATE }] } })),
            false,
        ),
        ("another namespace", with(json!({ "metadata": { "namespace": "elsewhere" } })), false),
        ("the name and one to generate", with(json!({ "metadata": { "generateName": "odd-" } })), true),
        ("a field that there is not", with(json!({ "spec": { "odd": true } })), true),
        ("nulls", nulls, true),
        (
            "an environment variable twice",
            {
                let env = json!([{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }]);
                let mut pod = pod.clone();
                pod["spec"]["containers"][0]["env"] = env;
                pod.to_string().into_bytes()
            },
            true,
        ),
        (
            "the same port twice",
            {
                let mut pod = pod.clone();
                pod["spec"]["containers"][0]["ports"] =
                    json!([{ "containerPort": 80 }, { "containerPort": 80 }]);
                pod.to_string().into_bytes()
            },
            true,
        ),
    ]
}

#[tokio::test]
async fn odd_requests_are_answered_as_without_us() -> Result<()> {
    let server = server::start().await?;
    let control = server.cluster.namespace("control").await?;
    let namespace = server.namespace("odd", json!({})).await?;
    let selector = json!({ "matchExpressions": [{ "key": "never", "operator": "DoesNotExist" }] });
    let spec = json!({ "podGroups": [{ "pods": ["odd"] }, { "podSelector": selector }] });
    server.sequences(&namespace, &[cases::sequence(&namespace, "s", spec)]).await?;
    for (what, body, becomes_a_pod) in requests() {
        let here = post(&server, &namespace, &body).await?;
        match (here, post(&server, &control, &body).await?) {
            (Ok(mut pod), Ok(mut other)) => {
                assert!(becomes_a_pod, "{what}: {pod}");
                assert_eq!(gates(&pod), [GATE], "{what}");
                pod["spec"]["schedulingGates"] = Value::Null;
                other["spec"]["schedulingGates"] = Value::Null;
                assert_eq!(pod["spec"], other["spec"], "{what}");
            }
            (Err((code, words)), Err(other)) => {
                assert!(!becomes_a_pod, "{what}: {words}");
                assert_eq!((code, words.replace(&namespace, &control)), other, "{what}");
            }
            (here, there) => panic!("{what}: {here:?}, but {there:?} without Rollcall"),
        }
    }
    Ok(())
}

async fn post(server: &Server<'_>, namespace: &str, body: &[u8]) -> Result<Answer> {
    let path = format!("{}?dryRun=All", collection("pods", namespace));
    server.send(Method::POST, &path, "application/json", body.to_vec(), None).await
}
