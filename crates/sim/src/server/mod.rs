//! The API server: a service under the ordinary client, without a socket.
//!
//! - [`route`]: which object a URL means. [`read`], [`watch`], [`create`], [`change`], [`patch`], [`delete`]: the verbs.
//! - [`defaults`]: what it fills in. [`rules`]: what it refuses, in which words. [`prepare`]: what it adds to new objects. [`quota`]: how much there may be.
//! - [`pods`]: the subresources that only pods have.
//!
//! A request is carried out when it is polled, in one go; its effects are seen by whoever is polled next.

pub mod change;
pub mod create;
pub mod defaults;
pub mod delete;
pub mod patch;
pub mod pods;
mod prepare;
pub mod quota;
mod read;
pub mod refusal;
mod route;
pub mod rules;
pub mod selectors;
mod watch;

use crate::cluster::Cluster;
use crate::store::{Author, Key, Stored};
use bytes::Bytes;
use change::Part;
use delete::{Deleted, Propagation, Wish};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, TryStreamExt};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use patch::Style;
use refusal::Refusal;
use route::{Query, Route};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// What goes wrong on the way, not at the server.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;
pub type Frames = BoxStream<'static, Result<Bytes, Broken>>;
pub type AnswerBody = UnsyncBoxBody<Bytes, Broken>;

/// The cluster, as the server and the actors share it.
pub struct Shared {
    cluster: Mutex<Cluster>,
    /// Told when a request has changed something.
    changed: Notify,
}

impl Shared {
    pub fn new(cluster: Cluster) -> Arc<Shared> {
        Arc::new(Shared { cluster: Mutex::new(cluster), changed: Notify::new() })
    }

    pub fn lock(&self) -> MutexGuard<'_, Cluster> {
        // A panic while it was held has failed the run already.
        self.cluster.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub fn notify(&self) {
        self.changed.notify_one();
    }
}

/// The service that a client talks to.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    author: Author,
}

impl Server {
    /// Where `author` sends its requests.
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

/// A request, taken apart.
struct Asked {
    method: Method,
    path: String,
    query: Query,
    content_type: String,
    body: Bytes,
}

enum Answer {
    Whole(u16, Bytes),
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
            Ok(Answer::Whole(code, bytes)) => (code, whole(bytes)),
            Ok(Answer::Watch(frames)) => (200, StreamBody::new(frames.map_ok(Frame::data)).boxed_unsync()),
            Err(refusal) => (refusal.code, whole(refusal.status().to_string().into())),
        };
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(body).expect("the codes are ours")
    }

    fn carry_out(self: &Arc<Shared>, cluster: &mut Cluster, asked: &Asked) -> Result<Answer, Refusal> {
        let Asked { method, path, query, content_type, body } = asked;
        let Some(route) = Route::parse(path) else { return Err(no_such_place()) };
        let dry_run = match query.get("dryRun") {
            "" => false,
            "All" => true,
            other => return Err(Refusal::bad_request(format!("invalid dryRun {other:?}"))),
        };
        let Some(name) = &route.name else {
            return match *method {
                Method::GET if query.is("watch") => {
                    watch::open(self, cluster, &route, query).map(Answer::Watch)
                }
                Method::GET => read::list(cluster, &route, query).map(|list| Answer::Whole(200, list)),
                Method::POST => {
                    let object = parse(body)?;
                    let namespace = route.namespace.as_deref().unwrap_or_default();
                    let created = create::create(cluster, route.kind, namespace, object, dry_run)?;
                    Ok(Answer::Whole(201, created.json().clone()))
                }
                _ => Err(no_such_verb()),
            };
        };
        let key = Key::new(route.kind, route.namespace.as_deref().unwrap_or_default(), name);
        let part = match route.subresource.as_str() {
            "" => Part::Main,
            "status" if route.kind.info().status => Part::Status,
            subresource => {
                let object = parse(body)?;
                return pods::subresource(cluster, &key, subresource, &object, dry_run)
                    .map(|(code, answer)| Answer::Whole(code, answer.to_string().into()));
            }
        };
        let stored = |stored: Arc<Stored>| Answer::Whole(200, stored.json().clone());
        match *method {
            Method::GET if query.is("watch") => watch::open(self, cluster, &route, query).map(Answer::Watch),
            Method::GET => read::get(cluster, &key).map(|object| Answer::Whole(200, object)),
            Method::PUT => {
                let object = parse(body)?;
                create::check_envelope(route.kind, &key.namespace, &object)?;
                change::update(cluster, &key, part, dry_run, |is| change::replace(&key, is, object))
                    .map(stored)
            }
            Method::PATCH => {
                let style = Style::of(content_type).ok_or_else(|| unknown_style(content_type))?;
                change::update(cluster, &key, part, dry_run, |is| patch::apply(style, is, body)).map(stored)
            }
            Method::DELETE => {
                let wish = wish(query, body, dry_run)?;
                Ok(match delete::delete(cluster, &key, &wish)? {
                    Deleted::Terminating(object) => Answer::Whole(200, object.json().clone()),
                    Deleted::Gone(object) => Answer::Whole(200, farewell(&key, &object)),
                })
            }
            _ => Err(no_such_verb()),
        }
    }
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn parse(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(Refusal::bad_request("couldn't get version/kind; json parse error: not an object")),
        Err(error) => {
            Err(Refusal::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
        }
    }
}

fn wish(query: &Query, body: &[u8], dry_run: bool) -> Result<Wish, Refusal> {
    let options = if body.is_empty() { Value::Null } else { parse(body)? };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let propagation = match (options["propagationPolicy"].as_str(), query.get("propagationPolicy")) {
        (Some(policy), _) => policy,
        (None, policy) => policy,
    };
    let propagation = match propagation {
        "" | "Background" => Propagation::Background,
        "Foreground" => Propagation::Foreground,
        "Orphan" => Propagation::Orphan,
        other => return Err(Refusal::bad_request(format!("invalid propagationPolicy {other:?}"))),
    };
    Ok(Wish {
        grace: options["gracePeriodSeconds"].as_i64().or(query.get("gracePeriodSeconds").parse().ok()),
        uid: text(&options["preconditions"]["uid"]),
        version: text(&options["preconditions"]["resourceVersion"]),
        propagation,
        dry_run: dry_run || options["dryRun"].as_array().is_some_and(|list| !list.is_empty()),
    })
}

/// The answer to a deletion that is done.
fn farewell(key: &Key, object: &Stored) -> Bytes {
    use crate::kinds::Kind;
    // Of these the server shows the last state.
    if matches!(
        key.kind,
        Kind::Pod | Kind::PersistentVolumeClaim | Kind::ServiceAccount | Kind::ResourceQuota
    ) {
        return object.json().clone();
    }
    let info = key.kind.info();
    let mut details = json!({ "name": &*key.name, "kind": info.plural, "uid": object.uid() });
    if !info.group.is_empty() {
        details["group"] = info.group.into();
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    status.to_string().into()
}

fn no_such_place() -> Refusal {
    let message = "the server could not find the requested resource".into();
    Refusal { code: 404, reason: "NotFound", message, details: json!({}) }
}

fn no_such_verb() -> Refusal {
    let message = "the server does not allow this method on the requested resource".into();
    Refusal { code: 405, reason: "MethodNotAllowed", message, details: json!({}) }
}

fn unknown_style(content_type: &str) -> Refusal {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json ({content_type:?})"
    );
    Refusal { code: 415, reason: "UnsupportedMediaType", message, details: Value::Null }
}
