//! A cluster on which Lite or Full mode is installed as the README says, but for the controller itself.

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

/// Who the controller is.
pub const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";
pub const OWN_NAMESPACE: &str = "pod-sequence-system";
const NAME: &str = "pod-sequence-controller";

/// A file of the repository, by its path from the root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

pub struct Lab {
    /// `lite` or `full`.
    pub mode: &'static str,
    cluster: Machine,
    /// Read once for all tests: it grows long.
    log: Mutex<AuditLog>,
    canaries: OnceCell<String>,
    /// The limits of the controller are lifted.
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

    /// Lite mode on the cluster where no controller runs.
    pub async fn bare() -> Result<&'static Lab> {
        static LAB: OnceCell<Lab> = OnceCell::const_new();
        LAB.get_or_try_init(async || Lab::install(Machine::Shared(shared().await), "lite").await).await
    }

    /// Lite mode on the cluster where tests take turns, because each starts controllers of its own, which act on all of
    /// it. The turn ends when the guard is dropped.
    pub async fn turn() -> Result<(MutexGuard<'static, ()>, &'static Lab)> {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        static CLUSTER: SharedCluster = SharedCluster::new();
        static LAB: OnceCell<Lab> = OnceCell::const_new();
        let turn = TURN.lock().await;
        let install = async || Lab::install(Machine::Shared(CLUSTER.get().await), "lite").await;
        Ok((turn, LAB.get_or_try_init(install).await?))
    }

    /// On a cluster of the test's own, which ends with it.
    pub async fn own(options: rollcall_testbed::Options) -> Result<Lab> {
        Lab::install(Machine::Own(Box::new(Cluster::start(options).await?)), "lite").await
    }

    /// The same with Full mode.
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

    /// The tests run the binary themselves; kwok would only pretend to.
    pub fn without_pods_of_ours(&self) -> Result<()> {
        let scale = ["-n", OWN_NAMESPACE, "scale", "deployment", NAME, "--replicas=0"];
        self.cluster().kubectl_ok(&scale).map(drop)
    }

    /// A client with the rights of the controller, and without the limits that hold it to what is its own: for those who do
    /// what it would not.
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

    /// `kubectl apply -f` a file of the repository.
    pub fn apply_file(&self, path: &str) -> Result<String> {
        let file = repository(path);
        self.cluster().kubectl_ok(&["apply", "-f", file.to_str().context("not UTF-8")?])
    }

    pub fn cluster(&self) -> &Cluster {
        self.cluster.get()
    }

    /// The namespace for sequences that only show that the controller has got so far.
    pub async fn canaries(&self) -> Result<&str> {
        let create = async || self.cluster().namespace("canaries").await;
        Ok(self.canaries.get_or_try_init(create).await?)
    }

    /// What the audit log has about a namespace, and about sequences and their definition anywhere.
    pub fn audited(&self, namespace: &str) -> Result<Vec<AuditEvent>> {
        let wanted = |event: &&AuditEvent| {
            let kind = event.resource.as_str();
            event.namespace == namespace
                || matches!(kind, "podsequences" | "customresourcedefinitions") && event.is_committed()
        };
        self.events(wanted)
    }

    /// There is no way from this API server to a Service, so it is told where on this machine our webhook is.
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

    /// The same for the one of launch order.
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
        // An empty line, as the manifest has it: the controller writes its own.
        let bundle = if bundle.is_empty() { b"\n".to_vec() } else { STANDARD.decode(bundle)? };
        self.call_launch_webhook_at(&format!("https://127.0.0.1:{port}/launch"), &bundle)
    }

    /// At any place, trusted by this authority.
    pub fn call_launch_webhook_at(&self, url: &str, authority: &[u8]) -> Result<()> {
        let value = json!({ "url": url, "caBundle": STANDARD.encode(authority) });
        let patch =
            json!([{ "op": "replace", "path": "/webhooks/0/clientConfig", "value": value }]).to_string();
        let args =
            ["patch", "mutatingwebhookconfiguration", LAUNCH_CONFIGURATION, "--type=json", "-p", &patch];
        self.cluster().kubectl_ok(&args).map(drop)
    }

    /// The bundle of a webhook, as text.
    pub fn webhook_bundle(&self, place: usize) -> Result<String> {
        Ok(String::from_utf8(STANDARD.decode(self.encoded_bundle(place)?)?)?)
    }

    fn encoded_bundle(&self, place: usize) -> Result<String> {
        let path = format!("jsonpath={{.webhooks[{place}].clientConfig.caBundle}}");
        let args = ["get", "mutatingwebhookconfiguration", WEBHOOK_CONFIGURATION, "-o", &path];
        self.cluster().kubectl_ok(&args)
    }

    /// The events of the audit log so far for which `wanted` says yes.
    pub fn events(&self, wanted: impl FnMut(&&AuditEvent) -> bool) -> Result<Vec<AuditEvent>> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(log.all()?.iter().filter(wanted).cloned().collect())
    }

    /// A client with the controller's own token.
    pub async fn controllers_client(&self) -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(None).await?)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// The shipped ServiceAccount's kubeconfig, for the API server or for a proxy before it.
    pub async fn kubeconfig(&self, server: Option<&str>) -> Result<PathBuf> {
        let server = server.map_or_else(|| self.cluster().server(), str::to_owned);
        self.cluster().service_account_kubeconfig_at(OWN_NAMESPACE, NAME, &server).await
    }
}
