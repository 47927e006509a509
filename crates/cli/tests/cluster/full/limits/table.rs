//! Requests with the controller's token: everything that the controller does, and every attack that was ever tried.

use super::{Answer, JSON, MERGE, STRATEGIC, create, in_force, pod_with, send};
use crate::common::*;
use http::Method;
use kube::Client;
use rollcall_api::watch::journal_text;
use rollcall_core::journal::{GroupId, Journal, RecordedGroup};
use rollcall_testbed::Cluster;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    pods: BTreeMap<String, Value>,
    node: Value,
    /// Created in addition to the pods.
    configmaps: BTreeMap<String, Value>,
    tickets: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    /// The target: one of the pods, or a path; otherwise the node.
    pod: Option<String>,
    on: Option<String>,
    /// The body, at most one of these; without a body, the request is a read.
    merge: Option<Value>,
    json: Option<Value>,
    strategic: Option<Value>,
    apply: Option<Value>,
    post: Option<Value>,
    put: Option<Value>,
    #[serde(default)]
    delete: bool,
    /// Expected message if the limits reject the request.
    refused: Option<String>,
    /// Expected message if RBAC forbids the request, in both modes.
    rights: Option<String>,
    /// Set if the request is sent before the controller has written its Secret and its lease.
    when: Option<First>,
}

/// Placeholders of the table and their values.
type Words = BTreeMap<&'static str, String>;

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum First {
    First,
}

/// A separate Node object; the scheduler and the Kubernetes controllers write no labels or taints to it.
const NODE: &str = "limited";
const APPLY: &str = "application/apply-patch+yaml";
const OWN: &str = "/api/v1/namespaces/pod-sequence-system";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/pod-sequence-system/leases";

