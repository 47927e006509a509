//! The server that API servers call: TLS, with one path for each kind of request.
//! [`rollcall_controller::server::limits`] has its limits.

use crate::certificates::Served;
use crate::review::{Asked, review_text};
use http::{Method, Request, StatusCode};
use rollcall_controller::metrics::ByOutcome;
use rollcall_controller::server::limits::Limits;
use rollcall_controller::server::{self, Body, HttpAnswer, text};
use rollcall_controller::shared::Shared;
use rustls::ServerConfig;
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// The paths that `config/webhook/webhook.yaml` and `launch.yaml` send reviews to.
pub const PATH: &str = "/mutate";
pub const LAUNCH_PATH: &str = "/launch";
/// Number of reviews that are read at the same time. A review takes microseconds, the largest malicious one about ten
/// milliseconds. The other threads stay free for new connections.
const AT_A_TIME: usize = 1;

/// Serves until `stop` is cancelled.
pub async fn serve(
    listener: TcpListener,
    served: Arc<Served>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    serve_within(Limits::WEBHOOK, listener, served, shared, stop).await
}

/// Like [`serve`], with other limits.
pub async fn serve_within(
    limits: Limits,
    listener: TcpListener,
    served: Arc<Served>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_cert_resolver(served);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let upgrade = move |stream| acceptor.accept(stream);
    let (about, reading) = (shared.clone(), Arc::new(Semaphore::new(AT_A_TIME)));
    let handler = move |request| answer(request, about.clone(), reading.clone());
    server::serve(listener, limits, shared, upgrade, handler, stop).await;
    Ok(())
}

async fn answer(request: Request<Body>, shared: Arc<Shared>, reading: Arc<Semaphore>) -> HttpAnswer {
    let asked = match request.uri().path() {
        PATH => Asked::Sequences,
        LAUNCH_PATH => Asked::Launch,
        _ => return text(StatusCode::NOT_FOUND, "not found: send reviews to /mutate or /launch\n"),
    };
    match *request.method() {
        Method::POST => reviewed(asked, request.into_body(), &shared, &reading).await,
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: send reviews with POST\n"),
    }
}

async fn reviewed(asked: Asked, body: Body, shared: &Shared, reading: &Semaphore) -> HttpAnswer {
    let counted = |outcome: &'static str, answer: HttpAnswer| {
        shared.metrics.reviews.get_or_create(&ByOutcome { outcome }).inc();
        answer
    };
    let body = match body.read().await {
        Ok(body) => body,
        Err(answer) => return counted("unreadable", answer),
    };
    let _turn = reading.acquire().await;
    let begun = Instant::now();
    let answer = {
        let roster = shared.roster();
        // Launch order depends only on the pod itself.
        let ready = asked == Asked::Launch || roster.is_complete();
        ready.then(|| review_text(asked, &body, &roster))
    };
    let answer = match answer {
        // Before all sequences are known, a missing match does not mean that the pod belongs to none.
        None => {
            let words = "not ready: the controller has not listed all kinds yet\n";
            return counted("unready", text(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        Some(Err(error)) => {
            return counted("unreadable", text(StatusCode::BAD_REQUEST, format!("{error}\n")));
        }
        Some(Ok(answer)) => answer,
    };
    let response = &answer["response"];
    let outcome = match (&response["allowed"], response.get("patch"), response.get("warnings")) {
        (Value::Bool(false), _, _) => "refused",
        (_, Some(_), _) => "changed",
        (_, None, Some(_)) if asked == Asked::Sequences => "unreadable",
        (_, None, _) => "unchanged",
    };
    shared.metrics.review_time.observe(begun.elapsed().as_secs_f64());
    counted(outcome, server::answer(StatusCode::OK, "application/json", answer.to_string()))
}
