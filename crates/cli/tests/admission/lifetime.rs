//! The policies come and go at any time without harm.

use crate::cases;
use crate::common::lab::repository;
use crate::common::*;
use crate::server::{Server, gates};
use anyhow::Context;
use rollcall_testbed::Cluster;

#[tokio::test]
async fn before_the_definition_and_after_it() -> Result<()> {
    let options = rollcall_testbed::Options { nodes: 0, ..Default::default() };
    let cluster = Cluster::start(options).await?;
    let server = Server::of(&cluster);
    let kubectl = |verb: &str, path: &str| -> Result<()> {
        let path = repository(path);
        cluster.kubectl_ok(&[verb, "-f", path.to_str().context("not UTF-8")?]).map(drop)
    };
    let pod = cases::pod(&json!({ "metadata": { "name": "a" } }));
    let free = async |namespace: &str| {
        let answer = server.try_pod(namespace, &pod).await?;
        let pod = answer.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        anyhow::Ok(gates(&pod).is_empty())
    };

    kubectl("apply", "config/admission")?;
    let early = server.namespace("early", json!({})).await?;
    assert!(free(&early).await?, "without the definition there is nobody to claim it");

    kubectl("apply", "config/crd/podsequence-crd.yaml")?;
    cluster.kubectl_ok(&[
        "wait",
        "--for=condition=Established",
        "crd",
        "podsequences.scheduling.example.com",
    ])?;
    let spec = json!({ "podGroups": [{ "pods": ["a"] }] });
    server.sequences(&early, &[cases::sequence(&early, "s", spec.clone())]).await?;
    assert!(!free(&early).await?, "the definition came later");

    kubectl("delete", "config/crd/podsequence-crd.yaml")?;
    wait::until("the pods to be free", LIMIT, async || Ok(free(&early).await?.then_some(()))).await?;
    kubectl("apply", "config/crd/podsequence-crd.yaml")?;
    cluster.kubectl_ok(&[
        "wait",
        "--for=condition=Established",
        "crd",
        "podsequences.scheduling.example.com",
    ])?;
    server.sequences(&early, &[cases::sequence(&early, "s", spec)]).await?;
    assert!(!free(&early).await?, "the definition came back");

    kubectl("delete", "config/admission")?;
    wait::until("the policies to be gone", LIMIT, async || Ok(free(&early).await?.then_some(()))).await
}
