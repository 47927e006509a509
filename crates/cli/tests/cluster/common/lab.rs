//! A cluster with Lite or Full mode, installed as described in the README, except that the Deployment of the controller
//! has no pods.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rollcall_api::names::{LAUNCH_CONFIGURATION, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
use rollcall_testbed::{AuditEvent, AuditLog, Cluster, SharedCluster, shared, wait};
use serde_json::json;
use tokio::sync::{MutexGuard, OnceCell};

use super::{LIMIT, make};

/// User name of the controller's service account.
pub const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";
pub const OWN_NAMESPACE: &str = "pod-sequence-system";
const NAME: &str = "pod-sequence-controller";

/// Returns the path of a file in the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

pub struct Lab {
    /// `lite` or `full`.
    pub mode: &'static str,
    cluster: Machine,
    /// Shared by all tests, because the log grows long and should be read only once.
    log: Mutex<AuditLog>,
    canaries: OnceCell<String>,
    /// Set once the limits of the controller are removed.
    unlimited: OnceCell<()>,
}

enum Machine {
    Shared(&'static Cluster),
    Own(Box<Cluster>),
}

impl Machine {
    fn get(&self) -> &Cluster {
        match self {
            Machine::Shared(cluster) => cluster,
            Machine::Own(cluster) => cluster,
        }
    }
}

impl Lab {
    /// Lite mode on the cluster of the tests that share one controller, [`Controller::shared`].
    ///
    /// [`Controller::shared`]: super::Controller::shared
    pub async fn shared() -> Result<&'static Lab> {
        static CLUSTER: SharedCluster = SharedCluster::new();
        static LAB: OnceCell<Lab> = OnceCell::const_new();
        LAB.get_or_try_init(async || Lab::install(Machine::Shared(CLUSTER.get().await), "lite").await).await
    }

