//! A cluster without scheduler and kubelets, so that only the measured work is done, and the objects that the bench
//! creates in it.

use crate::controller::{Controller, Mode};
use crate::fleet::node_name;
use anyhow::{Context, Result, bail};
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use rollcall_testbed::{Capacity, Cluster, Component, Options, free_port, wait};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const GATE: &str = "podsequence.example.com/sequence-gate";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
/// Maximum number of concurrent writes of the bench, where they are not measured.
const PREPARING: usize = 24;
pub const NODES_PATH: &str = "/api/v1/nodes";
const LIMIT: Duration = Duration::from_secs(300);

pub struct Lab {
    pub cluster: Cluster,
    pub client: Client,
    account: PathBuf,
    program: PathBuf,
}

impl Lab {
    pub async fn start() -> Result<Lab> {
        let lab = Lab::with_a_scheduler().await?;
        for component in [Component::Scheduler, Component::Kwok] {
            lab.cluster.stop(component).await?;
        }
        Ok(lab)
    }

    /// A cluster that schedules and runs pods. The bench itself marks the nodes as ready, so the controllers that would
    /// mark nodes as not ready, or remove their pods, are disabled.
    pub async fn with_a_scheduler() -> Result<Lab> {
        let controllers = "--controllers=-node-lifecycle-controller,-pod-garbage-collector-controller";
        Lab::install(vec![controllers.into()]).await
    }

    /// A cluster with scheduler and node lifecycle controller, for a real node.
    pub async fn for_a_real_node() -> Result<Lab> {
        Lab::install(Vec::new()).await
    }

    async fn install(controller_manager_args: Vec<String>) -> Result<Lab> {
        let program = std::env::current_exe()?.with_file_name("rollcall");
        if !program.exists() {
            bail!("{} is missing: build it first (make bench does)", program.display());
        }
        let options =
            Options { nodes: 0, audit_bodies: false, controller_manager_args, ..Options::default() };
        let cluster = Cluster::start(options).await?;
        // The permissions of full mode; the controller in Lite mode does not use the additional ones.
        for file in ["config/crd/podsequence-crd.yaml", "config/rbac/rbac.yaml"] {
            apply(&cluster, file)?;
        }
        let crd = "crd/podsequences.scheduling.example.com";
        cluster.kubectl_ok(&["wait", "--for=condition=Established", crd, "--timeout=60s"])?;
        cluster.kubectl_ok(&["-n", "pod-sequence-system", "delete", "deployment", "--all"])?;
        let account =
            cluster.service_account_kubeconfig("pod-sequence-system", "pod-sequence-controller").await?;
        Ok(Lab { client: cluster.client(), cluster, account, program })
    }

    /// Applies a file of the repository.
    pub fn apply(&self, file: &str) -> Result<()> {
        apply(&self.cluster, file)
    }

    /// Installs the definitions of Orders and Tickets.
    pub fn reservations(&self) -> Result<()> {
        self.apply("config/crd/korder-crd.yaml")?;
        for definition in ["crd/orders.core.korder.dev", "crd/tickets.core.korder.dev"] {
            self.cluster.kubectl_ok(&["wait", "--for=condition=Established", definition, "--timeout=60s"])?;
        }
        Ok(())
    }

    /// Starts the controller in this mode, and waits until it is ready.
    pub async fn controller(&self, mode: Mode) -> Result<Controller> {
        let controller = self.spawn(mode)?;
        controller.ready().await?;
        Ok(controller)
    }

    /// Starts the controller.
    pub fn spawn(&self, mode: Mode) -> Result<Controller> {
        let port = free_port()?;
        let mut command = Command::new(&self.program);
        command
            .args(["controller", "--metrics-bind-address", "0", "--log-level", "error"])
            .args(mode.args())
            .arg("--health-probe-bind-address")
            .arg(format!("127.0.0.1:{port}"))
            .env("KUBECONFIG", &self.account)
            .stdin(Stdio::null());
        let child = self.cluster.adopt(&mut command).spawn().context("start the controller")?;
        Ok(Controller::new(child, port))
    }

    pub async fn namespace(&self) -> Result<String> {
        self.cluster.namespace("bench").await
    }

    /// Creates `count` gated pods, named `p-00000` and so on.
    pub async fn pods(&self, namespace: &str, count: usize) -> Result<()> {
        self.create_all(&pods_path(namespace), (0..count).map(|number| pod(&pod_name(number)))).await
    }

    /// Creates nodes of ordinary size, named `n-00000` and so on.
    pub async fn nodes(&self, count: usize) -> Result<()> {
        let (capacity, now) = (Capacity::default(), Timestamp::now());
        let nodes = (0..count).map(|number| rollcall_testbed::node(&node_name(number), &capacity, now));
        self.create_all(NODES_PATH, nodes).await
    }

