//! What the controller's account may change of pods and nodes.

use crate::cases;
use crate::common::*;
use crate::server::{self, Answer, Server, collection};
use http::Method;
use serde::Deserialize;
use std::collections::BTreeMap;
use tokio::sync::Mutex;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    pods: BTreeMap<String, Value>,
    node: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    /// Of a node if it names none.
    pod: Option<String>,
    merge: Option<Value>,
    json: Option<Value>,
    strategic: Option<Value>,
    refused: Option<String>,
}

/// More than Lite mode grants, so that it is the policy that says no.
const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: every-patch}
rules:
- {apiGroups: [''], resources: [pods, nodes], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: every-patch}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: every-patch}
subjects: [{kind: ServiceAccount, namespace: pod-sequence-system, name: pod-sequence-controller}]
";

/// One after the other: two that create the same object at once get in each other's way.
async fn grant(server: &Server<'_>) -> Result<()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let _turn = TURN.lock().await;
    server.cluster.apply(RIGHTS)
}

/// Out of the way of the scheduler's and the controllers' taints and labels: nobody else writes to it.
const NODE: &str = "limited";

#[tokio::test]
async fn the_controller_changes_only_what_is_its_own() -> Result<()> {
    let server = server::start().await?;
    grant(&server).await?;
    let table: Table = serde_saphyr::from_str(include_str!("limits.yaml"))?;
    let namespace = server.cluster.namespace("limits").await?;
    for (name, fields) in &table.pods {
        let mut pod = cases::pod(fields);
        pod["metadata"]["name"] = name.as_str().into();
        server.create("pods", &namespace, &pod).await?;
    }
    let pod = |name: &str| format!("{}/{name}", collection("pods", &namespace));
    in_force(&server, &pod("plain")).await?;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } }).with(table.node);
    server.create("nodes", "", &node).await?;
    let mut wrong = Vec::new();
    for case in &table.cases {
        let path = case.pod.as_deref().map_or_else(|| format!("/api/v1/nodes/{NODE}"), &pod);
        let ours = patch(&server, &path, case, Some(ACCOUNT)).await?;
        let theirs = patch(&server, &path, case, None).await?;
        if let Some(problem) = judge(case, &ours, &theirs) {
            wrong.push(format!("{}: {problem}", case.case));
        }
    }
    for name in table.pods.keys() {
        server.patch(&pod(name), &json!({ "metadata": { "finalizers": null } })).await?;
    }
    server.cluster.kubectl_ok(&["delete", "node", NODE])?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn judge(case: &Case, ours: &Answer, theirs: &Answer) -> Option<String> {
    match (&case.refused, ours, theirs) {
        (_, _, Err(error)) => Some(format!("refused to everybody: {error:?}")),
        (None, Ok(_), Ok(_)) => None,
        (None, Err(error), _) => Some(format!("refused: {error:?}")),
        (Some(_), Ok(_), _) => Some("not refused".into()),
        (Some(words), Err((403, said)), _) if said.contains(words) => None,
        (Some(_), Err(error), _) => Some(format!("refused in other words: {error:?}")),
    }
}

/// Nothing is stored.
async fn patch(server: &Server<'_>, path: &str, case: &Case, user: Option<&str>) -> Result<Answer> {
    let (content, patch) = match (&case.merge, &case.json, &case.strategic) {
        (Some(patch), None, None) => ("application/merge-patch+json", patch),
        (None, Some(patch), None) => ("application/json-patch+json", patch),
        (None, None, Some(patch)) => ("application/strategic-merge-patch+json", patch),
        _ => anyhow::bail!("{}: exactly one patch", case.case),
    };
    let path = format!("{path}?dryRun=All");
    server.send(Method::PATCH, &path, content, serde_json::to_vec(patch)?, user).await
}

/// Waits until the policies say no.
pub async fn in_force(server: &Server<'_>, pod: &str) -> Result<()> {
    for path in [format!("{pod}?dryRun=All"), "/api/v1/nodes/node-0?dryRun=All".to_owned()] {
        wait::until("the policies to be in force", LIMIT, async || {
            let labels = serde_json::to_vec(&json!({ "metadata": { "labels": { "evil": "true" } } }))?;
            let content = "application/merge-patch+json";
            let answer = server.send(Method::PATCH, &path, content, labels, Some(ACCOUNT)).await?;
            Ok(answer.is_err_and(|(code, _)| code == 403).then_some(()))
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_can_hand_over_other_gates() -> Result<()> {
    let server = server::start().await?;
    grant(&server).await?;
    let gate = "example.com/hold";
    for (allowed, expected) in [
        (None, false),
        (Some(""), false),
        (Some("example.com/other"), false),
        (Some("example.com/hold-not"), false),
        (Some("example.com/hold"), true),
        (Some("example.com/other, example.com/hold"), true),
        (Some("*"), true),
    ] {
        let annotations = match allowed {
            Some(allowed) => json!({ "annotations": { rollcall_api::names::ALLOW_GATES: allowed } }),
            None => json!({}),
        };
        let namespace = server.namespace("gates", annotations).await?;
        server.until_seen(&namespace).await?;
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "schedulingGates": [{ "name": gate }] } });
        server.create("pods", &namespace, &cases::pod(&pod)).await?;
        let path = format!("{}/a", collection("pods", &namespace));
        in_force(&server, &path).await?;
        let release = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": gate }] } });
        let content = "application/strategic-merge-patch+json";
        let body = serde_json::to_vec(&release)?;
        let answer = server.send(Method::PATCH, &path, content, body, Some(ACCOUNT)).await?;
        assert_eq!(answer.is_ok(), expected, "{allowed:?}: {answer:?}");
    }
    Ok(())
}

/// The API server compares the expressions with the types of pods and nodes and says what does not fit.
#[tokio::test]
async fn the_expressions_fit_the_types() -> Result<()> {
    let server = server::start().await?;
    for name in ["podsequence-controller-pods", "podsequence-controller-nodes"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}");
        let status = wait::until("the types to be checked", LIMIT, async || {
            let policy = server.get(&path).await?;
            let checked = policy["status"]["observedGeneration"] == policy["metadata"]["generation"];
            Ok(checked.then(|| policy["status"].clone()))
        })
        .await?;
        assert_eq!(status["typeChecking"]["expressionWarnings"], Value::Null, "{name}");
    }
    Ok(())
}
