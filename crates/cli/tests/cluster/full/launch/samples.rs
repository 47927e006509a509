//! Runs the samples of launch order verbatim. Here kwok simulates a kubelet that starts all containers at once. The test checks
//! that the pods are admitted, become ready, and leave no leftovers.

use super::scene::{LaunchLab, ranks_of};
use crate::common::lab::repository;
use crate::common::*;
use anyhow::ensure;
use rollcall_api::names::LAUNCHED;

const NAMESPACE: &str = "default";

pub async fn all(launch: &LaunchLab) -> Result<()> {
    let ordered = [
        run("launch/barrier-by-hand.yaml", launch, 1)?,
        run("launch/deployment.yaml", launch, 2)?,
        run("launch/job.yaml", launch, 1)?,
        run("launch/ordered.yaml", launch, 2)?,
        run("launch/priority.yaml", launch, 1)?,
        run("launch/shipped-spelling.yaml", launch, 1)?,
        run("launch/statefulset.yaml", launch, 2)?,
    ];
    let ordered: usize = ordered.iter().sum();
    // This sample needs only Kubernetes itself.
    let native = run("launch/native-sidecar.yaml", launch, 1)?;
    let pods = launch.all_ready(NAMESPACE, ordered + native).await?;
    ensure!(pods.iter().filter(|pod| ranks_of(pod).is_ok()).count() == ordered, "{pods:?}");
    wait::until("completion of all launch orders", LIMIT, async || {
        let pods = launch.get(NAMESPACE, "pods")?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let done = pods.iter().filter(|pod| pod["metadata"]["annotations"][LAUNCHED] == "true").count();
        Ok((done == ordered).then_some(()))
    })
    .await?;
    let folder = repository("config/samples/launch").display().to_string();
    launch.lab.cluster().kubectl_ok(&["delete", "-f", &folder, "--wait"])?;
    wait::until("deletion of all leftovers", LIMIT, async || {
        let pods = launch.lab.cluster().read_items(NAMESPACE, "pods")?;
        let barriers = launch.get(NAMESPACE, "configmaps")?.to_string();
        Ok((!barriers.contains("-barrier") && pods.is_empty()).then_some(()))
    })
    .await
}

/// Applies a sample, and returns its number of pods.
fn run(file: &str, launch: &LaunchLab, pods: usize) -> Result<usize> {
    launch.lab.apply_file(&format!("config/samples/{file}"))?;
    Ok(pods)
}
