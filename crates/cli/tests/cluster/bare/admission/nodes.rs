//! Labels that nodes get when they register.

use crate::cases;
use crate::common::server::{self, collection};
use crate::common::*;
use http::Method;
use rollcall_testbed::Capacity;

#[tokio::test]
async fn nodes_are_unseen_when_they_register() -> Result<()> {
    let server = server::start().await?;
    for case in cases::nodes() {
        let path = format!("{}?dryRun=All", collection("nodes", ""));
        let node = serde_json::to_vec(&case.node("new-node"))?;
        let answer = server.send(Method::POST, &path, "application/json", node, None).await?;
        let node = answer.map_err(|error| anyhow::anyhow!("{}: {error:?}", case.case))?;
        assert_eq!(node["metadata"]["labels"], json!(case.labels), "{}", case.case);
    }
    Ok(())
}

/// The label is added only at creation: after it is removed, it stays removed.
#[tokio::test]
async fn the_label_stays_off() -> Result<()> {
    let server = server::start().await?;
    server.cluster.add_node("registered", &Capacity::huge()).await?;
    let path = "/api/v1/nodes/registered";
    let unseen = rollcall_api::names::UNSEEN_LABEL;
    assert_eq!(server.get(path).await?["metadata"]["labels"][unseen], "true");
    server.patch(path, &json!({ "metadata": { "labels": { unseen: null } } })).await?;
    let patched = server.patch(path, &json!({ "metadata": { "labels": { "zone": "a" } } })).await?;
    assert_eq!(patched["metadata"]["labels"].get(unseen), None);
    server.cluster.remove_node("registered").await
}
