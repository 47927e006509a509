//! The API server: an in-process service for the ordinary client, without a socket.
//!
//! - [`route`]: parses paths. [`read`], [`watch`], [`create`], [`change`], [`patch`], [`delete`]: the verbs.
//! - [`defaults`]: default values. [`rules`]: validation. [`prepare`]: additions to new objects. [`admission`]: Rollcall's
//!   admission. [`quota`]: resource quotas.
//! - [`pods`], [`eviction`]: subresources of pods. [`scale`]: the subresource `scale`.
//!
//! A request is carried out entirely when its future is polled. All later polls see its effects.

pub mod admission;
pub mod change;
pub mod create;
pub mod defaults;
pub mod delete;
mod delete_request;
pub mod eviction;
mod incoming;
mod options;
pub mod patch;
pub mod pods;
mod prepare;
pub mod quota;
mod read;
pub mod refusal;
mod route;
pub mod rules;
mod scale;
pub mod selectors;
mod watch;

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Author, Key, Stored};
use bytes::Bytes;
use change::Part;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, TryStreamExt};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use incoming::parse;
use kube::client::Body;
use patch::Style;
use refusal::Refusal;
use route::{Query, Route};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// A failure of the connection, not of the server.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;
pub type Frames = BoxStream<'static, Result<Bytes, Broken>>;
pub type AnswerBody = UnsyncBoxBody<Bytes, Broken>;

/// The cluster, shared by the server and the actors.
pub struct Shared {
    cluster: Mutex<Cluster>,
    /// Notified when a request has changed something.
    changed: Notify,
}

impl Shared {
    pub fn new(cluster: Cluster) -> Arc<Shared> {
        Arc::new(Shared { cluster: Mutex::new(cluster), changed: Notify::new() })
    }

    pub fn lock(&self) -> MutexGuard<'_, Cluster> {
        // A panic with the lock held has already failed the run.
        self.cluster.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub fn notify(&self) {
        self.changed.notify_one();
    }
}

/// The service that a client uses.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    author: Author,
}

impl Server {
    /// A service whose commits are attributed to `author`.
    pub fn new(shared: Arc<Shared>, author: Author) -> Server {
        Server { shared, author }
    }
}

impl tower::Service<Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = Broken;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Server { shared, author } = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let content_type = parts.headers.get("content-type").and_then(|value| value.to_str().ok());
            let asked = Asked {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: Query::parse(parts.uri.query().unwrap_or_default()),
                content_type: content_type.unwrap_or_default().to_owned(),
                body,
            };
            Ok(shared.answer(asked, author))
        }
        .boxed()
    }
}

/// The parts of a request.
struct Asked {
    method: Method,
    path: String,
    query: Query,
    content_type: String,
    body: Bytes,
}

enum Reply {
    Whole(u16, Bytes),
    /// The path does not exist, whatever the method.
    Nowhere,
    Watch(Frames),
}

impl Shared {
    fn answer(self: &Arc<Shared>, asked: Asked, author: Author) -> Response<AnswerBody> {
        let mut cluster = self.lock();
        let before = cluster.store.version();
        let others = std::mem::replace(&mut cluster.store.author, author);
        let answer = self.carry_out(&mut cluster, &asked);
        cluster.store.author = others;
        if cluster.store.version() != before {
            self.notify();
        }
        drop(cluster);
        let (code, body) = match answer {
            Ok(Reply::Whole(code, bytes)) => (code, whole(bytes)),
            Ok(Reply::Nowhere) => (404, whole("404 page not found\n".into())),
            Ok(Reply::Watch(frames)) => (200, StreamBody::new(frames.map_ok(Frame::data)).boxed_unsync()),
            Err(refusal) => (refusal.code, whole(refusal.status().to_string().into())),
        };
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(body).expect("the status codes are valid")
    }

