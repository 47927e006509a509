//! Tests of `config/rbac/limits.yaml` on a real API server: the policies allow everything that the controller does, and leave
//! little else to an attacker with a stolen token.

mod giants;
mod namespaces;
mod table;

use crate::common::*;
use http::Method;
use kube::Client;
use rollcall_testbed::Cluster;
use tokio::sync::OnceCell;

/// The API server's answer: the object, or the status code and message of the rejection.
type Answer = std::result::Result<Value, (u16, String)>;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Sends one request with the credentials of the client.
async fn send(client: &Client, method: Method, path: &str, content: &str, body: &Value) -> Result<Answer> {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", content);
    match client.request::<Value>(request.body(body)?).await {
        Ok(object) => Ok(Ok(object)),
        Err(kube::Error::Api(status)) => Ok(Err((status.code, status.message.clone()))),
        Err(error) => Err(error.into()),
    }
}

/// Creates an object as an administrator.
async fn create(cluster: &Cluster, path: &str, object: &Value) -> Result<()> {
    let answer = send(&cluster.client(), Method::POST, path, JSON, object).await?;
    answer.map(drop).map_err(|(code, words)| anyhow::anyhow!("{path}: {code}: {words}"))
}

/// Creates a namespace with these annotations.
async fn namespace(cluster: &Cluster, name: &str, annotations: Value) -> Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "annotations": annotations } });
    create(cluster, "/api/v1/namespaces", &object).await
}

/// Builds a pod with additional fields.
fn pod_with(name: &str, fields: &Value) -> Value {
    let container = json!({ "name": "main", "image": "registry.example.com/pause:1" });
    let bare = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "automountServiceAccountToken": false, "containers": [container] },
    });
    bare.with(fields.clone())
}

/// The cluster that most tests here share: Full mode with both webhooks.
async fn full() -> Result<&'static Lab> {
    static LAB: OnceCell<Lab> = OnceCell::const_new();
    LAB.get_or_try_init(async || {
        let lab = Lab::full(rollcall_testbed::Options { nodes: 1, ..Default::default() }).await?;
        lab.apply_file("config/webhook/webhook.yaml")?;
        lab.apply_file("config/webhook/launch.yaml")?;
        in_force(&lab).await?;
        Ok(lab)
    })
    .await
}

