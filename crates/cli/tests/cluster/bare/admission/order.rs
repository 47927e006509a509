//! The controller and the policies together: pods without gates in their templates start in order, and the controller's writes
//! stay within its limits.

use crate::common::make::{daemon_set, deployment, named, selected, sequence};
use crate::common::server::Server;
use crate::common::*;
use rollcall_api::names;
use rollcall_testbed::AuditEvent;

const HOLD: &str = "example.com/hold";

#[tokio::test]
async fn pods_without_a_gate_in_their_template_start_in_order() -> Result<()> {
    let lab = Lab::own(rollcall_testbed::Options { nodes: 2, ..Default::default() }).await?;
    lab.apply_file("config/admission")?;
    let server = Server::new(lab.cluster());
    let mut scene = Scene::without_controller(&lab, "order").await?;
    scene.expect("s", "web", 2);
    scene.expect("s", "agent", 2);
    let namespace = format!("/api/v1/namespaces/{}", scene.namespace);
    server.patch(&namespace, &json!({ "metadata": { "labels": { names::ENABLED_LABEL: "true" } } })).await?;
    let _controller = Controller::start(&lab, Options::default()).await?;

    let groups = [named("db", &["db"]), selected("web", "web"), selected("agent", "agent")];
    scene.sequence("s", &groups).await?;
    scene
        .create(
            sequence("t", &[named("only", &["held"])])
                .with(json!({ "spec": { "schedulingGateName": HOLD } })),
        )
        .await?;
    server.until_seen(&scene.namespace).await?;
    let template = json!({ "spec": { "template": { "spec": { "schedulingGates": null } } } });
    scene
        .create_all([daemon_set("agent").with(template.clone()), deployment("web", 2).with(template)])
        .await?;
    scene.pods_are("agent", 2, |pod| scene::has_gate(pod, GATE)).await?;
    scene.pods_are("web", 2, |pod| scene::has_gate(pod, GATE)).await?;
    scene.create(pod("db").gates(&[])).await?;
    scene.phase("s", "Completed").await?;

    // The controller may not remove this unknown gate until the namespace hands it over.
    let held = scene.create(pod("held").gates(&[])).await?;
    assert_eq!(scene::gates(&held), [HOLD]);
    let refused =
        |event: &AuditEvent| event.user == ACCOUNT && event.name == "held" && event.status_code == 403;
    lab.cluster().audit().wait_for(LIMIT, refused).await?;
    let status = scene.blocked_by("t", "held", "ReleaseForbidden").await?;
    let blocked = &status["blockedBy"][0];
    assert!(blocked["message"].as_str().is_some_and(|text| text.contains(HOLD)), "{blocked}");
    assert!(blocked["since"].is_string(), "{blocked}");
    let annotations = json!({ "metadata": { "annotations": { names::ALLOW_GATES: HOLD } } });
    server.patch(&namespace, &annotations).await?;
    let status = scene.phase("t", "Completed").await?;
    assert!(status["blockedBy"].as_array().is_none_or(Vec::is_empty), "{status}");
    let tries = lab.events(|event| refused(event))?.len();
    assert!(tries < 20, "rejected {tries} times: the controller must back off");
    scene.done().await
}
