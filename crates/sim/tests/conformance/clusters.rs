//! Starts the two clusters with their initial objects.

use super::side::Side;
use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rollcall_api::names::OWN_NAMESPACE;
use rollcall_controller::clock::Clock;
use rollcall_sim::embedded::Embedded;
use rollcall_sim::program_behaviour::ProgramBehaviour;
use rollcall_sim::server::Shared;
use rollcall_sim::store::Author;
use rollcall_testbed::{Capacity, Cluster, Options};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd");

/// Start time of the embedded clusters: half a minute before a full minute, so that scheduled runs start soon.
const BEGINNING: i64 = 1_767_225_630;

/// Number of volumes in the real cluster. A scenario needs two, and two more if it is repeated.
const VOLUMES: usize = 16;

/// Starts a real Kubernetes cluster with one large node, `node-0`, volumes for claims, and Rollcall's kinds.
pub async fn real() -> Result<Cluster> {
    let cluster =
        Cluster::start(Options { nodes: 1, capacity: Capacity::huge(), ..Options::default() }).await?;
    cluster.kubectl_ok(&["apply", "-f", CRDS])?;
    cluster.kubectl_ok(&["wait", "--for=condition=Established", "crd", "--all"])?;
    cluster.kubectl_ok(&["create", "namespace", OWN_NAMESPACE])?;
    // This cluster has no volume provisioner, unlike most clusters and the embedded one, so the volumes are created here.
    let side = Side { client: client(&cluster).await? };
    for number in 0..VOLUMES {
        let volume = json!({ "metadata": { "name": format!("volume-{number}") }, "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": { "path": format!("/volumes/{number}") },
        } });
        side.done("POST", "/api/v1/persistentvolumes", "application/json", &volume).await?;
    }
    Ok(cluster)
}

/// A client without retries: the default client may retry for minutes.
pub async fn client(cluster: &Cluster) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The embedded cluster with the same node. It does nothing until the caller runs it.
pub struct Ours {
    pub embedded: Embedded,
    pub shared: Arc<Shared>,
    pub clock: Clock,
}

impl Ours {
    pub async fn new() -> Result<Ours> {
        let clock = Clock::starting_at(Timestamp::from_second(BEGINNING)?);
        let embedded = Embedded::new(clock, 1);
        let shared = embedded.shared.clone();
        // As fast as kwok.
        shared.lock().programs = ProgramBehaviour {
            start: SignedDuration::from_millis(50),
            init: SignedDuration::from_millis(50),
            job: SignedDuration::from_millis(100),
            stop: SignedDuration::ZERO,
            ..ProgramBehaviour::default()
        };
        let ours = Ours { embedded, shared, clock };
        let namespace = json!({ "metadata": { "name": OWN_NAMESPACE } });
        ours.side().done("POST", "/api/v1/namespaces", "application/json", &namespace).await?;
        let node = node("node-0", &json!({}), &room("100000", "1000Ti", "100000"));
        ours.side().done("POST", "/api/v1/nodes", "application/json", &node).await?;
        Ok(ours)
    }

    pub fn side(&self) -> Side {
        Side { client: self.embedded.client(Author::User) }
    }
}

pub fn room(cpu: &str, memory: &str, pods: &str) -> Capacity {
    Capacity { cpu: cpu.into(), memory: memory.into(), pods: pods.into() }
}

/// A node of the testbed with additional labels and taints.
pub fn node(name: &str, more: &Value, room: &Capacity) -> Value {
    let mut node = rollcall_testbed::node(name, room, Timestamp::UNIX_EPOCH);
    for (label, value) in more["labels"].as_object().into_iter().flatten() {
        node["metadata"]["labels"][label] = value.clone();
    }
    if more["taints"].is_array() {
        node["spec"] = json!({ "taints": more["taints"] });
    }
    node
}

/// Runs Rollcall's controller as in production, but without leader election.
pub async fn controller(client: Client, clock: Clock) -> Result<()> {
    let config = rollcall_sim::embedded::config("conformance", 1);
    rollcall_controller::run(client, config, clock, CancellationToken::new()).await
}
