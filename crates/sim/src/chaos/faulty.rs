//! The way between a controller and the server, with faults on it.

use super::fault::{Counts, Fault, Place, Planned};
use super::process::Crash;
use crate::server::{AnswerBody, Broken, Frames, Server};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// How late a late answer is: later than anybody waits for some, soon enough for others.
const SLOW: [u64; 3] = [40, 3_000, 20_000];
/// Longer than the silence after which a watch is given up.
const SILENT: Duration = Duration::from_secs(120);
/// How far one kind is behind the others.
const BEHIND: Duration = Duration::from_millis(700);
/// Events that come before a fault within a watch strikes.
const SOON: usize = 3;

/// What goes wrong, and what has.
#[derive(Default)]
struct State {
    planned: Vec<Planned>,
    counts: Counts,
    writes: u64,
    lists: u64,
    watches: u64,
    /// The first answer to each list, to be shown again.
    lists_seen: BTreeMap<String, Bytes>,
}

/// Shared by all clients of a run.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

impl Faults {
    pub fn new(planned: Vec<Planned>) -> Faults {
        Faults(Arc::new(Mutex::new(State { planned, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Writes that were sent so far.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    pub fn struck(&self, fault: Fault) {
        *self.state().counts.entry(fault).or_default() += 1;
    }

    /// What strikes the next request of its kind.
    fn next(&self, place: Place) -> Option<(Fault, u64)> {
        let mut state = self.state();
        let number = match place {
            Place::Write => &mut state.writes,
            Place::List => &mut state.lists,
            _ => &mut state.watches,
        };
        *number += 1;
        let number = *number;
        let at = state.planned.iter().position(|plan| plan.fault.place() == place && plan.when == number)?;
        let fault = state.planned.remove(at).fault;
        *state.counts.entry(fault).or_default() += 1;
        Some((fault, number))
    }
}

/// A client's way to the server.
#[derive(Clone)]
pub struct Faulty {
    server: Server,
    faults: Faults,
    crash: Crash,
}

impl Faulty {
    pub fn new(server: Server, faults: Faults, crash: Crash) -> Faulty {
        Faulty { server, faults, crash }
    }
}

type Answer = Result<Response<AnswerBody>, Broken>;

impl Service<Request<Body>> for Faulty {
    type Response = Response<AnswerBody>;
    type Error = Broken;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut way = self.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            match (request.method() == Method::GET, query.contains("watch=true"), query.contains("limit=")) {
                (true, true, _) => way.watch(request).await,
                (true, false, true) => way.list(request).await,
                (true, false, false) => way.server.call(request).await,
                (false, _, _) => way.write(request).await,
            }
        }
        .boxed()
    }
}

impl Faulty {
    async fn write(&mut self, request: Request<Body>) -> Answer {
        let Some((fault, number)) = self.faults.next(Place::Write) else {
            return self.server.call(request).await;
        };
        let slow = Duration::from_millis(SLOW[number as usize % SLOW.len()]);
        match fault {
            Fault::Conflict => refused(409, "Conflict"),
            Fault::Throttled => refused(429, "TooManyRequests"),
            Fault::ServerError => refused(500, "InternalError"),
            Fault::Unavailable => refused(503, "ServiceUnavailable"),
            Fault::Unauthorized => refused(401, "Unauthorized"),
            Fault::Forbidden => refused(403, "Forbidden"),
            Fault::Timeout => std::future::pending().await,
            Fault::LostAnswer => {
                drop(self.server.call(request).await?);
                Err("connection reset by peer".into())
            }
            Fault::SlowAnswer => {
                let answer = self.server.call(request).await;
                tokio::time::sleep(slow).await;
                answer
            }
            Fault::SlowCommit => {
                tokio::time::sleep(slow).await;
                self.server.call(request).await
            }
            Fault::CutAnswer => {
                let (parts, body) = self.server.call(request).await?.into_parts();
                let whole = body.collect().await?.to_bytes();
                let half = whole.slice(..whole.len() / 2);
                let frames = stream::iter([Ok(half), Err(Broken::from("connection reset by peer"))]);
                Ok(Response::from_parts(parts, streamed(frames.boxed())))
            }
            Fault::Garbage => {
                let (parts, _) = self.server.call(request).await?.into_parts();
                Ok(Response::from_parts(parts, whole(Bytes::from_static(b"<html>try later</html>"))))
            }
            Fault::CrashBefore => {
                self.crash.now();
                std::future::pending().await
            }
            Fault::CrashAfter => {
                let _answer = self.server.call(request).await;
                self.crash.now();
                std::future::pending().await
            }
            _ => self.server.call(request).await,
        }
    }

    async fn list(&mut self, request: Request<Body>) -> Answer {
        let path = request.uri().to_string();
        match self.faults.next(Place::List) {
            Some((Fault::ListRefused, _)) => return refused(500, "InternalError"),
            Some((Fault::ListForbidden, _)) => return refused(403, "Forbidden"),
            Some((Fault::ListGarbage, _)) => return Ok(Response::new(whole(Bytes::from_static(b"{}")))),
            Some((Fault::OlderList, _)) => {
                let seen = self.faults.state().lists_seen.get(&path).cloned();
                if let Some(seen) = seen {
                    return Ok(Response::new(whole(seen)));
                }
            }
            _ => {}
        }
        let (parts, body) = self.server.call(request).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        self.faults.state().lists_seen.entry(path).or_insert_with(|| bytes.clone());
        Ok(Response::from_parts(parts, whole(bytes)))
    }

    async fn watch(&mut self, request: Request<Body>) -> Answer {
        let fault = self.faults.next(Place::Watch).map(|(fault, _)| fault);
        if fault == Some(Fault::Gone) {
            return refused(410, "Expired");
        }
        let answer = self.server.call(request).await?;
        let Some(fault) = fault else { return Ok(answer) };
        let (parts, body) = answer.into_parts();
        let frames = body.into_data_stream().boxed();
        Ok(Response::from_parts(parts, streamed(disturbed(fault, frames))))
    }
}

/// A watch with something wrong in it.
fn disturbed(fault: Fault, frames: Frames) -> Frames {
    let ending = |last: Option<Result<Bytes, Broken>>, frames: Frames| {
        frames.take(SOON).chain(stream::iter(last)).boxed()
    };
    match fault {
        Fault::GoneEvent => ending(Some(Ok(expired())), frames),
        Fault::Close => ending(None, frames),
        Fault::WatchGarbage => ending(Some(Ok(Bytes::from_static(b"{\"type\":\"MODI\n"))), frames),
        Fault::Silence => {
            let silent = stream::once(async {
                tokio::time::sleep(SILENT).await;
                Ok(Bytes::new())
            });
            frames.take(SOON).chain(silent).boxed()
        }
        Fault::Duplicate => frames
            .flat_map(|frame| match frame {
                Ok(frame) => stream::iter(vec![Ok(frame.clone()), Ok(frame)]),
                Err(broken) => stream::iter(vec![Err(broken)]),
            })
            .boxed(),
        Fault::Behind => frames
            .then(|frame| async {
                tokio::time::sleep(BEHIND).await;
                frame
            })
            .boxed(),
        Fault::OlderEvents => {
            // Each event is followed by the one that came some events before it.
            let older = move |seen: &mut Vec<Bytes>, frame: Result<Bytes, Broken>| {
                let frame = match frame {
                    Ok(frame) => frame,
                    Err(broken) => return futures::future::ready(Some(vec![Err(broken)])),
                };
                seen.push(frame.clone());
                let again = (seen.len() > SOON).then(|| Ok(seen.remove(0)));
                futures::future::ready(Some([Ok(frame)].into_iter().chain(again).collect()))
            };
            frames.scan(Vec::new(), older).flat_map(stream::iter).boxed()
        }
        _ => frames,
    }
}

fn expired() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
        "message": "The resourceVersion for the provided watch is too old.",
    });
    format!("{}\n", json!({ "type": "ERROR", "object": status })).into()
}

fn refused(code: u16, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "message": "a fault of the simulation", "code": code,
    });
    let mut response = Response::new(whole(status.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code)?;
    Ok(response)
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn streamed(frames: Frames) -> AnswerBody {
    StreamBody::new(frames.map_ok(Frame::data)).boxed_unsync()
}
