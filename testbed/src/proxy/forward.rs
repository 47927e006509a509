//! Serves and forwards requests.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode, Uri, request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use super::{Fault, Go, Hook, Line, RequestInfo, Shared, WatchFault, lock, watch};

pub type Body = UnsyncBoxBody<Bytes, anyhow::Error>;
pub type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

pub fn client(shared: &Shared) -> Result<Client> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(shared.ca.clone().into())?;
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
    Ok(legacy::Client::builder(TokioExecutor::new()).build(https))
}

pub async fn serve(listener: TcpListener, shared: Arc<Shared>, client: Client) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (shared, client) = (shared.clone(), client.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| handle(request, shared.clone(), client.clone()));
            // An error is an injected fault or a disconnected client; hyper closes the connection.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Handles a request. An error closes the connection without a response.
async fn handle(request: Request<Incoming>, shared: Arc<Shared>, client: Client) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let line = *shared.line.subscribe().wait_for(|line| *line != Line::Silent).await?;
    if line == Line::Cut {
        return Err(anyhow!("the line is cut"));
    }
    if is_watch(&parts) {
        let fault = ask(&shared.on_watch, &shared.watches, &parts, &body);
        return handle_watch(fault, parts, body, &shared, &client).await;
    }
    let read = matches!(parts.method, Method::GET | Method::HEAD);
    let (hook, count) =
        if read { (&shared.on_read, &shared.reads) } else { (&shared.on_write, &shared.writes) };
    match ask(hook, count, &parts, &body) {
        Fault::Pass => Ok(forward(&client, &shared, parts, body).await?.map(stream)),
        Fault::Drop => Err(anyhow!("dropped")),
        Fault::LoseAnswer => {
            forward_whole(&client, &shared, parts, body).await?;
            Err(anyhow!("answer lost"))
        }
        Fault::CutAnswer => Ok(forward_whole(&client, &shared, parts, body).await?.map(cut)),
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            Ok(forward(&client, &shared, parts, body).await?.map(stream))
        }
        Fault::DelayAnswer(time) => {
            let answer = forward_whole(&client, &shared, parts, body).await?;
            tokio::time::sleep(time).await;
            Ok(answer.map(whole))
        }
        Fault::Status(code) => status(code),
        Fault::Raw(code, body) => Ok(Response::builder().status(code).body(whole(body))?),
        Fault::HoldBefore(hold) => match hold.stand_still().await {
            Go::On => Ok(forward(&client, &shared, parts, body).await?.map(stream)),
            Go::Drop => Err(anyhow!("dropped after a hold")),
        },
        Fault::HoldAfter(hold) => {
            let answer = forward_whole(&client, &shared, parts, body).await?;
            match hold.stand_still().await {
                Go::On => Ok(answer.map(whole)),
                Go::Drop => Err(anyhow!("answer lost after a hold")),
            }
        }
    }
}

async fn handle_watch(
    fault: WatchFault,
    parts: request::Parts,
    body: Bytes,
    shared: &Shared,
    client: &Client,
) -> Result<Response<Body>> {
    match fault {
        WatchFault::Drop => Err(anyhow!("dropped")),
        WatchFault::Status(code) => status(code),
        fault => {
            let answer = forward(client, shared, parts, body).await?;
            Ok(answer.map(|body| watch::stream(body, fault, shared)))
        }
    }
}

fn is_watch(parts: &request::Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    parts.method == Method::GET && query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Counts the request, and calls the test's hook if there is one.
fn ask<F: Default>(
    hook: &std::sync::Mutex<Option<Hook<F>>>,
    count: &AtomicU64,
    parts: &request::Parts,
    body: &Bytes,
) -> F {
    let info = RequestInfo {
        n: count.fetch_add(1, Ordering::SeqCst) + 1,
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body: body.clone(),
    };
    // The hook is called without the lock, so that it can replace itself.
    let hook = lock(hook).clone();
    hook.map_or_else(F::default, |hook| hook(&info))
}

/// Forwards the request without `Accept-Encoding`, because the proxy must be able to read the response.
async fn forward(
    client: &Client,
    shared: &Shared,
    mut parts: request::Parts,
    body: Bytes,
) -> Result<Response<Incoming>> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = format!("{}{path}", shared.upstream).parse::<Uri>()?;
    for header in [HOST, CONNECTION, TRANSFER_ENCODING, ACCEPT_ENCODING] {
        parts.headers.remove(header);
    }
    let mut answer = client.request(Request::from_parts(parts, Full::new(body))).await?;
    for header in [CONNECTION, TRANSFER_ENCODING] {
        answer.headers_mut().remove(header);
    }
    Ok(answer)
}

async fn forward_whole(
    client: &Client,
    shared: &Shared,
    parts: request::Parts,
    body: Bytes,
) -> Result<Response<Bytes>> {
    let (parts, body) = forward(client, shared, parts, body).await?.into_parts();
    Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
}

fn stream(body: Incoming) -> Body {
    body.map_err(anyhow::Error::from).boxed_unsync()
}

fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// Half of the body, then a broken connection. The content-length header still announces the whole body.
fn cut(body: Bytes) -> Body {
    let half = body.slice(..body.len() / 2);
    let frames = futures::stream::unfold(Some(half), async |half| match half {
        Some(half) => Some((Ok(Frame::data(half)), None)),
        None => {
            // hyper flushes its buffer only when the body is pending.
            tokio::task::yield_now().await;
            Some((Err(anyhow!("answer cut")), None))
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

/// An error response as the API server would send it.
fn status(code: StatusCode) -> Result<Response<Body>> {
    let mut answer = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    if matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        answer = answer.header("retry-after", "1");
    }
    Ok(answer.body(whole(status_object(code).to_string().into()))?)
}

pub fn status_object(code: StatusCode) -> serde_json::Value {
    let reason = match code.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("a fault of the testbed: {code}"),
        "reason": reason,
        "code": code.as_u16(),
    })
}