    fn carry_out(self: &Arc<Shared>, cluster: &mut Cluster, asked: &Asked) -> Result<Reply, Refusal> {
        let Asked { method, path, query, content_type, body } = asked;
        let Some(route) = Route::parse(path) else {
            // A path without a served group is answered with plain text instead of a `Status` object.
            return if Route::is_known(path) { Err(no_such_place()) } else { Ok(Reply::Nowhere) };
        };
        let dry_run = options::dry_run(method, query)?;
        if *method == Method::GET && route.subresource.is_empty() {
            options::check_list(query)?;
        }
        let Some(name) = &route.name else {
            return match *method {
                Method::GET if query.is_set("watch") => {
                    watch::open(self, cluster, &route, query).map(Reply::Watch)
                }
                Method::GET => read::list(cluster, &route, query).map(|list| Reply::Whole(200, list)),
                Method::POST if route.kind.info().namespaced && route.namespace.is_none() => {
                    Err(no_such_verb())
                }
                Method::POST => {
                    let namespace = route.namespace.as_deref().unwrap_or_default();
                    let object = incoming::object(route.kind, namespace, query, body)?;
                    let created = create::create(cluster, route.kind, namespace, object, dry_run)?;
                    Ok(Reply::Whole(201, created.json().clone()))
                }
                Method::DELETE => {
                    let options = delete_request::delete_options(query, body, dry_run)?;
                    let deleted = delete_request::many(cluster, &route, query, &options)?;
                    Ok(Reply::Whole(200, deleted))
                }
                _ => Err(no_such_verb()),
            };
        };
        let key = Key::new(route.kind, route.namespace.as_deref().unwrap_or_default(), name);
        let part = match route.subresource.as_str() {
            "" => Part::Main,
            "status" if route.kind.info().status => Part::Status,
            "scale" if scale::has(route.kind) => {
                return scaled(cluster, &key, asked, dry_run)
                    .map(|scale| Reply::Whole(200, scale.to_string().into()));
            }
            "binding" | "eviction" if route.kind == Kind::Pod && *method != Method::POST => {
                return Err(no_such_verb());
            }
            "binding" | "eviction" if route.kind == Kind::Pod => {
                let (object, subresource) = (parse(body)?, &route.subresource);
                return pods::subresource(cluster, &key, subresource, &object, dry_run)
                    .map(|(code, answer)| Reply::Whole(code, answer.to_string().into()));
            }
            _ => return Err(no_such_place()),
        };
        let stored = |stored: Arc<Stored>| Reply::Whole(200, stored.json().clone());
        match *method {
            Method::GET => read::get(cluster, &key).map(|object| Reply::Whole(200, object)),
            Method::PUT => {
                let object = incoming::object(route.kind, &key.namespace, query, body)?;
                change::update(cluster, &key, part, dry_run, |is| change::replace(&key, is, object))
                    .map(stored)
            }
            Method::PATCH => {
                let style = style(route.kind, content_type)?;
                change::update(cluster, &key, part, dry_run, |is| incoming::patched(&key, style, is, body))
                    .map(stored)
            }
            Method::DELETE => {
                let options = delete_request::delete_options(query, body, dry_run)?;
                delete_request::delete_object(cluster, &key, &options).map(|body| Reply::Whole(200, body))
            }
            _ => Err(no_such_verb()),
        }
    }
}

fn scaled(cluster: &mut Cluster, key: &Key, asked: &Asked, dry_run: bool) -> Result<Value, Refusal> {
    let Asked { method, content_type, body, .. } = asked;
    match *method {
        Method::GET => scale::get(cluster, key),
        Method::PUT => {
            let object = parse(body)?;
            scale::update(cluster, key, dry_run, |is| scale::replace(&key.name, is, object))
        }
        Method::PATCH => {
            let style = style(key.kind, content_type)?;
            scale::update(cluster, key, dry_run, |is| patch::apply(style, is, body))
        }
        _ => Err(no_such_verb()),
    }
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn no_such_place() -> Refusal {
    let message = "the server could not find the requested resource".into();
    Refusal { code: 404, reason: "NotFound", message, details: json!({}) }
}

fn no_such_verb() -> Refusal {
    let message = "the server does not allow this method on the requested resource".into();
    Refusal { code: 405, reason: "MethodNotAllowed", message, details: json!({}) }
}

/// The type of a patch. Custom resources do not support strategic merge patches, because their lists have no merge keys.
fn style(kind: Kind, content_type: &str) -> Result<Style, Refusal> {
    let unsupported = |message: &str, details: Value| {
        Err(Refusal { code: 415, reason: "UnsupportedMediaType", message: message.into(), details })
    };
    match Style::from_content_type(content_type) {
        Some(Style::Strategic) if kind.custom().is_some() => {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                           application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            unsupported(message, Value::Null)
        }
        Some(style) => Ok(style),
        None => unsupported("415: Unsupported Media Type", json!({})),
    }
}
