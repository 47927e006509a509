//! The control plane: its parts, its identities, its log.

use crate::common::{LIMIT, is_ready, pod};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use rollcall_testbed::{Cluster, Component, Options, wait};

async fn runs_a_pod(cluster: &Cluster, name: &str) -> Result<()> {
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    pods.create(&PostParams::default(), &pod(name, &[])).await?;
    wait::for_object(&pods, name, LIMIT, is_ready).await?;
    Ok(())
}

#[tokio::test]
async fn parts_can_be_stopped_and_started() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    runs_a_pod(&cluster, "first").await?;

    cluster.restart_api_server().await?;
    runs_a_pod(&cluster, "after-restart").await?;

    cluster.kill_api_server().await?;
    let request = cluster.kubectl(&["get", "nodes"])?;
    assert!(!request.status.success(), "a killed API server answered");
    cluster.start_api_server().await?;
    runs_a_pod(&cluster, "after-kill").await?;

    cluster.kill(Component::Etcd).await?;
    cluster.start_component(Component::Etcd).await?;
    cluster.start_api_server().await?;
    runs_a_pod(&cluster, "after-etcd").await?;

    cluster.pause(Component::Scheduler).await?;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    pods.create(&PostParams::default(), &pod("unscheduled", &[])).await?;
    cluster.resume(Component::Scheduler).await?;
    wait::for_object(&pods, "unscheduled", LIMIT, is_ready).await?;

    let nodes = Api::<Node>::all(cluster.client());
    assert_eq!(cluster.add_nodes(2).await?, ["node-1", "node-2"]);
    cluster.remove_node("node-1").await?;
    let names: Vec<_> = nodes.list(&ListParams::default()).await?.items;
    let names: Vec<_> = names.into_iter().filter_map(|node| node.metadata.name).collect();
    assert_eq!(names, ["node-0", "node-2"]);

    let ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|list| list.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    };
    cluster.kubectl_ok(&["annotate", "node", "node-2", "testbed.rollcall.dev/not-ready=true"])?;
    wait::for_object(&nodes, "node-2", LIMIT, |node| !ready(node)).await?;
    cluster.kubectl_ok(&["annotate", "node", "node-2", "testbed.rollcall.dev/not-ready-"])?;
    wait::for_object(&nodes, "node-2", LIMIT, ready).await?;
    Ok(())
}

#[tokio::test]
async fn service_accounts_are_held_to_their_roles() -> Result<()> {
    let cluster = rollcall_testbed::shared().await;
    let namespace = rollcall_testbed::namespace("account").await;
    let ns = namespace.as_str();
    cluster.kubectl_ok(&["-n", ns, "create", "serviceaccount", "reader"])?;
    cluster.kubectl_ok(&["-n", ns, "create", "role", "reader", "--verb=get,list", "--resource=pods"])?;
    let account = format!("--serviceaccount={ns}:reader");
    cluster.kubectl_ok(&["-n", ns, "create", "rolebinding", "reader", "--role=reader", &account])?;
    let kubeconfig = cluster.service_account_kubeconfig(ns, "reader").await?;
    let kubeconfig = kubeconfig.to_str().context("not UTF-8")?;
    let as_reader = |args: &[&str]| {
        std::process::Command::new(cluster.bin_dir().join("kubectl"))
            .args(["--kubeconfig", kubeconfig, "-n", ns])
            .args(args)
            .output()
    };
    let mut audit = cluster.audit_from_now()?;
    assert!(as_reader(&["get", "pods"])?.status.success());
    let denied = as_reader(&["create", "configmap", "x"])?;
    assert!(!denied.status.success());

    let user = format!("system:serviceaccount:{ns}:reader");
    let read = audit.wait_for(LIMIT, |event| event.user == user && event.verb == "list").await?;
    assert_eq!((read.resource.as_str(), read.namespace.as_str(), read.status_code), ("pods", ns, 200));
    let write = audit.wait_for(LIMIT, |event| event.user == user && event.is_write()).await?;
    assert_eq!((write.resource_path().as_str(), write.status_code), ("configmaps", 403));
    assert!(!write.is_committed());
    assert_eq!(write.response_object["reason"], "Forbidden");
    Ok(())
}

#[tokio::test]
async fn the_audit_log_holds_what_was_committed() -> Result<()> {
    let cluster = rollcall_testbed::shared().await;
    let namespace = rollcall_testbed::namespace("audit").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), &namespace);
    let created = pods.create(&PostParams::default(), &pod("seen", &[])).await?;
    wait::for_object(&pods, "seen", LIMIT, is_ready).await?;

    let mut audit = cluster.audit();
    let here = |path: &'static str| {
        let namespace = namespace.clone();
        move |event: &rollcall_testbed::AuditEvent| {
            event.namespace == namespace && event.name == "seen" && event.resource_path() == path
        }
    };
    let create = audit.wait_for(LIMIT, |event| here("pods")(event) && event.verb == "create").await?;
    assert!(create.is_committed());
    assert_eq!(create.user, "admin");
    assert_eq!(create.response_object["metadata"]["uid"].as_str(), created.metadata.uid.as_deref());
    let bound = audit.wait_for(LIMIT, here("pods/binding")).await?;
    assert_eq!(bound.user, "system:kube-scheduler");
    let ran = audit.wait_for(LIMIT, here("pods/status")).await?;
    assert_eq!(ran.request_object["status"]["phase"], "Running");
    assert!(create.stage_time <= bound.stage_time && bound.stage_time <= ran.stage_time);
    Ok(())
}