#[tokio::test]
async fn the_token_is_good_for_what_the_controller_does_and_for_little_else() -> Result<()> {
    let table: Table = serde_saphyr::from_str(include_str!("table.yaml"))?;
    let mut lab = Lab::own(rollcall_testbed::Options { nodes: 1, ..Default::default() }).await?;
    lab.apply_file("config/crd/korder-crd.yaml")?;
    for definition in ["orders", "tickets"].map(|plural| format!("crd/{plural}.core.korder.dev")) {
        lab.cluster().kubectl_ok(&["wait", "--for=condition=Established", &definition])?;
    }
    let namespace = lab.cluster().namespace("limits").await?;
    let words = prepare(&lab, &namespace, &table).await?;
    let filled = |value: &Value| filled(value, &words);
    let mut wrong = Vec::new();
    for mode in ["lite", "full"] {
        if mode == "full" {
            lab.mode = mode;
            lab.apply_file("config/rbac/rbac.yaml")?;
            lab.apply_file("config/webhook/webhook.yaml")?;
            lab.apply_file("config/webhook/launch.yaml")?;
        }
        in_force(&lab).await?;
        let (ours, theirs) = (lab.controllers_client().await?, lab.cluster().client());
        for when in [Some(First::First), None] {
            match when {
                Some(First::First) => forget(&lab)?,
                None => keep(&lab).await?,
            }
            for case in table.cases.iter().filter(|case| case.when == when) {
                let request = Request::from_case(case, &namespace, filled)?;
                let answer = request.send(&ours).await?;
                let by_limits = case.refused.is_some() && !(mode == "lite" && request.is_of_full_mode());
                let control = if by_limits { Some(request.send(&theirs).await?) } else { None };
                if let Some(problem) = judge(case, &request, mode, &answer, control.as_ref()) {
                    wrong.push(format!("{mode}: {}: {problem}", case.case));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.cases.len(), wrong.join("\n"));
    Ok(())
}

struct Request {
    method: Method,
    path: String,
    content: &'static str,
    body: Value,
}

impl Request {
    fn from_case(case: &Case, namespace: &str, filled: impl Fn(&Value) -> Value) -> Result<Request> {
        let Case { case: name, pod, on, merge, json, strategic, apply, post, put, delete, .. } = case;
        let path = match (pod, on) {
            (Some(pod), None) => format!("/api/v1/namespaces/{namespace}/pods/{pod}"),
            (None, Some(path)) => path.replace("{namespace}", namespace),
            (None, None) => format!("/api/v1/nodes/{NODE}"),
            (Some(_), Some(_)) => anyhow::bail!("{name}: pod and on"),
        };
        let ways = [
            (Method::PATCH, MERGE, merge),
            (Method::PATCH, "application/json-patch+json", json),
            (Method::PATCH, STRATEGIC, strategic),
            (Method::PATCH, APPLY, apply),
            (Method::POST, JSON, post),
            (Method::PUT, JSON, put),
        ];
        let mut given = ways
            .into_iter()
            .filter_map(|(method, content, body)| Some((method, content, filled(body.as_ref()?))));
        let (method, content, body) = match (given.next(), delete) {
            (Some(way), false) => way,
            (None, true) => (Method::DELETE, JSON, Value::Null),
            (None, false) => (Method::GET, JSON, Value::Null),
            (Some(_), true) => anyhow::bail!("{name}: a body and delete"),
        };
        anyhow::ensure!(given.next().is_none(), "{name}: two bodies");
        let query = match (&method, content) {
            (&Method::GET, _) => "",
            (_, APPLY) => "?dryRun=All&fieldManager=evil&force=true",
            _ => "?dryRun=All",
        };
        Ok(Request { path: format!("{path}{query}"), method, content, body })
    }

    async fn send(&self, client: &Client) -> Result<Answer> {
        let Request { method, path, content, body } = self;
        send(client, method.clone(), path, content, body).await
    }

    fn is_of_pods(&self) -> bool {
        self.path.contains("/pods/") || self.path.contains("/pods?")
    }

    /// Whether this is a patch of an existing pod; server-side apply to a missing pod would create it.
    fn is_patch_of_pod(&self) -> bool {
        let reads = self.method == Method::GET;
        reads
            || self.method == Method::PATCH
                && !self.path.contains("/status?")
                && !self.path.contains("/pods/new?")
    }

    /// Whether Lite mode has no permission for this resource at all.
    fn is_of_full_mode(&self) -> bool {
        self.path.starts_with("/api/v1/nodes")
            || self.path.contains("/secrets")
            || self.path.contains("webhookconfigurations")
            || self.path.contains("core.korder.dev")
            || self.path.contains("priorityclasses")
            || self.is_of_pods() && !self.is_patch_of_pod()
            || self.path.contains("/configmaps") && !self.path.starts_with(OWN)
    }
}

fn judge(
    case: &Case,
    request: &Request,
    mode: &str,
    answer: &Answer,
    control: Option<&Answer>,
) -> Option<String> {
    if let Some(Err(error)) = control {
        return Some(format!("rejected for administrators too: {error:?}"));
    }
    let by_rights = |words: &str| match answer {
        Err((403, said)) if said.contains(words) && !said.contains("ValidatingAdmissionPolicy") => None,
        answer => Some(format!("expected RBAC to forbid it with {words:?}: {answer:?}")),
    };
    match (&case.rights, &case.refused) {
        (Some(words), _) => by_rights(words),
        (None, _) if mode == "lite" && request.is_of_full_mode() => by_rights("cannot "),
        (None, None) => answer.as_ref().err().map(|error| format!("refused: {error:?}")),
        (None, Some(words)) => match answer {
            Ok(_) => Some("not rejected".into()),
            Err((403, said))
                if said.contains("ValidatingAdmissionPolicy") && said.contains(words.as_str()) =>
            {
                None
            }
            Err(error) => Some(format!("rejected with another message: {error:?}")),
        },
    }
}

/// Replaces the placeholders in a value. They stand for values that are too long for the table or are not known in advance.
fn filled(value: &Value, words: &Words) -> Value {
    let each = |value: &Value| filled(value, words);
    let many = |count: usize, value: &str| -> Value {
        (0..count)
            .map(|number| (format!("podsequence.example.com/many-{number}"), value.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    match value {
        Value::String(word) => match word.as_str() {
            "LONG" => "x".repeat(20_000).into(),
            "WIDE" => "😀".repeat(1025).into(),
            "JOURNAL" => longest_journal().into(),
            "MANY BYTES" => many(8, &"x".repeat(16_000)),
            "MANY KEYS" => many(2048, "x"),
            word => {
                words.iter().fold(word.to_owned(), |text, (word, value)| text.replace(word, value)).into()
            }
        },
        Value::Array(list) => list.iter().map(each).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), each(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// The journal with the largest number of groups that Node scope allows, and the longest names in bytes.
fn longest_journal() -> String {
    let time = "2199-12-31T23:59:59.999Z".parse().ok();
    let group =
        RecordedGroup { opened_at: time, completed_at: time, finished: true, ..RecordedGroup::default() };
    let names = (0..32).map(|number| format!("{number:02}{}", "😀".repeat(98)));
    let groups = names.map(|name| (GroupId::named(&name), group)).collect();
    let journal = Journal { groups, begun_again: Some("😀".repeat(64).into()) };
    journal_text(&journal)
}

/// Creates the objects of the cases. Each has the owner that its owner reference names; otherwise garbage collection would
/// delete it.
async fn prepare(lab: &Lab, namespace: &str, table: &Table) -> Result<Words> {
    let cluster = lab.cluster();
    let mut words = Words::from([("{namespace}", namespace.to_owned())]);
    words.insert("{node-0}", uid_of(cluster, "/api/v1/nodes/node-0").await?);
    reserve(cluster, namespace, table, &mut words).await?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    for (name, fields) in &table.pods {
        create(cluster, &pods, &pod_with(name, &filled(fields, &words))).await?;
    }
    words.insert("{uid}", uid_of(cluster, &format!("{pods}/plain")).await?);
    for (name, fields) in &table.configmaps {
        let bare = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        let fields = filled(fields, &words);
        create(cluster, &format!("/api/v1/namespaces/{namespace}/configmaps"), &bare.with(fields)).await?;
    }
    create(cluster, "/api/v1/namespaces/kube-system/pods", &pod_with("proxy", &json!({}))).await?;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
    create(cluster, "/api/v1/nodes", &node.with(filled(&table.node, &words))).await?;
    let sequence = make::sequence("shop", &[make::named("db", &["db"])]);
    let sequence = sequence.with(json!({ "metadata": { "namespace": namespace } }));
    create(
        cluster,
        &format!("/apis/scheduling.example.com/v1alpha1/namespaces/{namespace}/podsequences"),
        &sequence,
    )
    .await?;
    let note = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "note": "{}" },
        "metadata": {
            "name": "podsequence-note-22222222-2222-4222-8222-222222222222", "labels": { "podsequence.example.com/note": "true" },
        },
    });
    create(cluster, &format!("{OWN}/configmaps"), &note).await?;
    Ok(words)
}

/// Creates an Order, its tickets, and a PriorityClass of guardians.
async fn reserve(cluster: &Cluster, namespace: &str, table: &Table, words: &mut Words) -> Result<()> {
    let group = format!("/apis/core.korder.dev/v1alpha1/namespaces/{namespace}");
    let room = json!({ "resources": { "requests": { "cpu": "100m" } } });
    let bare = |kind: &str, name: &str, spec: &Value| json!({ "apiVersion": "core.korder.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let order = bare("Order", "rooms", &json!({ "template": { "spec": room } }));
    create(cluster, &format!("{group}/orders"), &order).await?;
    words.insert("{order}", uid_of(cluster, &format!("{group}/orders/rooms")).await?);
    for (name, fields) in &table.tickets {
        let ticket = bare("Ticket", name, &room).with(filled(fields, words));
        create(cluster, &format!("{group}/tickets"), &ticket).await?;
        let status = json!({ "status": ticket["status"] });
        let path = format!("{group}/tickets/{name}/status");
        let written = send(&cluster.client(), Method::PATCH, &path, MERGE, &status).await?;
        written.map_err(|refused| anyhow::anyhow!("{path}: {refused:?}"))?;
    }
    words.insert("{free}", uid_of(cluster, &format!("{group}/tickets/free")).await?);
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "korder-guardian-7" },
        "value": 7, "preemptionPolicy": "Never",
    });
    create(cluster, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await
}

async fn uid_of(cluster: &Cluster, path: &str) -> Result<String> {
    let object = send(&cluster.client(), Method::GET, path, JSON, &Value::Null).await?;
    let object = object.map_err(|refused| anyhow::anyhow!("{path}: {refused:?}"))?;
    Ok(object["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

const KEPT: [&str; 2] = ["pod-sequence-webhook-certs", "another"];

/// Deletes the Secrets and the lease, as if the controller had never run.
fn forget(lab: &Lab) -> Result<()> {
    let own = ["delete", "-n", "pod-sequence-system", "--ignore-not-found"];
    lab.cluster().kubectl_ok(&[&own[..], &["secret"], &KEPT].concat())?;
    lab.cluster().kubectl_ok(&[&own[..], &["lease", rollcall_api::names::LEASE]].concat()).map(drop)
}

/// Creates the Secrets that the controller would have written, with additional foreign data.
async fn keep(lab: &Lab) -> Result<()> {
    for name in KEPT {
        let metadata = json!({ "name": name, "annotations": { "example.com/theirs": "1" } });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": { "theirs": "eA==" } });
        create(lab.cluster(), &format!("{OWN}/secrets"), &secret).await?;
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": rollcall_api::names::LEASE },
    });
    create(lab.cluster(), LEASES, &lease).await
}
