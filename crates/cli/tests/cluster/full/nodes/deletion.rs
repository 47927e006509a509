//! A sequence is deleted, by itself or with its namespace or its CRD, while the controller is down. No deletion hangs, and the
//! next controller leaves no leftovers on nodes or pods.

use super::waiting::{GUARDS, three, waiting};
use crate::common::*;
use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use rollcall_testbed::Cluster;
use std::process::Command;
use std::time::Duration;

/// Interval between two rounds of the client that writes to all nodes.
const PACE: Duration = Duration::from_millis(5);
const RESTLESS: &str = "example.com/restless";
const CRD: &str = "podsequences.scheduling.example.com";

#[tokio::test]
async fn what_is_deleted_meanwhile_leaves_nothing_behind() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let cluster = lab.cluster();
    let before = nodes::all_foreign(cluster).await?;
    let mut controller = Controller::start(&lab, Options::default()).await?;
    let alone = waiting(&lab, "alone", &controller).await?;
    let with_namespace = waiting(&lab, "with-namespace", &controller).await?;
    let with_definition = waiting(&lab, "with-definition", &controller).await?;
    controller.kill()?;

    for guard in GUARDS {
        alone.delete_and_wait("PodSequence", &guard.to_lowercase()).await?;
    }
    let wait = ["--wait", "--timeout=60s"];
    let namespace = ["delete", "namespace", &with_namespace.namespace];
    cluster.kubectl_ok(&[&namespace[..], &wait].concat())?;
    cluster.kubectl_ok(&[&["delete", "crd", CRD][..], &wait].concat())?;
    let left = nodes::ours(cluster).await?;
    ensure!(left.iter().filter(|line| line.ends_with("-blocked")).count() == 18, "{left:?}");

    // A missing CRD does not prove that the sequences are deleted; an existing CRD without sequences does.
    lab.apply_file("config/crd/podsequence-crd.yaml")?;
    let controller = Controller::start(&lab, Options::default()).await?;
    tokio::select! {
        clean = nodes::clean(cluster, &controller) => clean?,
        failed = restless(cluster) => failed?,
    }
    cluster.kubectl_ok(&["annotate", "nodes", "--all", &format!("{RESTLESS}-")])?;
    for scene in [&alone, &with_definition] {
        let free = scene.pods_are("app", 2, |pod| scene::gates(pod).is_empty() && scene::is_ready(pod)).await;
        free.with_context(|| controller.log())?;
    }
    let no_notes = async || {
        let kept = [
            "get",
            "configmaps",
            "-n",
            lab::OWN_NAMESPACE,
            "-l",
            "podsequence.example.com/note=true",
            "-o",
            "name",
        ];
        Ok(cluster.kubectl_ok(&kept)?.is_empty().then_some(()))
    };
    wait::until("deletion of the notes", LIMIT, no_notes).await.with_context(|| controller.log())?;
    ensure!(
        nodes::all_foreign(cluster).await? == before,
        "foreign labels, annotations and taints are unchanged"
    );
    for scene in [alone, with_definition] {
        scene.done().await?;
    }
    Ok(())
}

/// A client that writes to every node continuously. Taints are one list, so a decision about them is valid only for the version
/// that the controller has seen.
async fn restless(cluster: &Cluster) -> Result<()> {
    let api = Api::<Node>::all(cluster.client());
    let names: Vec<String> = nodes::all(cluster).await?.iter().map(scene::name_of).collect();
    for number in 0.. {
        for name in &names {
            let note = json!({ "metadata": { "annotations": { RESTLESS: number.to_string() } } });
            api.patch(name, &PatchParams::default(), &Patch::Merge(note)).await?;
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

/// The last resort without a controller to clean up: the undeploy script itself removes the labels and taints that it finds on
/// nodes.
#[tokio::test]
async fn undeploying_without_a_controller_cleans_the_nodes() -> Result<()> {
    let lab = Lab::full(three()).await?;
    let cluster = lab.cluster();
    lab.apply_file("config/admission")?;
    cluster.kubectl_ok(&["taint", "nodes", "node-1", "example.com/a=1:PreferNoSchedule"])?;
    let mut controller = Controller::start(&lab, Options::default()).await?;
    waiting(&lab, "undeployed", &controller).await?;
    cluster.kubectl_ok(&["taint", "nodes", "node-1", "example.com/b=1:PreferNoSchedule"])?;
    controller.kill()?;
    nodes::unseen_at_registration(cluster).await?;
    cluster.add_node("unseen", &Default::default()).await?;
    let before = nodes::all_foreign(cluster).await?;
    let output = Command::new(lab::repository("scripts/undeploy.sh"))
        .env("KUBECTL", cluster.bin_dir().join("kubectl"))
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("SECONDS_TO_RELEASE", "1")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && said.contains("does it run?"), "{said}");
    let left = nodes::ours(cluster).await?;
    ensure!(left.is_empty(), "{left:?}\n{said}");
    ensure!(
        nodes::all_foreign(cluster).await? == before,
        "foreign labels, annotations and taints are unchanged"
    );
    Ok(())
}
