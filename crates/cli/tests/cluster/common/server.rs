//! An API server with the CRD and the policies or the webhook of Rollcall.

use crate::cases::{self, PodCase};
use crate::common::*;
use futures::future::try_join_all;
use http::Method;
use kube::Client;
use rollcall_testbed::Cluster;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;

/// Gate of a probe pod; if the pod gets it, the policies know the namespace and its sequences.
const PROBE: &str = "probe.example.com/gate";

/// The API server's answer: the object, or the status code and the message.
pub type Answer = std::result::Result<Value, (u16, String)>;

pub struct Server<'a> {
    pub cluster: &'a Cluster,
    client: Client,
}

/// Returns the cluster of this process with the policies enforced.
pub async fn start() -> Result<Server<'static>> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let lab = Lab::bare().await?;
    let server = Server::new(lab.cluster());
    INSTALLED
        .get_or_try_init(async || {
            lab.apply_file("config/admission")?;
            let namespace = server.namespace("installed", json!({})).await?;
            server.until_seen(&namespace).await
        })
        .await?;
    Ok(server)
}

impl<'a> Server<'a> {
    pub fn new(cluster: &'a Cluster) -> Server<'a> {
        Server { cluster, client: cluster.client() }
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Creates a namespace with the label that enables the policies, and with further metadata.
    pub async fn namespace(&self, prefix: &str, metadata: Value) -> Result<String> {
        let name = self.cluster.namespace(prefix).await?;
        let enabled = json!({ "metadata": { "labels": { "podsequence-enabled": "true" } } });
        let patch = enabled.with(json!({ "metadata": metadata }));
        self.patch(&format!("/api/v1/namespaces/{name}"), &patch).await?;
        Ok(name)
    }

    /// Creates sequences, and waits until the policies know them.
    pub async fn sequences(&self, namespace: &str, objects: &[Value]) -> Result<()> {
        try_join_all(objects.iter().map(|object| self.create("podsequences", namespace, object))).await?;
        self.until_seen(namespace).await
    }

    /// Waits until the policies know all events so far. They receive the changes of sequences in order: a policy that knows a
    /// new sequence also knows all earlier ones, and the labels of its namespace.
    pub async fn until_seen(&self, namespace: &str) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("probe-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let spec = json!({ "schedulingGateName": PROBE, "podGroups": [{ "pods": [name] }] });
        self.create("podsequences", namespace, &cases::sequence(namespace, &name, spec)).await?;
        let pod = cases::pod(&json!({ "metadata": { "name": name } }));
        wait::until("the policies to see the sequences", LIMIT, async || {
            let answer = self.try_pod(namespace, &pod).await?;
            Ok(answer.is_ok_and(|pod| gates(&pod).contains(&PROBE.to_owned())).then_some(()))
        })
        .await
    }

    /// Returns a pod as it would be created (dry run).
    pub async fn try_pod(&self, namespace: &str, pod: &Value) -> Result<Answer> {
        let path = format!("{}?dryRun=All", collection("pods", namespace));
        self.send(Method::POST, &path, "application/json", serde_json::to_vec(pod)?, None).await
    }

    /// Creates an object and returns the stored version.
    pub async fn create(&self, resource: &str, namespace: &str, object: &Value) -> Result<Value> {
        let path = collection(resource, namespace);
        let body = serde_json::to_vec(object)?;
        self.send(Method::POST, &path, "application/json", body, None).await?.map_err(refused)
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "application/json", Vec::new(), None).await?.map_err(refused)
    }

    /// Applies a merge patch.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        let body = serde_json::to_vec(patch)?;
        self.send(Method::PATCH, path, "application/merge-patch+json", body, None).await?.map_err(refused)
    }

    /// Creates the pod of a case in a new namespace and in a control namespace without policies, and compares both.
    pub async fn judge(&self, control: &str, case: &PodCase) -> Result<()> {
        let namespace = self.namespace("case", json!({})).await?;
        self.sequences(&namespace, &case.sequences(&namespace)).await?;
        let sent = case.pod();
        let asked = |error: (u16, String)| anyhow::anyhow!("{error:?}");
        let tried = self.try_pod(&namespace, &sent).await?.map_err(asked)?;
        let made = self.create("pods", &namespace, &sent).await?;
        let other = self.try_pod(control, &sent).await?.map_err(asked)?;
        for (way, pod) in [("dry run", tried), ("creation", made)] {
            let mut found = gates(&pod);
            // The order of evaluation for the sequences is not defined.
            found[case.gates_sent()..].sort();
            assert_eq!(found, case.gates, "{}: {way}", case.case);
            let untouched = found.len() == case.gates_sent();
            assert_eq!(rest(&pod, untouched), rest(&other, untouched), "{}: {way}: the rest", case.case);
        }
        Ok(())
    }

