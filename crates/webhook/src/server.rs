//! The server that API servers call: TLS, HTTP/1.1 (they speak nothing else to webhooks), one path.

use crate::certificates::Served;
use crate::review::review;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rollcall_controller::metrics::ByOutcome;
use rollcall_controller::shared::Shared;
use rustls::ServerConfig;
use serde_json::Value;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Where reviews are sent, as `config/webhook/webhook.yaml` says.
pub const PATH: &str = "/mutate";
/// Connections at a time. An API server keeps a few dozen open; further ones wait until one is closed.
const CONNECTIONS: usize = 512;
/// A review holds an object of at most 3 MiB, and may hold its older version, too.
const LARGEST_BODY: usize = 8 << 20;
const HANDSHAKE: Duration = Duration::from_secs(5);
/// API servers give up after two seconds; nobody waits for what takes longer.
const BODY: Duration = Duration::from_secs(10);
/// Longer than API servers keep an idle connection, so that it is they who close it: closed by us it could be just when a
/// request is on its way.
const IDLE: Duration = Duration::from_secs(180);
/// How long a stop waits for answers under way.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until `stop`.
pub async fn serve(
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
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let (acceptor, shared, stop) = (acceptor.clone(), shared.clone(), stop.clone());
                    connections.spawn(connection(stream, acceptor, shared, stop));
                }
                Err(error) => refused(&error).await,
            },
        }
    }
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// A connection that could not be taken says nothing about the next one; but without file descriptors it would be tried again
/// thousands of times a second.
async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection to the webhook could not be accepted");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "no TLS with a caller of the webhook"),
        Err(_) => return,
    };
    let service = service_fn(|request| answer(request, &shared));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(DRAIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the webhook broke");
    }
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match (request.uri().path(), request.method()) {
        (PATH, &Method::POST) => reviewed(request, shared).await,
        (PATH, _) => (StatusCode::METHOD_NOT_ALLOWED, Bytes::from_static(b"reviews are sent with POST\n")),
        (_, _) => (StatusCode::NOT_FOUND, Bytes::from_static(b"reviews are sent to /mutate\n")),
    };
    let content = if status == StatusCode::OK { "application/json" } else { "text/plain" };
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, content);
    Ok(response.body(Full::new(body)).expect("a response of constants"))
}

async fn reviewed(request: Request<Incoming>, shared: &Shared) -> (StatusCode, Bytes) {
    let body = timeout(BODY, Limited::new(request.into_body(), LARGEST_BODY).collect());
    let body = match body.await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return counted(shared, "unreadable", StatusCode::BAD_REQUEST, error.to_string()),
        Err(_) => return counted(shared, "unreadable", StatusCode::REQUEST_TIMEOUT, "no body".into()),
    };
    let begun = Instant::now();
    let sent: Value = match serde_json::from_slice(&body) {
        Ok(sent) => sent,
        Err(error) => return counted(shared, "unreadable", StatusCode::BAD_REQUEST, error.to_string()),
    };
    let answer = {
        let roster = shared.roster();
        roster.is_complete().then(|| review(&sent, &roster))
    };
    // Who does not know the sequences cannot say that none of them claims the pod.
    let Some(answer) = answer else {
        return counted(
            shared,
            "unready",
            StatusCode::SERVICE_UNAVAILABLE,
            "not every kind has been listed yet".into(),
        );
    };
    let response = &answer["response"];
    let outcome = match (response.get("patch"), response.get("warnings")) {
        (Some(_), _) => "changed",
        (None, Some(_)) => "unreadable",
        (None, None) => "unchanged",
    };
    shared.metrics.review_time.observe(begun.elapsed().as_secs_f64());
    counted(shared, outcome, StatusCode::OK, answer.to_string())
}

fn counted(shared: &Shared, outcome: &'static str, status: StatusCode, body: String) -> (StatusCode, Bytes) {
    shared.metrics.reviews.get_or_create(&ByOutcome { outcome }).inc();
    (status, Bytes::from(body))
}
