//! The webhook is unavailable, slow or broken: pods are still created, pods with gates in their templates stay held, and normal
//! operation resumes afterwards.

use super::hook;
use super::load::{self, Outcome};
use crate::cases;
use crate::common::server::Server;
use crate::common::*;
use rollcall_testbed::{Component, free_port};
use rollcall_webhook::certificates::{Served, make::Pair};
use rustix::process::Signal;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Number of pods created during each kind of trouble.
const PODS_PER_TROUBLE: usize = 25;

#[tokio::test]
async fn without_a_webhook_that_works_pods_are_created_all_the_same() -> Result<()> {
    let lab = hook::install(0).await?;
    let port = free_port()?;
    let options = Options { webhook: Some(port), ..Options::default() };
    let mut controller = Controller::start(&lab, options.clone()).await?;
    lab.call_webhook(port)?;
    let server = Server::new(lab.cluster());
    hook::in_force(&server).await?;
    let namespace = server.namespace("trouble", json!({})).await?;
    let (sequence, pod) = hook::claimed(&namespace);
    // The first group has no members, so no pod of the second group is released, no matter how it got its gate.
    let groups = json!({ "podGroups": [{ "pods": ["never"] }, { "podSelector": { "matchLabels": { "app": "late" } } }] });
    server.sequences(&namespace, &[sequence, cases::sequence(&namespace, "order", groups)]).await?;
    let gated = |name: &str| {
        let pod = cases::pod(&json!({ "metadata": { "name": name, "labels": { "app": "late" } } }));
        pod.with(json!({ "spec": { "schedulingGates": [{ "name": GATE }] } }))
    };
    let meanwhile = async |trouble: &str| -> Result<Outcome> {
        let stop = CancellationToken::new();
        let late = async {
            server.create("pods", &namespace, &gated(&format!("late-{trouble}"))).await?;
            let pods = crate::common::server::collection("pods", &namespace);
            let created = wait::until(trouble, LIMIT, async || {
                let list = server.get(&pods).await?;
                let names = list["items"].as_array().into_iter().flatten().map(scene::name_of);
                let number = names.filter(|name| name.starts_with(&format!("{trouble}-"))).count();
                Ok((number >= PODS_PER_TROUBLE).then_some(()))
            });
            created.await?;
            stop.cancel();
            anyhow::Ok(())
        };
        let load = load::create(&server, &namespace, trouble, &pod, stop.clone());
        Ok(tokio::try_join!(load, late)?.0)
    };

    controller.kill()?;
    let away = meanwhile("away").await?;
    assert!(away.refused.is_empty() && away.held == 0 && away.free > 20, "{away:?}");

    let mut controller = Controller::start(&lab, options.clone()).await?;
    hook::in_force(&server).await?;
    controller.signal(Signal::STOP)?;
    let slow = meanwhile("slow").await?;
    controller.signal(Signal::CONT)?;
    assert!(slow.refused.is_empty() && slow.free > 20, "{slow:?}");
    hook::in_force(&server).await?;

    // The server has a valid certificate, but its answers are invalid.
    controller.stop().await?;
    let garbage = tokio::spawn(garbage(port, certificate(&server).await?));
    let wrong = meanwhile("wrong").await?;
    garbage.abort();
    let _ = garbage.await;
    assert!(wrong.refused.is_empty() && wrong.held == 0 && wrong.free > 20, "{wrong:?}");

    let _controller = Controller::start(&lab, options).await?;
    hook::in_force(&server).await?;
    let back = meanwhile("back").await?;
    assert!(back.refused.is_empty() && back.free == 0 && back.held > 20, "{back:?}");
    for trouble in ["away", "slow", "wrong", "back"] {
        let path = format!("{}/late-{trouble}", crate::common::server::collection("pods", &namespace));
        assert_eq!(crate::common::server::gates(&server.get(&path).await?), [GATE], "{trouble}");
    }
    Ok(())
}

async fn certificate(server: &Server<'_>) -> Result<Pair> {
    Ok(Pair { chain: hook::secret(server, "tls.crt").await?, key: hook::secret(server, "tls.key").await? })
}

/// Answers each request with one of several kinds of invalid responses.
async fn garbage(port: u16, pair: Pair) -> Result<()> {
    let served = Arc::new(Served::default());
    served.serve(pair.certified()?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let acceptor = TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_cert_resolver(served)));
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ngarbage".to_owned(),
        "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "garbage\r\n\r\n".to_owned(),
        ok(&json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1" })),
        ok(&json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {
            "uid": "another", "allowed": true, "patchType": "JSONPatch", "patch": "e30=" } })),
    ];
    for number in 0.. {
        let (stream, _) = listener.accept().await?;
        let (acceptor, answer) = (acceptor.clone(), answers[number % answers.len()].clone());
        tokio::spawn(async move {
            let mut stream = acceptor.accept(stream).await?;
            let mut request = [0; 1 << 16];
            let _ = stream.read(&mut request).await?;
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        });
    }
    Ok(())
}

fn ok(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The cluster restarts with the configuration of Rollcall in place, while the controller is down.
#[tokio::test]
async fn a_cluster_starts_cold_with_our_configuration_in_place() -> Result<()> {
    let lab = hook::install(1).await?;
    lab.apply_file("config/admission")?;
    let mut controller = Controller::start(&lab, Options::default()).await?;
    let server = Server::new(lab.cluster());
    lab.call_webhook(controller.webhook)?;
    hook::in_force(&server).await?;
    let namespace = server.namespace("cold", json!({})).await?;
    controller.kill()?;
    let cluster = lab.cluster();
    for component in [Component::Scheduler, Component::ControllerManager, Component::Kwok] {
        cluster.kill(component).await?;
    }
    cluster.kill_api_server().await?;
    cluster.kill(Component::Etcd).await?;
    cluster.start_component(Component::Etcd).await?;
    cluster.start_api_server().await?;
    for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
        cluster.start_component(component).await?;
    }
    cluster.add_node("cold", &Default::default()).await?;
    // A new node, because the old one belongs to the killed kwok until its lease expires.
    let mut pod = cases::pod(&json!({ "metadata": { "name": "free" } }));
    pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "cold" });
    server.create("pods", &namespace, &pod).await?;
    let path = format!("{}/free", crate::common::server::collection("pods", &namespace));
    wait::until("a pod that runs", LIMIT, async || {
        Ok((server.get(&path).await?["status"]["phase"] == "Running").then_some(()))
    })
    .await?;
    let _controller =
        Controller::start(&lab, Options { webhook: Some(controller.webhook), ..Options::default() }).await?;
    hook::in_force(&server).await
}
