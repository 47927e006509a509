//! Tests the verifier of the start order: it must report the violations of a faulty controller. This test plays the faulty
//! controller with the permissions of the real one, which is not running.

use crate::common::lab::Lab;
use crate::common::make::{named, pod};
use crate::common::order::{Violation, verify};
use crate::common::*;
use kube::api::{Api, Patch, PatchParams};
use rollcall_testbed::AuditEvent;

const FOREIGN: &str = "example.com/quota";

/// A faulty controller that removes gates in any order.
struct Wrong {
    scene: Scene<'static>,
    client: kube::Client,
}

impl Wrong {
    async fn new(prefix: &str) -> Result<Wrong> {
        let lab = Lab::bare().await?;
        let client = lab.unlimited_client().await?;
        let scene = Scene::without_controller(lab, prefix).await?;
        scene.sequence("s", &[named("first", &["a"]), named("second", &["b"])]).await?;
        Ok(Wrong { scene, client })
    }

    async fn patch(&self, pod: &str, patch: Value) -> Result<()> {
        let pods =
            Api::<k8s_openapi::api::core::v1::Pod>::namespaced(self.client.clone(), &self.scene.namespace);
        pods.patch(pod, &PatchParams::default(), &Patch::Strategic(patch)).await?;
        Ok(())
    }

    /// Releases a pod with the same patch as the real controller.
    async fn release(&self, pod: &str, gates: &[&str]) -> Result<()> {
        let uid = self.scene.get("Pod", pod).await?["metadata"]["uid"].clone();
        let gates: Vec<Value> = gates.iter().map(|gate| json!({"$patch": "delete", "name": gate})).collect();
        self.patch(pod, json!({"metadata": {"uid": uid}, "spec": {"schedulingGates": gates}})).await
    }

    /// Returns the violations that the verifier reports, once the log contains the last write.
    async fn violations(&self, last: &str) -> Result<Vec<Violation>> {
        let (namespace, last) = (self.scene.namespace.clone(), last.to_owned());
        let written = move |event: &AuditEvent| {
            event.namespace == namespace
                && event.name == last
                && event.user == ACCOUNT
                && event.is_committed()
        };
        self.scene.lab.cluster().audit().wait_for(LIMIT, written).await?;
        Ok(verify(&self.scene.lab.audited(&self.scene.namespace)?, &self.scene.rules))
    }
}

fn invariants(found: &[Violation]) -> Vec<&'static str> {
    found.iter().map(|violation| violation.invariant).collect()
}

#[tokio::test]
async fn the_right_order_is_found_right() -> Result<()> {
    let wrong = Wrong::new("right").await?;
    wrong.scene.pods(&["a", "b"]).await?;
    wrong.release("a", &[GATE]).await?;
    wrong.scene.ready("a").await?;
    wrong.release("b", &[GATE]).await?;
    assert_eq!(wrong.violations("b").await?, []);
    wrong.scene.done().await
}

#[tokio::test]
async fn a_gate_taken_too_early_is_found() -> Result<()> {
    let wrong = Wrong::new("early").await?;
    wrong.scene.unready_pods(&["a"]).await?;
    wrong.scene.pods(&["b"]).await?;
    wrong.release("a", &[GATE]).await?;
    wrong.release("b", &[GATE]).await?;
    let found = wrong.violations("b").await?;
    assert_eq!(invariants(&found), ["S1"], "{found:?}");
    assert!(found[0].detail.contains("\"first\" never held"), "{found:?}");

    // The violation remains even if the first group arrives later in the same second.
    wrong.scene.make_ready("a").await?;
    let ready = wrong.scene.ready("a").await?;
    let (namespace, version) = (wrong.scene.namespace.clone(), ready["metadata"]["resourceVersion"].clone());
    let committed = move |event: &AuditEvent| {
        event.namespace == namespace && event.response_object["metadata"]["resourceVersion"] == version
    };
    wrong.scene.lab.cluster().audit().wait_for(LIMIT, committed).await?;
    let found = wrong.violations("b").await?;
    assert_eq!(invariants(&found), ["S1"], "{found:?}");
    assert!(found[0].detail.contains("\"second\" opened only at rv"), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_foreign_gate_taken_too_is_found() -> Result<()> {
    let wrong = Wrong::new("foreign").await?;
    wrong.scene.create(pod("a").gates(&[GATE, FOREIGN])).await?;
    wrong.release("a", &[GATE, FOREIGN]).await?;
    let found = wrong.violations("a").await?;
    assert!(invariants(&found).contains(&"S2"), "{found:?}");
    assert!(found.iter().any(|violation| violation.detail.contains(FOREIGN)), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn any_other_change_of_the_pod_is_found() -> Result<()> {
    let wrong = Wrong::new("change").await?;
    wrong.scene.pods(&["a"]).await?;
    let uid = wrong.scene.get("Pod", "a").await?["metadata"]["uid"].clone();
    let gates = json!([{"$patch": "delete", "name": GATE}]);
    let patch =
        json!({"metadata": {"uid": uid, "labels": {"more": "yes"}}, "spec": {"schedulingGates": gates}});
    wrong.patch("a", patch).await?;
    let found = wrong.violations("a").await?;
    assert_eq!(invariants(&found), ["S2"], "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_write_that_names_no_uid_is_found() -> Result<()> {
    let wrong = Wrong::new("uid").await?;
    wrong.scene.pods(&["a"]).await?;
    wrong.patch("a", json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}})).await?;
    let found = wrong.violations("a").await?;
    assert_eq!(invariants(&found), ["S7"], "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_no_sequence_claims_is_found() -> Result<()> {
    let wrong = Wrong::new("stranger").await?;
    wrong.scene.pods(&["stranger"]).await?;
    wrong.release("stranger", &[GATE]).await?;
    let found = wrong.violations("stranger").await?;
    assert_eq!(invariants(&found), ["S6"], "{found:?}");
    Ok(())
}

#[tokio::test]
async fn more_starts_at_once_than_allowed_are_found() -> Result<()> {
    let wrong = Wrong::new("storm").await?;
    let group = named("storm", &["x", "y", "z"]).with(json!({"maxConcurrentStarts": 2}));
    wrong.scene.sequence("limited", &[group]).await?;
    wrong.scene.unready_pods(&["x", "y", "z"]).await?;
    for pod in ["x", "y", "z"] {
        wrong.release(pod, &[GATE]).await?;
    }
    let found = wrong.violations("z").await?;
    assert_eq!(invariants(&found), ["S1"], "{found:?}");
    assert!(found[0].detail.contains("3 members were starting at once, the limit is 2"), "{found:?}");
    Ok(())
}
