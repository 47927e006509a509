//! Injects faults between a controller and the server.

use super::disturbed::disturbed;
use super::fault::{Fault, Place};
use super::faults::{Faults, Outage};
use super::mischief;
use super::process::Crash;
use super::reservation_mischief;
use super::seen::Seen;
use crate::kinds::Kind;
use crate::server::{AnswerBody, Broken, Frames, Server, Shared};
use crate::store::{Author, Key};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use rollcall_api::names;
use serde_json::json;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// Delays of late answers, in milliseconds; the request timeout is between them.
const SLOW: [u64; 3] = [40, 3_000, 20_000];
/// An answer to a list request that is not a list, as from a proxy.
const NO_LIST: &[u8] = br#"{"kind":"Status","metadata":{},"status":"Success"}"#;
/// Limit of writes in a run. A controller that sends more is stuck in a loop; further writes get no answer.
const STORM: u64 = 3000;
/// The size of a small page.
const SMALL_PAGE: &str = "limit=3";

/// A client's connection to the server.
#[derive(Clone)]
pub struct Faulty {
    process: usize,
    shared: Arc<Shared>,
    server: Server,
    faults: Faults,
    seen: Seen,
    crash: Crash,
}

impl Faulty {
    pub fn new(process: usize, shared: Arc<Shared>, faults: Faults, seen: Seen, crash: Crash) -> Faulty {
        let server = Server::new(shared.clone(), Author::Controller(process));
        Faulty { process, shared, server, faults, seen, crash }
    }
}

type FaultyAnswer = Result<Response<AnswerBody>, Broken>;

impl Service<Request<Body>> for Faulty {
    type Response = Response<AnswerBody>;
    type Error = Broken;
    type Future = BoxFuture<'static, FaultyAnswer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut way = self.clone();
        async move {
            if request.method() != Method::GET {
                way.faults.wrote(request.uri().path());
            }
            if let Some(answer) = way.outage_answer(&request) {
                return answer;
            }
            if way.faults.hangs(way.process, request.uri().path()) {
                return std::future::pending().await;
            }
            let query = request.uri().query().unwrap_or_default();
            match (request.method() == Method::GET, query.contains("watch=true"), query.contains("limit=")) {
                (true, true, _) => way.watch(request).await,
                (true, false, true) => way.list(request).await,
                // The answer decides about the next write, so this read fails like a write.
                (true, false, false) if is_barrier(request.uri().path()) => way.write(request).await,
                (true, false, false) => way.server.call(request).await,
                (false, _, _) => way.write(request).await,
            }
        }
        .boxed()
    }
}

impl Faulty {
    /// The answer to a request during an outage.
    fn outage_answer(&self, request: &Request<Body>) -> Option<FaultyAnswer> {
        let path = request.uri().path();
        if self.faults.is_out(Outage::Server) {
            return Some(Err("connection refused".into()));
        }
        let ours = path.contains(names::SEQUENCE_PLURAL) || path.contains(names::KORDER_GROUP);
        if self.faults.is_out(Outage::Kind) && ours {
            return Some(refused(404, "NotFound"));
        }
        if self.faults.is_out(Outage::Quota) && request.method() == Method::POST {
            return Some(refused(403, "Forbidden"));
        }
        None
    }

