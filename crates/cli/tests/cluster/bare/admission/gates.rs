//! The gates that pods get at admission.

use crate::cases;
use crate::common::server::{self, collection, gates};
use crate::common::*;
use futures::stream::{self, StreamExt, TryStreamExt};

/// Number of concurrent cases; namespaces and probes mostly wait.
const AT_ONCE: usize = 6;

#[tokio::test]
async fn pods_get_their_gates_and_nothing_else() -> Result<()> {
    let server = server::start().await?;
    let control = server.cluster.namespace("control").await?;
    stream::iter(cases::pods())
        .map(async |case| server.judge(&control, &case).await.map_err(|error| error.context(case.case)))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

#[tokio::test]
async fn pods_wait_for_tickets() -> Result<()> {
    let server = server::start().await?;
    server.judge_tickets(Lab::bare().await?).await
}

#[tokio::test]
async fn pods_of_workloads_get_their_gates() -> Result<()> {
    let server = server::start().await?;
    let namespace = server.namespace("workloads", json!({})).await?;
    let group = |app: &str| json!({ "podSelector": { "matchLabels": { "app": app } } });
    let spec = json!({ "podGroups": [group("web"), group("agent")] });
    server.sequences(&namespace, &[cases::sequence(&namespace, "s", spec)]).await?;
    for (resource, kind, app, replicas) in [
        ("deployments", "Deployment", "web", Some(2)),
        ("daemonsets", "DaemonSet", "agent", None),
        ("deployments", "Deployment", "other", Some(2)),
    ] {
        let mut template = cases::pod(&json!({ "metadata": { "labels": { "app": app } } }));
        let fields = template.as_object_mut().expect("a template");
        fields.retain(|field, _| field == "metadata" || field == "spec");
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": { "name": app },
            "spec": { "selector": { "matchLabels": { "app": app } }, "template": template },
        });
        let object = match replicas {
            Some(replicas) => object.with(json!({ "spec": { "replicas": replicas } })),
            None => object,
        };
        server.create(resource, &namespace, &object).await?;
        let path = format!("{}?labelSelector=app%3D{app}", collection("pods", &namespace));
        let expected = replicas.unwrap_or(3);
        let pods = wait::until("the pods", LIMIT, async || {
            let list = server.get(&path).await?;
            let pods = list["items"].as_array().cloned().unwrap_or_default();
            Ok((pods.len() >= expected).then_some(pods))
        });
        for pod in pods.await? {
            let expected: &[&str] = if app == "other" { &[] } else { &[GATE] };
            assert_eq!(gates(&pod), expected, "{app}");
        }
    }
    Ok(())
}

/// Foreign policies that change the pod before and after ours cause the API server to re-evaluate the policies.
#[tokio::test]
async fn a_gate_is_never_added_twice() -> Result<()> {
    let server = server::start().await?;
    for name in ["aaa", "zzz"] {
        server.cluster.apply(&labeller(name))?;
    }
    let namespace = server.namespace("again", json!({ "labels": { "labelled-late": "true" } })).await?;
    let by_name = json!({ "podGroups": [{ "pods": ["a"] }] });
    let by_label = json!({ "podGroups": [{ "podSelector": { "matchLabels": { "app": "a" } } }] });
    let other = by_label.clone().with(json!({ "schedulingGateName": "other.example.com/gate" }));
    let specs = [("one", by_name), ("two", by_label), ("three", other)];
    let sequences: Vec<Value> =
        specs.into_iter().map(|(name, spec)| cases::sequence(&namespace, name, spec)).collect();
    server.sequences(&namespace, &sequences).await?;
    let pod = cases::pod(&json!({ "metadata": { "name": "a", "labels": { "app": "a" } } }));
    wait::until("the other policies", LIMIT, async || {
        let Ok(pod) = server.try_pod(&namespace, &pod).await? else { return Ok(None) };
        let labels = &pod["metadata"]["labels"];
        Ok((labels["late-aaa"] == "true" && labels["late-zzz"] == "true").then_some(()))
    })
    .await?;
    let mut found = gates(&server.create("pods", &namespace, &pod).await?);
    found.sort();
    assert_eq!(found, ["other.example.com/gate", GATE]);
    Ok(())
}

/// A foreign policy that adds a label to pods.
fn labeller(name: &str) -> String {
    let label = format!("late-{name}");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "labelled-late": "true" } },
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                }],
            },
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": format!("Object{{metadata: Object.metadata{{labels: {{\"{label}\": \"true\"}}}}}}"),
                },
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": { "name": name },
        "spec": { "policyName": name },
    });
    format!("{policy}\n---\n{binding}\n")
}

#[tokio::test]
async fn only_namespaces_that_want_it_and_never_those_of_the_system() -> Result<()> {
    let server = server::start().await?;
    let spec = json!({ "podGroups": [{ "podSelector": { "matchLabels": { "app": "everywhere" } } }] });
    let unlabelled = server.cluster.namespace("unlabelled").await?;
    let disabled = server.cluster.namespace("disabled").await?;
    let label = async |namespace: &str, value: &str| {
        let labels = json!({ "metadata": { "labels": { "podsequence-enabled": value } } });
        server.patch(&format!("/api/v1/namespaces/{namespace}"), &labels).await
    };
    label(&disabled, "false").await?;
    let others = [unlabelled.as_str(), disabled.as_str(), "pod-sequence-system", "kube-system"];
    for system in &others[2..] {
        label(system, "true").await?;
    }
    for namespace in others {
        server.create("podsequences", namespace, &cases::sequence(namespace, "s", spec.clone())).await?;
    }
    // When the policies know this sequence, they also know the earlier ones in the other namespaces.
    let enabled = server.namespace("enabled", json!({})).await?;
    server.sequences(&enabled, &[cases::sequence(&enabled, "s", spec)]).await?;
    let pod = cases::pod(&json!({ "metadata": { "name": "a", "labels": { "app": "everywhere" } } }));
    // As restricted as the controller's namespace requires.
    let pod = pod.with(json!({ "spec": { "securityContext": {
        "runAsNonRoot": true, "runAsUser": 1, "seccompProfile": { "type": "RuntimeDefault" } } } }));
    let mut pod = pod;
    pod["spec"]["containers"][0]["securityContext"] =
        json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    for (namespace, expected) in
        others.iter().map(|other| (*other, &[][..])).chain([(enabled.as_str(), &[GATE][..])])
    {
        let answer = server.try_pod(namespace, &pod).await?;
        let made = answer.map_err(|error| anyhow::anyhow!("{namespace}: {error:?}"))?;
        assert_eq!(gates(&made), expected, "{namespace}");
    }
    for system in &others[2..] {
        label(system, "false").await?;
    }
    Ok(())
}