    /// Lite mode on a shared cluster where no controller runs.
    pub async fn bare() -> Result<&'static Lab> {
        static LAB: OnceCell<Lab> = OnceCell::const_new();
        LAB.get_or_try_init(async || Lab::install(Machine::Shared(shared().await), "lite").await).await
    }

    /// Lite mode on the cluster that tests use in turns, because each of them starts controllers that act on the whole cluster.
    /// The turn ends when the guard is dropped.
    pub async fn turn() -> Result<(MutexGuard<'static, ()>, &'static Lab)> {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        static CLUSTER: SharedCluster = SharedCluster::new();
        static LAB: OnceCell<Lab> = OnceCell::const_new();
        let turn = TURN.lock().await;
        let install = async || Lab::install(Machine::Shared(CLUSTER.get().await), "lite").await;
        Ok((turn, LAB.get_or_try_init(install).await?))
    }

    /// Lite mode on a new cluster that belongs to the test.
    pub async fn own(options: rollcall_testbed::Options) -> Result<Lab> {
        Lab::install(Machine::Own(Box::new(Cluster::start(options).await?)), "lite").await
    }

    /// Like [`Lab::own`], with Full mode.
    pub async fn full(options: rollcall_testbed::Options) -> Result<Lab> {
        Lab::install(Machine::Own(Box::new(Cluster::start(options).await?)), "full").await
    }

    async fn install(cluster: Machine, mode: &'static str) -> Result<Lab> {
        let log = Mutex::new(cluster.get().audit());
        let lab = Lab { mode, cluster, log, canaries: OnceCell::new(), unlimited: OnceCell::new() };
        lab.apply_file("config/crd/podsequence-crd.yaml")?;
        let rbac = if mode == "full" { "config/rbac/rbac.yaml" } else { "config/rbac/rbac-lite.yaml" };
        lab.apply_file(rbac)?;
        lab.without_pods_of_ours()?;
        let established =
            ["wait", "--for=condition=Established", "crd", "podsequences.scheduling.example.com"];
        lab.cluster().kubectl_ok(&established)?;
        Ok(lab)
    }

    /// Scales the Deployment of the controller to 0: tests run the real binary, while kwok would only simulate pods.
    pub fn without_pods_of_ours(&self) -> Result<()> {
        let scale = ["-n", OWN_NAMESPACE, "scale", "deployment", NAME, "--replicas=0"];
        self.cluster().kubectl_ok(&scale).map(drop)
    }

    /// Returns a client with the controller's permissions but without its limits, for tests of writes that the real controller
    /// never sends.
    pub async fn unlimited_client(&self) -> Result<kube::Client> {
        let client = self.controllers_client().await?;
        let lift = async || {
            self.cluster().kubectl_ok(&["delete", "validatingadmissionpolicybindings", "--all"])?;
            let namespace = self.cluster().namespace("unlimited").await?;
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "any": "thing" } } }));
            let dry = PatchParams { dry_run: true, ..PatchParams::default() };
            let pods: Api<Pod> = Api::namespaced(self.cluster().client(), &namespace);
            pods.create(&PostParams::default(), &serde_json::from_value(make::pod("any"))?).await?;
            let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            let nodes: Api<Node> = Api::all(client.clone());
            wait::until("no limits", LIMIT, async || {
                let of_pods = pods.patch("any", &dry, &patch).await.is_ok();
                let of_nodes = self.mode == "lite" || nodes.patch("node-0", &dry, &patch).await.is_ok();
                Ok((of_pods && of_nodes).then_some(()))
            })
            .await
        };
        self.unlimited.get_or_try_init(lift).await?;
        Ok(client)
    }

    /// Applies a file of the repository with `kubectl apply -f`.
    pub fn apply_file(&self, path: &str) -> Result<String> {
        let file = repository(path);
        self.cluster().kubectl_ok(&["apply", "-f", file.to_str().context("not UTF-8")?])
    }

    pub fn cluster(&self) -> &Cluster {
        self.cluster.get()
    }

    /// The namespace for canary sequences, which show that the controller has processed all earlier events.
    pub async fn canaries(&self) -> Result<&str> {
        let create = async || self.cluster().namespace("canaries").await;
        Ok(self.canaries.get_or_try_init(create).await?)
    }

    /// Returns the audit events of a namespace, and all events about sequences and their CRD.
    pub fn audited(&self, namespace: &str) -> Result<Vec<AuditEvent>> {
        let wanted = |event: &&AuditEvent| {
            let kind = event.resource.as_str();
            event.namespace == namespace
                || matches!(kind, "podsequences" | "customresourcedefinitions") && event.is_committed()
        };
        self.events(wanted)
    }

    /// Sets the URL of the webhook on this machine, because this API server cannot reach Services.
    pub fn call_webhook(&self, port: u16) -> Result<()> {
        let url = format!("https://127.0.0.1:{port}/mutate");
        let one = |place: usize| {
            let path = format!("/webhooks/{place}/clientConfig");
            let value = json!({ "url": url, "caBundle": self.encoded_bundle(place)? });
            anyhow::Ok(json!({ "op": "replace", "path": path, "value": value }))
        };
        let patch = json!([one(0)?, one(1)?]).to_string();
        let args =
            ["patch", "mutatingwebhookconfiguration", WEBHOOK_CONFIGURATION, "--type=json", "-p", &patch];
        self.cluster().kubectl_ok(&args).map(drop)
    }

    /// Like [`Lab::call_webhook`], for the launch webhook.
    pub fn call_launch_webhook(&self, port: u16) -> Result<()> {
        let bundle = self.cluster().kubectl_ok(&[
            "get",
            "secret",
            WEBHOOK_SECRET,
            "-n",
            OWN_NAMESPACE,
            "--ignore-not-found",
            "-o",
            "jsonpath={.data.ca\\.crt}",
        ])?;
        // An empty line, as in the manifest: the controller fills in its own bundle.
        let bundle = if bundle.is_empty() { b"\n".to_vec() } else { STANDARD.decode(bundle)? };
        self.call_launch_webhook_at(&format!("https://127.0.0.1:{port}/launch"), &bundle)
    }

    /// Sets the URL and the certificate authority of the launch webhook.
    pub fn call_launch_webhook_at(&self, url: &str, authority: &[u8]) -> Result<()> {
        let value = json!({ "url": url, "caBundle": STANDARD.encode(authority) });
        let patch =
            json!([{ "op": "replace", "path": "/webhooks/0/clientConfig", "value": value }]).to_string();
        let args =
            ["patch", "mutatingwebhookconfiguration", LAUNCH_CONFIGURATION, "--type=json", "-p", &patch];
        self.cluster().kubectl_ok(&args).map(drop)
    }

    /// Returns the decoded CA bundle of a webhook.
    pub fn webhook_bundle(&self, place: usize) -> Result<String> {
        Ok(String::from_utf8(STANDARD.decode(self.encoded_bundle(place)?)?)?)
    }

    fn encoded_bundle(&self, place: usize) -> Result<String> {
        let path = format!("jsonpath={{.webhooks[{place}].clientConfig.caBundle}}");
        let args = ["get", "mutatingwebhookconfiguration", WEBHOOK_CONFIGURATION, "-o", &path];
        self.cluster().kubectl_ok(&args)
    }

    /// Returns the audit events so far that satisfy `wanted`.
    pub fn events(&self, wanted: impl FnMut(&&AuditEvent) -> bool) -> Result<Vec<AuditEvent>> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(log.all()?.iter().filter(wanted).cloned().collect())
    }

    /// Returns a client with the controller's own token.
    pub async fn controllers_client(&self) -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(None).await?)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Returns the kubeconfig of the shipped ServiceAccount, for the API server or for a proxy in front of it.
    pub async fn kubeconfig(&self, server: Option<&str>) -> Result<PathBuf> {
        let server = server.map_or_else(|| self.cluster().server(), str::to_owned);
        self.cluster().service_account_kubeconfig_at(OWN_NAMESPACE, NAME, &server).await
    }
}
