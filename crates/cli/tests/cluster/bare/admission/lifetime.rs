//! Deleting and re-creating the policies and the CRD does no harm.

use crate::cases;
use crate::common::lab::repository;
use crate::common::server::{Server, gates};
use crate::common::*;
use anyhow::Context;
use rollcall_testbed::Cluster;

const DEFINITION: &str = "config/crd/podsequence-crd.yaml";
const POLICIES: &str = "config/admission";

#[tokio::test]
async fn without_the_definition_and_without_the_policies_pods_are_free() -> Result<()> {
    let options = rollcall_testbed::Options { nodes: 0, ..Default::default() };
    let cluster = Cluster::start(options).await?;
    let server = Server::new(&cluster);
    let namespace = server.namespace("lifetime", json!({})).await?;
    let sequence = cases::sequence(&namespace, "s", json!({ "podGroups": [{ "pods": ["a"] }] }));
    let pod = cases::pod(&json!({ "metadata": { "name": "a" } }));
    let held = async || {
        let answer = server.try_pod(&namespace, &pod).await?;
        let pod = answer.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        anyhow::Ok(!gates(&pod).is_empty())
    };
    let free = async || Ok((!held().await?).then_some(()));

    define(&cluster)?;
    kubectl(&cluster, "apply", POLICIES)?;
    server.sequences(&namespace, std::slice::from_ref(&sequence)).await?;
    assert!(held().await?);

    kubectl(&cluster, "delete", DEFINITION)?;
    wait::until("a pod without a gate while the CRD is missing", LIMIT, free).await?;
    define(&cluster)?;
    server.sequences(&namespace, &[sequence]).await?;
    assert!(held().await?);

    kubectl(&cluster, "delete", POLICIES)?;
    wait::until("a pod without a gate while the policies are missing", LIMIT, free).await
}

fn define(cluster: &Cluster) -> Result<()> {
    kubectl(cluster, "apply", DEFINITION)?;
    let definition = "crd/podsequences.scheduling.example.com";
    cluster.kubectl_ok(&["wait", "--for=condition=Established", definition])?;
    // This also waits until the API server lists it.
    cluster.kubectl_ok(&["get", "podsequences", "--all-namespaces"]).map(drop)
}

fn kubectl(cluster: &Cluster, verb: &str, path: &str) -> Result<()> {
    let path = repository(path);
    cluster.kubectl_ok(&[verb, "-f", path.to_str().context("not UTF-8")?]).map(drop)
}
