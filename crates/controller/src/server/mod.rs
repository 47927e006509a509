//! The one server for all that is reached from outside: metrics, probes and the webhook. HTTP/1.1, because nobody who is
//! meant to call speaks anything else.
//!
//! Whoever can reach the port can make us hold no more than [`limits`] says, and cannot keep others out:
//! - `seats`: connections have a number, in all and for one address. Whoever was silent for longest makes room for whoever
//!   comes. Each request has its time; bytes that come one by one do not make it longer.
//! - `body`: bodies have a size, and all together another one. The largest one that is not finished makes room for smaller ones.
//! - `pulse` tells the seat what happens on the connection.

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
use seats::{Place, Seats};
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

pub type Answer = Response<Full<Bytes>>;

/// How long a stop waits for answers under way.
const DRAIN: Duration = Duration::from_secs(2);
/// Connections that had to leave and are not closed yet. Beyond it nobody is accepted until one of them is.
const LEAVING: usize = 64;

/// An answer in words.
pub fn text(status: StatusCode, words: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", words)
}

pub fn answer(status: StatusCode, content: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content));
    answer
}

/// Of connections that are used as they are.
pub async fn plain(stream: TcpStream) -> io::Result<TcpStream> {
    Ok(stream)
}

/// Serves until `stop`. `upgrade` makes of a connection what is spoken on it, such as TLS.
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
    H: Future<Output = Answer> + Send + 'static,
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

/// A connection that could not be taken says nothing about the next one; but without file descriptors it would be tried again
/// thousands of times a second.
async fn refused(limits: Limits, error: &io::Error) {
    tracing::warn!(server = limits.server, %error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn connection<U, S, H>(
    stream: TcpStream,
    limits: Limits,
    place: Arc<Place>,
    room: Arc<Room>,
    upgrade: impl Fn(TcpStream) -> U,
    handler: impl Fn(Request<Body>) -> H,
    stop: CancellationToken,
) where
    U: Future<Output = io::Result<S>>,
    S: AsyncRead + AsyncWrite + Unpin,
    H: Future<Output = Answer>,
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
            return tracing::debug!(server = limits.server, %error, "no connection with a caller");
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
            Ok::<Answer, Infallible>(answer)
        }
    });
    let stream = TokioIo::new(Pulse { stream, place: place.clone() });
    let mut builder = http1::Builder::new();
    // What takes too long is known to the seat.
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
        tracing::debug!(server = limits.server, %error, "a connection broke");
    }
}