    /// Creates objects of one kind.
    pub async fn create_all(&self, path: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
        self.each(objects.map(|object| self.create(path, object))).await
    }

    /// Runs many writes concurrently, which are not measured.
    pub async fn each(&self, writes: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
        at_a_time(PREPARING, writes).await
    }

    pub async fn create(&self, path: &str, object: Value) -> Result<()> {
        let request = http::Request::post(path).header("content-type", "application/json");
        self.client.request::<IgnoredAny>(request.body(object.to_string().into_bytes())?).await?;
        Ok(())
    }

    pub async fn patch(&self, path: &str, style: &str, body: Value) -> Result<()> {
        patch(&self.client, path, style, &body).await
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.client.request(http::Request::get(path).body(Vec::new())?).await?)
    }

    /// Removes everything in a namespace that a later round would have to watch.
    pub async fn clear(&self, namespace: &str) -> Result<()> {
        let pods = format!("{}?gracePeriodSeconds=0", pods_path(namespace));
        for path in [sequences_path(namespace), pods] {
            self.delete_all(&path).await?;
        }
        Ok(())
    }

    /// Like [`Lab::clear`], while a controller runs. Waits until the controller has removed its notes; otherwise the
    /// next controller would start with their removal.
    pub async fn tidy(&self, namespace: &str) -> Result<()> {
        self.clear(namespace).await?;
        let notes = "/api/v1/namespaces/pod-sequence-system/configmaps?limit=2";
        wait::until_every(Duration::from_millis(100), "the end of the notes", LIMIT, async || {
            // One of the ConfigMaps is that of Kubernetes (`kube-root-ca.crt`).
            let left = self.get(notes).await?["items"].as_array().map_or(0, Vec::len);
            Ok((left <= 1).then_some(()))
        })
        .await
    }

    /// Deletes a list of objects. The API server ends a request after a minute, which is too short for tens of
    /// thousands of objects, so the request is repeated for the remaining ones.
    pub async fn delete_all(&self, path: &str) -> Result<()> {
        const ATTEMPTS: usize = 10;
        for attempt in 1.. {
            let request = http::Request::delete(path).body(Vec::new())?;
            match self.client.request::<IgnoredAny>(request).await {
                Err(error) if attempt == ATTEMPTS => return Err(error.into()),
                Err(_) => {}
                Ok(_) => break,
            }
        }
        Ok(())
    }

    pub async fn sequence(&self, namespace: &str, name: &str, groups: Value) -> Result<()> {
        self.create(&sequences_path(namespace), sequence(name, groups)).await
    }
}

fn apply(cluster: &Cluster, file: &str) -> Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    cluster.kubectl_ok(&["apply", "-f", &format!("{root}/{file}")]).map(drop)
}

/// Runs all writes, `in_flight` at a time.
pub async fn at_a_time(
    in_flight: usize,
    writes: impl Iterator<Item = impl Future<Output = Result<()>>>,
) -> Result<()> {
    let mut writes = futures::stream::iter(writes).buffer_unordered(in_flight);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}

pub async fn patch(client: &Client, path: &str, style: &str, body: &Value) -> Result<()> {
    let request = http::Request::patch(path).header("content-type", style);
    client.request::<IgnoredAny>(request.body(body.to_string().into_bytes())?).await?;
    Ok(())
}

pub fn pods_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

pub fn sequences_path(namespace: &str) -> String {
    format!("/apis/scheduling.example.com/v1alpha1/namespaces/{namespace}/podsequences")
}

pub fn sequence(name: &str, groups: Value) -> Value {
    json!({
        "apiVersion": "scheduling.example.com/v1alpha1",
        "kind": "PodSequence",
        "metadata": { "name": name },
        "spec": { "podGroups": groups },
    })
}

pub fn pod_name(number: usize) -> String {
    format!("p-{number:05}")
}

/// The same pod without the gate, as its author would submit it.
pub fn ungated(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"].as_object_mut().map(|spec| spec.remove("schedulingGates"));
    pod
}

/// A pod of ordinary size: a few labels, two containers with probes.
pub fn pod(name: &str) -> Value {
    let container = |name: &str| {
        json!({
            "name": name,
            "image": "registry.example/shop/server:1.2.3",
            "env": [{ "name": "MODE", "value": "production" }],
            "ports": [{ "containerPort": 8080 }],
            "resources": { "requests": { "cpu": "10m", "memory": "32Mi" } },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": 8080 } },
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": { "app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "bench", "tier": "web", "pod": name },
        },
        "spec": {
            "automountServiceAccountToken": false,
            "schedulingGates": [{ "name": GATE }],
            "containers": [container("server"), container("proxy")],
        },
    })
}
