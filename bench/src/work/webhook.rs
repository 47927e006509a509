//! P12: the webhook: its latency on open connections, and its cost for the creation of pods.

use crate::Arguments;
use crate::bare_webhook::BareWebhook;
use crate::controller::Mode;
use crate::lab::{self, Lab, pod_name, pods_path};
use crate::table::{Table, quantile};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_testbed::{free_port, wait};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

const PER_SECOND: u32 = 500;
/// The number of connections that a busy API server keeps open.
const CONNECTIONS: u32 = 10;
const SECONDS: usize = 20;
/// The number of sequences in the namespace of the pods; each has five groups.
const SEQUENCES: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);
const CONFIGURATION: &str = "podsequence-mutating-webhook";
const BARE: &str = "bench-bare-webhook";

pub async fn p12(lab: &Lab, arguments: &Arguments, table: &mut Table) -> Result<()> {
    lab.apply("config/webhook/webhook.yaml")?;
    let port = free_port()?;
    let controller = lab.controller(Mode::Webhook(port)).await?;
    let authority = published(lab, port).await?;
    let namespace = lab.namespace().await?;
    let plain = lab.namespace().await?;
    let label = ["label", "namespace", &namespace, "podsequence-enabled=true"];
    lab.cluster.kubectl_ok(&label)?;
    for number in 0..SEQUENCES {
        let group =
            |at: usize| json!({ "podSelector": { "matchLabels": { "tier": format!("{number}-{at}") } } });
        let groups: Vec<Value> = (0..5).map(group).collect();
        lab.sequence(&namespace, &format!("s-{number}"), groups.into()).await?;
    }
    // The group waits for a pod that never exists, because releases are not measured here.
    let web = json!({ "podSelector": { "matchLabels": { "tier": "web" } } });
    lab.sequence(&namespace, "claims", json!([{ "pods": ["first"] }, web])).await?;
    in_force(lab, &namespace).await?;

    let review = review(&namespace);
    let seconds = arguments.scaled(SECONDS).min(SECONDS);
    // A warm-up round.
    answers(port, &authority, &review, 2).await?;
    let latencies = answers(port, &authority, &review, seconds).await?;
    let p99 = quantile(&latencies, 0.99);
    let measured = format!("{:.2} ms (p50 {:.2} ms)", p99 * 1e3, quantile(&latencies, 0.5) * 1e3);
    let work = format!("webhook, {PER_SECOND} reviews/s, {} sequences: p99", SEQUENCES + 1);
    table.figure("P12", &work, measured, p99, ("≤ 5 ms", 0.005));

    let bare = bare(lab).await?;
    let pods = arguments.scaled(1000);
    let (mut with, mut without, mut any) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=arguments.rounds {
        let sides = [(&plain, &mut without), (&bare.namespace, &mut any), (&namespace, &mut with)];
        for (place, times) in sides {
            let begun = Instant::now();
            let names = (0..pods).map(|number| format!("r{round}-{}", pod_name(number)));
            lab.create_all(&pods_path(place), names.map(|name| lab::ungated(&name))).await?;
            if round > 0 {
                times.push(begun.elapsed().as_secs_f64());
            }
        }
    }
    // The promise: the rate with the webhook is at least 0.85 of the rate without it, so the time is at most 1 / 0.85.
    let (work, promise) = (format!("{pods} pods created, each given its gate, s"), ("≤ 1.18×", 1.0 / 0.85));
    table.ratio("P12", &format!("{work}: against no webhook"), &with, &without, promise);
    table.ratio("P12", &format!("{work}: against the barest webhook"), &with, &any, promise);
    for place in [&namespace, &bare.namespace, &plain] {
        lab.tidy(place).await?;
    }
    drop(controller);
    lab.cluster.kubectl_ok(&["delete", "mutatingwebhookconfiguration", CONFIGURATION, BARE])?;
    Ok(())
}

/// A namespace whose pods get their gate from the minimal webhook, which is called by the same rules.
struct Bare {
    namespace: String,
    _webhook: BareWebhook,
}