    async fn write(&mut self, request: Request<Body>) -> FaultyAnswer {
        if self.faults.requests() > STORM {
            return std::future::pending().await;
        }
        let sent = self.seen.send();
        self.strike_hand_over(&request);
        let Some((fault, number)) = self.faults.next(Place::Write, false) else {
            return self.carry_out(request, sent).await;
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
                drop(self.carry_out(request, sent).await?);
                Err("connection reset by peer".into())
            }
            Fault::SlowAnswer => {
                let answer = self.carry_out(request, sent).await;
                tokio::time::sleep(slow).await;
                answer
            }
            Fault::SlowCommit => {
                // The request is carried out even if the sending process ends meanwhile.
                let mut way = self.clone();
                let under_way = async move {
                    tokio::time::sleep(slow).await;
                    way.carry_out(request, sent).await
                };
                tokio::spawn(under_way).await?
            }
            Fault::CutAnswer => {
                let (parts, body) = self.carry_out(request, sent).await?.into_parts();
                let whole = body.collect().await?.to_bytes();
                let half = whole.slice(..whole.len() / 2);
                let frames = stream::iter([Ok(half), Err(Broken::from("connection reset by peer"))]);
                Ok(Response::from_parts(parts, streamed(frames.boxed())))
            }
            Fault::Garbage => {
                let (parts, _) = self.carry_out(request, sent).await?.into_parts();
                Ok(Response::from_parts(parts, whole(Bytes::from_static(b"<html>try later</html>"))))
            }
            Fault::Raced => {
                if let Some(key) = object_of(request.uri().path()) {
                    mischief::annotate(&self.shared, &key, number);
                }
                self.carry_out(request, sent).await
            }
            Fault::CrashBefore => {
                self.crash.now();
                std::future::pending().await
            }
            Fault::CrashAfter => {
                let _answer = self.carry_out(request, sent).await;
                self.crash.now();
                std::future::pending().await
            }
            _ => self.carry_out(request, sent).await,
        }
    }

    fn strike_hand_over(&self, request: &Request<Body>) {
        let path = request.uri().path();
        let step = object_of(path).filter(|key| reservation_mischief::is_step(request.method(), path, key));
        if let Some(key) = step
            && let Some((fault, _)) = self.faults.next(Place::HandOver, false)
        {
            reservation_mischief::strike_hand_over(&self.shared, &key, fault);
        }
    }

    /// Lets the server carry out a request that was sent at the given moment.
    async fn carry_out(&mut self, request: Request<Body>, sent: u64) -> FaultyAnswer {
        self.seen.carry_out(sent);
        let made = request.method() == Method::POST && is_tracked(request.uri().path());
        let answer = self.server.call(request).await?;
        if !made {
            return Ok(answer);
        }
        // A process knows an object from the answer to its creation.
        let (parts, body) = answer.into_parts();
        let object = body.collect().await?.to_bytes();
        self.seen.show(self.process, &object);
        Ok(Response::from_parts(parts, whole(object)))
    }

    async fn list(&mut self, mut request: Request<Body>) -> FaultyAnswer {
        if self.faults.small_pages {
            let smaller = request.uri().to_string().replace("limit=200", SMALL_PAGE);
            *request.uri_mut() = smaller.parse()?;
        }
        let path = request.uri().to_string();
        let fault = self.faults.next(Place::List, path.contains("continue=")).map(|(fault, _)| fault);
        match fault {
            Some(Fault::ListRefused) => return refused(500, "InternalError"),
            Some(Fault::ListForbidden) => return refused(403, "Forbidden"),
            Some(Fault::ListGarbage) => return Ok(Response::new(whole(Bytes::from_static(NO_LIST)))),
            Some(Fault::ExpiredToken) => return refused(410, "Expired"),
            _ => {}
        }
        let (parts, body) = self.server.call(request).await?.into_parts();
        let now = body.collect().await?.to_bytes();
        let first = self.faults.first_list(path.clone(), &now);
        let shown = if fault == Some(Fault::OlderList) { first } else { now };
        if is_tracked(&path) {
            self.seen.show(self.process, &shown);
        }
        Ok(Response::from_parts(parts, whole(shown)))
    }

    async fn watch(&mut self, request: Request<Body>) -> FaultyAnswer {
        let path = request.uri().path().to_owned();
        let fault = self.faults.next(Place::Watch, false).map(|(fault, _)| fault);
        match fault {
            Some(Fault::Gone) => return refused(410, "Expired"),
            Some(Fault::Hang) => self.faults.hang(self.process, &path),
            _ => {}
        }
        let (parts, body) = self.server.call(request).await?.into_parts();
        let mut frames: Frames = body.into_data_stream().boxed();
        if let Some(fault) = fault {
            frames = disturbed(fault, frames);
        }
        if self.faults.breaks_connections {
            frames = frames.take_until(self.faults.breaks().boxed()).boxed();
        }
        if is_tracked(&path) {
            let (seen, process) = (self.seen.clone(), self.process);
            frames = frames.inspect_ok(move |frame| seen.show(process, frame)).boxed();
        }
        Ok(Response::from_parts(parts, streamed(frames)))
    }
}

/// Whether [`Seen`] records which process received these objects.
fn is_tracked(path: &str) -> bool {
    ["/pods", "/nodes", names::SEQUENCE_PLURAL, names::KORDER_GROUP].iter().any(|part| path.contains(part))
}

/// Whether a path addresses a ConfigMap that the containers of a pod wait for.
fn is_barrier(path: &str) -> bool {
    object_of(path).is_some_and(|key| key.kind == Kind::ConfigMap && &*key.namespace != names::OWN_NAMESPACE)
}

/// The object that a path addresses, for the kinds that the controller writes.
fn object_of(path: &str) -> Option<Key> {
    if let Some(node) = path.strip_prefix("/api/v1/nodes/") {
        return Some(Key::new(Kind::Node, "", node));
    }
    let (_, rest) = path.split_once("/namespaces/")?;
    let mut parts = rest.split('/');
    let (namespace, plural, name) = (parts.next()?, parts.next()?, parts.next()?);
    let kinds = [Kind::Pod, Kind::PodSequence, Kind::ConfigMap, Kind::Lease, Kind::Order, Kind::Ticket];
    let kind = kinds.into_iter().find(|kind| kind.info().plural == plural)?;
    Some(Key::new(kind, namespace, name))
}

fn refused(code: u16, reason: &str) -> FaultyAnswer {
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