/// Waits until the API server enforces the policies. It notices new policies one by one, so each of them is probed.
async fn in_force(lab: &Lab) -> Result<()> {
    let cluster = lab.cluster();
    let name = cluster.namespace("in-force").await?;
    let pods = format!("/api/v1/namespaces/{name}/pods");
    create(cluster, &pods, &pod_with("probe", &json!({ "spec": { "schedulingGates": [{ "name": GATE }] } })))
        .await?;
    let client = lab.controllers_client().await?;
    let named = |kind: &str, version: &str| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "x" } });
    let label = json!({ "metadata": { "labels": { "evil": "true" } } });
    let own = "/api/v1/namespaces/pod-sequence-system";
    let event = named("Event", "events.k8s.io/v1")
        .with(json!({
            "metadata": { "namespace": name }, "eventTime": "2026-11-16T12:00:00.000000Z", "type": "Normal", "reason": "A",
            "action": "A", "note": "a", "reportingController": "kubelet", "reportingInstance": "x",
            "regarding": { "kind": "Pod", "namespace": name, "name": "probe" },
        }));
    let leases = "/apis/coordination.k8s.io/v1/namespaces/pod-sequence-system/leases";
    let webhook =
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/podsequence-mutating-webhook";
    let mut probes = vec![
        (Method::PATCH, format!("{pods}/probe"), label.clone()),
        (Method::POST, format!("{own}/configmaps"), named("ConfigMap", "v1")),
        (Method::POST, leases.to_owned(), named("Lease", "coordination.k8s.io/v1")),
        (Method::POST, format!("/apis/events.k8s.io/v1/namespaces/{name}/events"), event),
    ];
    if lab.mode == "full" {
        probes.push((Method::PATCH, "/api/v1/nodes/node-0".into(), label.clone()));
        probes.push((Method::PATCH, webhook.to_owned(), label));
        probes.push((Method::POST, format!("{own}/secrets"), named("Secret", "v1")));
        let elsewhere = format!("/api/v1/namespaces/{name}/configmaps");
        probes.push((Method::POST, elsewhere, named("ConfigMap", "v1")));
        probes.push((Method::DELETE, format!("{pods}/probe"), Value::Null));
        probes.push((
            Method::PATCH,
            format!("{pods}/probe/status"),
            json!({ "status": { "phase": "Failed" } }),
        ));
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned();
        probes.push((Method::POST, classes, named("PriorityClass", "scheduling.k8s.io/v1")));
        let group = "/apis/core.korder.dev/v1alpha1";
        if send(&cluster.client(), Method::GET, group, JSON, &Value::Null).await?.is_ok() {
            let ticket = named("Ticket", "core.korder.dev/v1alpha1")
                .with(json!({ "spec": { "resources": { "requests": { "cpu": "1" } } } }));
            probes.push((Method::POST, format!("{group}/namespaces/{name}/tickets"), ticket));
        }
    }
    for (method, path, body) in probes {
        let content = if method == Method::POST { JSON } else { MERGE };
        let mut last = None;
        let refused = wait::until("enforcement of the limits", LIMIT, async || {
            let answer = send(&client, method.clone(), &format!("{path}?dryRun=All"), content, &body).await?;
            let by_policy =
                |(code, words): &(u16, String)| *code == 403 && words.contains("ValidatingAdmissionPolicy");
            let refused = answer.as_ref().is_err_and(by_policy).then_some(());
            last = Some(answer);
            Ok(refused)
        });
        anyhow::Context::with_context(refused.await, || format!("{method} {path}: {last:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_can_hand_over_other_gates() -> Result<()> {
    let lab = full().await?;
    let (cluster, client) = (lab.cluster(), lab.controllers_client().await?);
    let gate = "example.com/hold";
    let cases = [
        (None, false),
        (Some(""), false),
        (Some("example.com/other"), false),
        (Some("example.com/hold-not"), false),
        (Some("example.com/hold"), true),
        (Some("example.com/other, example.com/hold"), true),
        (Some("*"), true),
    ];
    for (number, (allowed, expected)) in cases.into_iter().enumerate() {
        let name = format!("gates-{number}");
        let annotations =
            allowed.map_or(json!({}), |gates| json!({ rollcall_api::names::ALLOW_GATES: gates }));
        namespace(cluster, &name, annotations).await?;
        let pods = format!("/api/v1/namespaces/{name}/pods");
        create(cluster, &pods, &pod_with("a", &json!({ "spec": { "schedulingGates": [{ "name": gate }] } })))
            .await?;
        let release = json!({ "spec": { "schedulingGates": [{ "$patch": "delete", "name": gate }] } });
        let answer = send(&client, Method::PATCH, &format!("{pods}/a"), STRATEGIC, &release).await?;
        assert_eq!(answer.is_ok(), expected, "{allowed:?}: {answer:?}");
    }
    Ok(())
}

/// The API server type-checks the expressions, and reports mismatches in the status of the policies.
#[tokio::test]
async fn the_expressions_fit_the_types() -> Result<()> {
    let lab = full().await?;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policies = wait::until("the type checks", LIMIT, async || {
        let list = send(&lab.cluster().client(), Method::GET, path, JSON, &Value::Null).await?;
        let list = list.map_err(|refused| anyhow::anyhow!("{refused:?}"))?;
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let ours: Vec<Value> =
            all.into_iter().filter(|policy| scene::name_of(policy).starts_with("podsequence-")).collect();
        let checked =
            |policy: &Value| policy["status"]["observedGeneration"] == policy["metadata"]["generation"];
        Ok((ours.len() == 13 && ours.iter().all(checked)).then_some(ours))
    })
    .await?;
    for policy in policies {
        let name = scene::name_of(&policy);
        assert_eq!(policy["status"]["typeChecking"]["expressionWarnings"], Value::Null, "{name}");
    }
    Ok(())
}

/// Applies the policies to the oldest supported version, emulated by this API server: it rejects expressions that an API server
/// of that version would reject.
#[tokio::test]
async fn the_oldest_kubernetes_takes_them() -> Result<()> {
    let oldest = ["--emulated-version=1.33".to_owned()].into();
    let lab = Lab::own(rollcall_testbed::Options { nodes: 0, api_server_args: oldest, ..Default::default() })
        .await?;
    let version = lab.cluster().kubectl_ok(&["get", "--raw", "/version"])?;
    assert!(version.contains("\"emulationMinor\": \"33\""), "{version}");
    in_force(&lab).await
}