    /// Runs the cases of ticket gates without the CRDs of reservations, and then with Orders.
    pub async fn judge_tickets(&self, lab: &Lab) -> Result<()> {
        lab.apply_file("config/crd/korder-crd.yaml")?;
        for definition in ["orders", "tickets"].map(|plural| format!("crd/{plural}.core.korder.dev")) {
            self.cluster.kubectl_ok(&["wait", "--for=condition=Established", &definition])?;
        }
        let (tickets, namespace) = (cases::tickets(), self.namespace("tickets", json!({})).await?);
        for order in tickets.orders(&namespace) {
            self.create("orders", &namespace, &order).await?;
        }
        // The policies receive the changes of Orders in order: a policy that knows the last one knows all.
        let last = json!({ "daemonSet": true, "selector": { "matchLabels": { "probe": "tickets" } } });
        self.create("orders", &namespace, &cases::order(&namespace, "probe", &last)).await?;
        let selected = json!({ "metadata": { "name": "probe", "labels": { "probe": "tickets" } } });
        let asking =
            json!({ "metadata": { "name": "probe", "annotations": { "korder.dev/order-request": "x" } } });
        for probe in [selected, asking].map(|fields| cases::pod(&fields)) {
            wait::until("the policies to see the Orders", LIMIT, async || {
                let answer = self.try_pod(&namespace, &probe).await?;
                Ok(answer.is_ok_and(|pod| !gates(&pod).is_empty()).then_some(()))
            })
            .await?;
        }
        for case in &tickets.pods {
            let tried = self.try_pod(&namespace, &case.pod()).await?;
            let pod = tried.map_err(|error| anyhow::anyhow!("{}: {error:?}", case.case))?;
            assert_eq!(gates(&pod), case.gates(), "{}", case.case);
        }
        Ok(())
    }

    /// Sends any request, as the administrator or as another user.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Vec<u8>,
        user: Option<&str>,
    ) -> Result<Answer> {
        let mut request = http::Request::builder().method(method).uri(path).header("Content-Type", content);
        if let Some(user) = user {
            request = request.header("Impersonate-User", user);
        }
        match self.client.request::<Value>(request.body(body)?).await {
            Ok(object) => Ok(Ok(object)),
            Err(kube::Error::Api(status)) => Ok(Err((status.code, status.message.clone()))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Removes the fields that differ even between two equal pods, and, if the pod may have a gate, the fields that come with a gate.
fn rest(pod: &Value, untouched: bool) -> Value {
    let mut pod = pod.clone();
    let metadata = pod["metadata"].as_object_mut().expect("metadata");
    for field in ["uid", "creationTimestamp", "namespace", "resourceVersion"] {
        metadata.remove(field);
    }
    if metadata.contains_key("generateName") {
        metadata.remove("name");
    }
    if untouched {
        let times = [("/metadata/managedFields", "time"), ("/status/conditions", "lastTransitionTime")];
        for (list, time) in times {
            let entries = pod.pointer_mut(list).and_then(Value::as_array_mut);
            entries.into_iter().flatten().for_each(|entry| entry[time] = Value::Null);
        }
    } else {
        pod["metadata"]["managedFields"] = Value::Null;
        pod["spec"]["schedulingGates"] = Value::Null;
        pod["status"]["conditions"] = Value::Null;
    }
    pod
}

fn refused((code, message): (u16, String)) -> anyhow::Error {
    anyhow::anyhow!("rejected with {code}: {message}")
}

/// Returns the path of the collection for objects of a kind.
pub fn collection(resource: &str, namespace: &str) -> String {
    let group = match resource {
        "podsequences" => "apis/scheduling.example.com/v1alpha1",
        "orders" => "apis/core.korder.dev/v1alpha1",
        "deployments" | "daemonsets" => "apis/apps/v1",
        _ => "api/v1",
    };
    match namespace {
        "" => format!("/{group}/{resource}"),
        namespace => format!("/{group}/namespaces/{namespace}/{resource}"),
    }
}

pub fn gates(pod: &Value) -> Vec<String> {
    let gates = pod["spec"]["schedulingGates"].as_array().cloned().unwrap_or_default();
    gates.iter().filter_map(|gate| gate["name"].as_str()).map(str::to_owned).collect()
}