async fn bare(lab: &Lab) -> Result<Bare> {
    let (namespace, webhook) = (lab.namespace().await?, BareWebhook::start().await?);
    let configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let mut one = lab.get(&format!("{configurations}/{CONFIGURATION}")).await?["webhooks"][0].take();
    one["clientConfig"] = json!({ "url": webhook.url, "caBundle": webhook.authority });
    one["namespaceSelector"] = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": BARE },
        "webhooks": [one],
    });
    lab.create(configurations, configuration).await?;
    in_force(lab, &namespace).await?;
    Ok(Bare { namespace, _webhook: webhook })
}

/// Makes the API server call this machine, and waits for the authority of the webhook.
async fn published(lab: &Lab, port: u16) -> Result<String> {
    let url = format!("https://127.0.0.1:{port}/mutate");
    let one = |place: usize| json!({ "op": "replace", "path": format!("/webhooks/{place}/clientConfig"), "value": { "url": url, "caBundle": "Cg==" } });
    let patch = json!([one(0), one(1)]).to_string();
    lab.cluster.kubectl_ok(&[
        "patch",
        "mutatingwebhookconfiguration",
        CONFIGURATION,
        "--type=json",
        "-p",
        &patch,
    ])?;
    wait::until("the webhook's authority", LIMIT, async || {
        let args = [
            "get",
            "mutatingwebhookconfiguration",
            CONFIGURATION,
            "-o",
            "jsonpath={.webhooks[0].clientConfig.caBundle}",
        ];
        let bundle = String::from_utf8(STANDARD.decode(lab.cluster.kubectl_ok(&args)?)?)?;
        Ok(bundle.contains("BEGIN CERTIFICATE").then_some(bundle))
    })
    .await
}

async fn in_force(lab: &Lab, namespace: &str) -> Result<()> {
    let path = format!("{}?dryRun=All", pods_path(namespace));
    wait::until("a gate from the webhook", LIMIT, async || {
        let request = http::Request::post(&path).header("content-type", "application/json");
        let pod: Value =
            lab.client.request(request.body(lab::ungated("probe").to_string().into_bytes())?).await?;
        Ok(pod["spec"]["schedulingGates"].is_array().then_some(()))
    })
    .await
}

/// A review as the API server sends it.
fn review(namespace: &str) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "00000000-0000-0000-0000-000000000000",
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "namespace": namespace,
            "operation": "CREATE",
            "object": lab::ungated(&pod_name(0)),
        },
    });
    review.to_string().into_bytes()
}

/// Measures latencies at a constant rate, which does not depend on the answers.
async fn answers(port: u16, authority: &str, review: &[u8], seconds: usize) -> Result<Vec<f64>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(authority.context("an authority")?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let mut callers = JoinSet::new();
    for caller in 0..CONNECTIONS {
        let (config, review) = (config.clone(), review.to_vec());
        // The connections take turns.
        let pace = Duration::from_secs(1) * CONNECTIONS / PER_SECOND;
        let first = Duration::from_secs(1) * caller / PER_SECOND;
        callers.spawn(async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from("127.0.0.1")?;
            let mut stream = TlsConnector::from(config).connect(name, stream).await?;
            let head =
                format!("POST /mutate HTTP/1.1\r\nhost: webhook\r\ncontent-length: {}\r\n\r\n", review.len());
            let request = [head.as_bytes(), &review].concat();
            let begun = tokio::time::Instant::now() + first;
            let mut times = Vec::new();
            let mut buffer = Vec::with_capacity(1 << 14);
            for number in 0..(seconds as u32 * PER_SECOND / CONNECTIONS) {
                // Latency counts from the time when the request was due, so that a late answer also counts for the
                // requests behind it.
                let due = begun + pace * number;
                tokio::time::sleep_until(due).await;
                stream.write_all(&request).await?;
                answer(&mut stream, &mut buffer).await?;
                times.push(due.elapsed().as_secs_f64());
            }
            anyhow::Ok(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = callers.join_next().await {
        all.extend(times??);
    }
    Ok(all)
}

/// Reads a whole answer.
async fn answer(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Result<()> {
    buffer.clear();
    loop {
        ensure!(stream.read_buf(buffer).await? > 0, "the webhook closed the connection");
        let text = String::from_utf8_lossy(buffer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.context("a length")?.parse()? {
            ensure!(body.contains("\"patch\""), "{body}");
            return Ok(());
        }
    }
}
