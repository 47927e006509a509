//! Checks that the permissions used for launch order are exactly those that `launch.yaml` grants.

use super::pods::{PROPOSED, containers, pod, spec};
use super::scene::LaunchLab;
use crate::common::lab::OWN_NAMESPACE;
use crate::common::permissions::{Permission, granted, used};
use crate::common::*;
use anyhow::ensure;
use rollcall_api::names::LAUNCH_CONFIGURATION;
use rollcall_testbed::{AuditEvent, Component};
use std::collections::BTreeSet;

const FILE: &str = "config/webhook/launch.yaml";

/// Runs last, when the audit log contains all requests of this cluster.
pub async fn used_and_granted_are_the_same(launch: &LaunchLab) -> Result<()> {
    in_the_way_of_a_namesake(launch).await?;
    let of_launch = |event: &&AuditEvent| {
        event.user == ACCOUNT
            && match event.resource.as_str() {
                "configmaps" => event.namespace != OWN_NAMESPACE,
                "mutatingwebhookconfigurations" => event.name == LAUNCH_CONFIGURATION,
                _ => false,
            }
    };
    let events = launch.lab.events(of_launch)?;
    let refused: Vec<&AuditEvent> = events.iter().filter(|event| event.status_code == 403).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    let all: BTreeSet<Permission> = events.iter().map(used).collect();
    let granted = granted(FILE, "ClusterRole")?;
    ensure!(granted.len() == 7 && all == granted, "used: {all:?}, granted: {granted:?}");
    Ok(())
}

/// A leftover ConfigMap of a deleted pod with the same name is read, deleted and re-created.
async fn in_the_way_of_a_namesake(launch: &LaunchLab) -> Result<()> {
    let cluster = launch.lab.cluster();
    let namespace = cluster.namespace("namesakes").await?;
    let dead = json!({ "apiVersion": "v1", "kind": "Pod", "name": "again", "uid": "22222222-2222-4222-8222-222222222222" });
    let left = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "c_1": "true" },
        "metadata": { "name": "again-barrier", "ownerReferences": [dead] },
    });
    // Otherwise garbage collection would delete the ConfigMap first.
    cluster.pause(Component::ControllerManager).await?;
    launch.create(&namespace, &[left, pod("again", &spec(containers(PROPOSED, &[1, 0])))])?;
    let pods = launch.all_ready(&namespace, 1).await;
    cluster.resume(Component::ControllerManager).await?;
    let barrier = launch.get(&namespace, "configmap/again-barrier")?;
    let owner = &barrier["metadata"]["ownerReferences"][0]["uid"];
    ensure!(*owner == pods?[0]["metadata"]["uid"], "{barrier}");
    Ok(())
}
