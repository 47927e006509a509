//! A cluster without scheduler and kubelets, so that only the work measured is done, and the controller under test.

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::Client;
use rollcall_testbed::{Cluster, Component, Options, free_port, wait};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const GATE: &str = "podsequence.example.com/sequence-gate";
/// Writes of the bench itself at a time, when it only prepares.
const PREPARING: usize = 24;
const LIMIT: Duration = Duration::from_secs(600);

pub struct Lab {
    pub cluster: Cluster,
    pub client: Client,
    account: PathBuf,
    program: PathBuf,
}

/// The controller under test. Ends with its value.
pub struct Controller {
    child: Child,
    port: u16,
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lab {
    pub async fn start() -> Result<Lab> {
        let program = std::env::current_exe()?.with_file_name("rollcall");
        if !program.exists() {
            bail!("{} is missing: build it first (make bench does)", program.display());
        }
        let cluster = Cluster::start(Options { audit_bodies: false, ..Options::default() }).await?;
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for file in ["config/crd/podsequence-crd.yaml", "config/rbac/rbac-lite.yaml"] {
            cluster.kubectl_ok(&["apply", "-f", &format!("{root}/{file}")])?;
        }
        let crd = "crd/podsequences.scheduling.example.com";
        cluster.kubectl_ok(&["wait", "--for=condition=Established", crd, "--timeout=60s"])?;
        cluster.kubectl_ok(&["-n", "pod-sequence-system", "delete", "deployment", "--all"])?;
        for component in [Component::Scheduler, Component::Kwok] {
            cluster.stop(component).await?;
        }
        let account =
            cluster.service_account_kubeconfig("pod-sequence-system", "pod-sequence-controller").await?;
        Ok(Lab { client: cluster.client(), cluster, account, program })
    }

    pub async fn controller(&self) -> Result<Controller> {
        let controller = self.spawn()?;
        controller.ready().await?;
        Ok(controller)
    }

    /// The controller, just started.
    pub fn spawn(&self) -> Result<Controller> {
        let port = free_port()?;
        let mut command = Command::new(&self.program);
        command
            .args(["controller", "--mode", "lite", "--metrics-bind-address", "0", "--log-level", "error"])
            .arg("--health-probe-bind-address")
            .arg(format!("127.0.0.1:{port}"))
            .env("KUBECONFIG", &self.account)
            .stdin(Stdio::null());
        let child = self.cluster.adopt(&mut command).spawn().context("start the controller")?;
        Ok(Controller { child, port })
    }

    pub async fn namespace(&self) -> Result<String> {
        self.cluster.namespace("bench").await
    }

    /// Creates `count` gated pods, `p-00000` and so on.
    pub async fn pods(&self, namespace: &str, count: usize) -> Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.create((0..count).map(|number| (path.clone(), pod(&pod_name(number))))).await
    }

    pub async fn create(&self, objects: impl Iterator<Item = (String, Value)>) -> Result<()> {
        let creations = objects.map(|(path, object)| async move {
            let request = http::Request::post(path).header("content-type", "application/json");
            self.client
                .request::<serde::de::IgnoredAny>(request.body(object.to_string().into_bytes())?)
                .await?;
            anyhow::Ok(())
        });
        let mut creations = futures::stream::iter(creations).buffer_unordered(PREPARING);
        while let Some(created) = creations.next().await {
            created?;
        }
        Ok(())
    }

    /// Removes everything of a namespace that a later round would have to watch.
    pub async fn clear(&self, namespace: &str) -> Result<()> {
        let sequences = format!("/apis/scheduling.example.com/v1alpha1/namespaces/{namespace}/podsequences");
        for path in [sequences, format!("/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")] {
            self.delete_all(&path).await?;
        }
        Ok(())
    }

    /// An API server ends a request after a minute, and ten thousands of objects take longer: what is left is asked for again.
    async fn delete_all(&self, path: &str) -> Result<()> {
        const ATTEMPTS: usize = 10;
        for attempt in 1.. {
            let request = http::Request::delete(path).body(Vec::new())?;
            match self.client.request::<serde::de::IgnoredAny>(request).await {
                Err(error) if attempt == ATTEMPTS => return Err(error.into()),
                Err(_) => {}
                Ok(_) => break,
            }
        }
        Ok(())
    }

    pub async fn sequence(&self, namespace: &str, name: &str, groups: Value) -> Result<()> {
        let path = format!("/apis/scheduling.example.com/v1alpha1/namespaces/{namespace}/podsequences");
        self.create(std::iter::once((path, sequence(name, groups)))).await
    }
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

/// A pod of an ordinary size: a few labels, two containers with probes.
fn pod(name: &str) -> Value {
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

impl Controller {
    pub async fn ready(&self) -> Result<()> {
        let address = format!("127.0.0.1:{}", self.port);
        wait::until_every(Duration::from_millis(2), "the controller to be ready", LIMIT, async || {
            Ok(answers_ok(&address, "/readyz").await.then_some(()))
        })
        .await
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, in brackets, may hold blanks; what follows does not.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks: u64 = fields.get(11).context("utime")?.parse::<u64>()?
            + fields.get(12).context("stime")?.parse::<u64>()?;
        // USER_HZ is 100 on every Linux that runs Kubernetes.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Resident memory now and at its peak, in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| -> Result<u64> {
            let line = status.lines().find(|line| line.starts_with(name)).context("no such field")?;
            let number = line.split_whitespace().nth(1).context("no number")?;
            Ok(number.parse::<u64>()? * 1024)
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }
}

async fn answers_ok(address: &str, path: &str) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else { return false };
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    let mut answer = [0u8; 16];
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read(&mut answer).await.is_ok()
        && answer.starts_with(b"HTTP/1.0 200")
}
