//! The server for everything that is reachable from outside: metrics, probes and the webhook. It only speaks HTTP/1.1, because
//! all intended clients do.
//!
//! Clients cannot use more resources than [`limits`] allows, and cannot lock out other clients:
//! - `seats`: connections are limited, in total and per address. The one that was silent for longest gives way to a new one.
//!   Each request has a time limit, which single bytes do not extend.
//! - `body`: bodies are limited, individually and in total. The largest unfinished one gives way to smaller ones.
//! - `pulse` reports activity on the connection to its seat.

mod body;
pub mod limits;
mod pulse;
mod seats;

use crate::shared::Shared;
use body::Room;
pub use body::{Body, Whole};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use limits::{HEADER, Limits};
use pulse::Pulse;
use seats::{Seats, TakenSeat};
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub type HttpAnswer = Response<Full<Bytes>>;

/// How long a shutdown waits for answers in progress.
const DRAIN: Duration = Duration::from_secs(2);
/// Connections that were told to leave and are not closed yet. At this number, no new connection is accepted.
const LEAVING: usize = 64;

/// Builds a plain-text answer.
pub fn text(status: StatusCode, words: impl Into<Bytes>) -> HttpAnswer {
    answer(status, "text/plain; charset=utf-8", words)
}

pub fn answer(status: StatusCode, content: &'static str, body: impl Into<Bytes>) -> HttpAnswer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content));
    answer
}

/// The `upgrade` of connections without TLS.
pub async fn plain(stream: TcpStream) -> io::Result<TcpStream> {
    Ok(stream)
}

/// Serves until `stop`. `upgrade` prepares a connection, for example with a TLS handshake.
pub async fn serve<U, S, H>(
    listener: TcpListener,
    limits: Limits,
    shared: Arc<Shared>,
    upgrade: impl Fn(TcpStream) -> U + Clone + Send + 'static,
    handler: impl Fn(Request<Body>) -> H + Clone + Send + Sync + 'static,
    stop: CancellationToken,
) where
    U: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Future<Output = HttpAnswer> + Send + 'static,
{
    let seats = Arc::new(Seats::new(limits, shared));
    let room = Arc::new(Room::new(limits.bodies, seats.clone()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < limits.connections + LEAVING => match accepted {
                Ok((stream, from)) => {
                    let Some(place) = seats.take(from.ip()) else { continue };
                    let (upgrade, handler, room) = (upgrade.clone(), handler.clone(), room.clone());
                    connections.spawn(connection(stream, limits, Arc::new(place), room, upgrade, handler, stop.clone()));
                }
                Err(error) => refused(limits, &error).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits after a connection could not be accepted. The failure says nothing about the next connection; but without free file
/// descriptors, the loop would retry thousands of times per second.
async fn refused(limits: Limits, error: &io::Error) {
    tracing::warn!(server = limits.server, %error, "could not accept a connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn connection<U, S, H>(
    stream: TcpStream,
    limits: Limits,
    place: Arc<TakenSeat>,
    room: Arc<Room>,
    upgrade: impl Fn(TcpStream) -> U,
    handler: impl Fn(Request<Body>) -> H,
    stop: CancellationToken,
) where
    U: Future<Output = io::Result<S>>,
    S: AsyncRead + AsyncWrite + Unpin,
    H: Future<Output = HttpAnswer>,
{
    let _ = stream.set_nodelay(true);
    let upgraded = tokio::select! {
        biased;
        () = place.needed() => return,
        () = stop.cancelled() => return,
        upgraded = timeout(limits.handshake, upgrade(stream)) => upgraded,
    };
    let stream = match upgraded {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(server = limits.server, %error, "the handshake with a client failed");
        }
        Err(_) => return place.turned_away("slow"),
    };
    let service = service_fn(|request: Request<_>| {
        let (room, place) = (room.clone(), place.clone());
        let answer = handler(request.map(|incoming| Body {
            incoming,
            longest: limits.longest_body,
            room,
            place: place.clone(),
        }));
        async move {
            let answer = answer.await;
            place.answered();
            Ok::<HttpAnswer, Infallible>(answer)
        }
    });
    let stream = TokioIo::new(Pulse { stream, place: place.clone() });
    let mut builder = http1::Builder::new();
    // The seat enforces the time limits.
    builder.header_read_timeout(None).max_buf_size(HEADER).keep_alive(limits.idle.is_some());
    let mut connection = pin!(builder.serve_connection(stream, service));
    let ended = tokio::select! {
        biased;
        () = place.needed() => return,
        ended = &mut connection => ended,
        () = place.overdue() => return,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(DRAIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        if error.is_parse_too_large() {
            place.turned_away("header");
        }
        tracing::debug!(server = limits.server, %error, "a connection failed");
    }
}
