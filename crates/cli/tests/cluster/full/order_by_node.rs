//! Tests the verifier of Node scope: it must report the violations of a faulty controller. This test plays the faulty
//! controller with the permissions of the real one, which is not running.

use crate::common::order::{Placed, Violation};
use crate::common::*;
use kube::Client;
use rollcall_testbed::AuditEvent;
use std::sync::atomic::{AtomicU32, Ordering};

/// A faulty controller on two nodes, with agents before apps on each node.
struct Wrong<'a> {
    scene: Scene<'a>,
    client: Client,
}

impl<'a> Wrong<'a> {
    async fn new(lab: &'a Lab, prefix: &str) -> Result<Wrong<'a>> {
        let scene = Scene::without_controller(lab, prefix).await?;
        Ok(Wrong { scene, client: lab.unlimited_client().await? })
    }

    /// Creates an agent or app without a gate that is scheduled on this node only.
    async fn lands(&self, app: &str, node: &str, ready: bool) -> Result<()> {
        let name = format!("{app}-{node}");
        let host = json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": node } } });
        let pod = make::pod(&name).gates(&[]).label("app", app).with(host);
        let pod = if ready { pod } else { pod.kwok("never-ready", "true") };
        self.scene.create(pod).await?;
        let there = |pod: &Value| pod["status"]["phase"] == "Running" && scene::is_ready(pod) == ready;
        self.scene.until("Pod", &name, "there", there).await.map(drop)
    }

    /// Sends a merge patch of a node with the permissions of the controller.
    async fn write(&self, node: &str, patch: Value) -> Result<()> {
        let request = http::Request::patch(format!("/api/v1/nodes/{node}"))
            .header("Content-Type", "application/merge-patch+json")
            .body(serde_json::to_vec(&patch)?)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }

    /// Returns the violations that the verifier reports, once the log contains all events so far.
    async fn violations(&self) -> Result<Vec<Violation>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("last-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.scene.create(make::pod(&name)).await?;
        let last = |event: &AuditEvent| event.resource == "pods" && event.name == name;
        self.scene.lab.cluster().audit().wait_for(LIMIT, last).await?;
        let mut placed = Placed::new(ACCOUNT, &self.scene.namespace, &nodes::sequence("s", "Labels"));
        self.scene.lab.cluster().audit().pass(|event| placed.see(&event))?;
        Ok(placed.violations())
    }
}

fn lines(found: &[Violation]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn what_happens_on_nodes_is_found() -> Result<()> {
    let lab = Lab::full(rollcall_testbed::Options { nodes: 2, ..Default::default() }).await?;
    let uid = |node: Value| node["metadata"]["uid"].clone();

    // The correct order, on one node after the other.
    let wrong = Wrong::new(&lab, "right").await?;
    for node in ["node-0", "node-1"] {
        wrong.lands("agent", node, true).await?;
        wrong.lands("app", node, true).await?;
    }
    assert_eq!(wrong.violations().await?, []);

    // An agent on another node does not count, and neither does one that arrives later.
    let wrong = Wrong::new(&lab, "elsewhere").await?;
    wrong.lands("agent", "node-0", true).await?;
    wrong.lands("app", "node-1", true).await?;
    let found = lines(&wrong.violations().await?);
    assert!(found.len() == 1 && found[0].starts_with("S1: app-node-1 was bound to node-1"), "{found:?}");
    assert!(found[0].ends_with("\"agents\" arrived there never"), "{found:?}");
    wrong.lands("agent", "node-1", true).await?;
    let found = lines(&wrong.violations().await?);
    assert!(found.len() == 1 && found[0].contains("\"agents\" arrived there at version"), "{found:?}");

    // An agent that is not ready does not count.
    let wrong = Wrong::new(&lab, "unready").await?;
    wrong.lands("agent", "node-0", false).await?;
    wrong.lands("app", "node-0", true).await?;
    let found = lines(&wrong.violations().await?);
    assert!(found.len() == 1 && found[0].starts_with("S1: app-node-0 was bound to node-0"), "{found:?}");

    // An agent on an earlier node of the same name does not count.
    let wrong = Wrong::new(&lab, "replaced").await?;
    wrong.lands("agent", "node-1", true).await?;
    lab.cluster().remove_node("node-1").await?;
    wrong.scene.delete_and_wait("Pod", "agent-node-1").await?;
    lab.cluster().add_node("node-1", &Default::default()).await?;
    wrong.lands("app", "node-1", true).await?;
    let found = lines(&wrong.violations().await?);
    assert!(found.len() == 1 && found[0].contains("app-node-1 was bound to node-1"), "{found:?}");

    // The controller may write its own keys. Changes of foreign keys are violations: a label, and reordered taints.
    let wrong = Wrong::new(&lab, "foreign").await?;
    let taint = |key: &str| json!({ "key": key, "effect": "PreferNoSchedule" });
    let taints = |keys: [&str; 2]| json!({ "spec": { "taints": keys.map(taint) } });
    wrong.scene.patch("Node", "node-0", taints(["b", "a"])).await?;
    let me = json!({ "metadata": { "uid": uid(wrong.scene.get("Node", "node-0").await?) } });
    let label = |key: &str| json!({ "metadata": { "labels": { key: "1" } } });
    wrong.write("node-0", me.clone().with(label("podsequence.example.com/x-blocked"))).await?;
    assert_eq!(wrong.violations().await?, []);
    wrong.write("node-0", me.clone().with(label("zone"))).await?;
    wrong.write("node-0", me.with(taints(["a", "b"]))).await?;
    let found = lines(&wrong.violations().await?);
    assert!(found.len() == 2 && found.iter().all(|line| line.starts_with("S3: node-0")), "{found:?}");

    // A write without the UID of the node is a violation.
    let wrong = Wrong::new(&lab, "uid").await?;
    wrong.write("node-1", label("podsequence.example.com/y-blocked")).await?;
    let found = lines(&wrong.violations().await?);
    let meant_for_nobody = found.iter().filter(|line| line.starts_with("S7: node-1"));
    assert!(found.len() == 3 && meant_for_nobody.count() == 1, "{found:?}");
    Ok(())
}
