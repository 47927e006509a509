//! Guardians that have their Node as a second owner (`--guardian-node-owner`).

use super::{apply, install, list, reserved_on};
use crate::common::*;
use anyhow::ensure;

const PINNED: [&str; 1] = ["--guardian-node-owner"];

fn owners(pod: &Value) -> Vec<String> {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners
        .map(|owner| {
            let flag = |field: &str| owner[field].as_bool().unwrap_or_default();
            let kind = owner["kind"].as_str().unwrap_or_default();
            format!("{kind} {} {}", flag("controller"), flag("blockOwnerDeletion"))
        })
        .collect()
}

#[tokio::test]
async fn a_guardian_that_outlives_its_ticket_is_deleted_when_a_controller_starts() -> Result<()> {
    let lab = install(1).await?;
    let cluster = lab.cluster();
    let namespace = cluster.namespace("owners").await?;
    let order = json!({
        "apiVersion": "core.korder.dev/v1alpha1", "kind": "Order", "metadata": { "name": "agents" },
        "spec": { "daemonSet": true, "template": { "spec": { "resources": { "requests": { "cpu": "1" } } } } },
    });
    let controller = Controller::start(&lab, Options::args(&PINNED)).await?;
    apply(cluster, &namespace, &order)?;
    reserved_on(cluster, &namespace, &["node-0"]).await?;
    let guardians = list(cluster, &namespace, "pods")?;
    ensure!(guardians.iter().map(owners).collect::<Vec<_>>() == [["Ticket true false", "Node false false"]]);
    drop(controller);

    // The garbage collector deletes only objects without any remaining owner.
    cluster.kubectl_ok(&["delete", "-n", &namespace, "order/agents"])?;
    wait::until("a guardian that only a Node owns", LIMIT, async || {
        let guardians = list(cluster, &namespace, "pods")?;
        let orphaned = guardians.iter().map(owners).collect::<Vec<_>>() == [["Node false false"]];
        Ok(orphaned.then_some(()))
    })
    .await?;

    // A controller without the flag deletes it too.
    let _controller = Controller::start(&lab, Options::default()).await?;
    wait::until("deletion of the guardian", LIMIT, async || {
        Ok(list(cluster, &namespace, "pods")?.is_empty().then_some(()))
    })
    .await?;
    let refused =
        lab.events(|event| event.user == ACCOUNT && event.is_write() && event.status_code == 403)?;
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}
