//! A cluster on which Lite mode is installed as the README says, but for the controller itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rollcall_testbed::{Cluster, shared};
use tokio::sync::OnceCell;

/// Who the controller is.
pub const ACCOUNT: &str = "system:serviceaccount:pod-sequence-system:pod-sequence-controller";
pub const OWN_NAMESPACE: &str = "pod-sequence-system";
const NAME: &str = "pod-sequence-controller";

/// A file of the repository, by its path from the root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

pub struct Lab {
    cluster: Machine,
}

enum Machine {
    Shared(&'static Cluster),
    Own(Box<Cluster>),
}

impl Lab {
    /// On the cluster that all tests of the process share.
    pub async fn shared() -> Result<&'static Lab> {
        static LAB: OnceCell<Lab> = OnceCell::const_new();
        LAB.get_or_try_init(async || Lab::install(Machine::Shared(shared().await)).await).await
    }

    /// On a cluster of the test's own, which ends with it.
    pub async fn own(options: rollcall_testbed::Options) -> Result<Lab> {
        Lab::install(Machine::Own(Box::new(Cluster::start(options).await?))).await
    }

    async fn install(cluster: Machine) -> Result<Lab> {
        let lab = Lab { cluster };
        lab.apply_file("config/crd/podsequence-crd.yaml")?;
        lab.apply_file("config/rbac/rbac-lite.yaml")?;
        // The tests run the binary themselves; kwok would only pretend to.
        let scale = ["-n", OWN_NAMESPACE, "scale", "deployment", NAME, "--replicas=0"];
        lab.cluster().kubectl_ok(&scale)?;
        let established =
            ["wait", "--for=condition=Established", "crd", "podsequences.scheduling.example.com"];
        lab.cluster().kubectl_ok(&established)?;
        Ok(lab)
    }

    /// `kubectl apply -f` a file of the repository.
    pub fn apply_file(&self, path: &str) -> Result<String> {
        let file = repository(path);
        self.cluster().kubectl_ok(&["apply", "-f", file.to_str().context("not UTF-8")?])
    }

    pub fn cluster(&self) -> &Cluster {
        match &self.cluster {
            Machine::Shared(cluster) => cluster,
            Machine::Own(cluster) => cluster,
        }
    }

    /// The shipped ServiceAccount's kubeconfig, for the API server or for a proxy before it.
    pub async fn kubeconfig(&self, server: Option<&str>) -> Result<PathBuf> {
        let server = server.map_or_else(|| self.cluster().server(), str::to_owned);
        self.cluster().service_account_kubeconfig_at(OWN_NAMESPACE, NAME, &server).await
    }
}
