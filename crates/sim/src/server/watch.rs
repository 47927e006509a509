//! Watch requests: commits in order, as lines of JSON.

use super::refusal::Refusal;
use super::route::{Query, Route};
use super::selectors::Wanted;
use super::{Frames, Shared, read};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Change, Stored};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Interval of bookmarks, and the time of the last bookmark before the end of a watch.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Duration of a watch in seconds if the client does not set it.
const LASTS: u64 = 1800;

pub fn open(
    shared: &Arc<Shared>,
    cluster: &mut Cluster,
    route: &Route,
    query: &Query,
) -> Result<Frames, Refusal> {
    let wanted = Wanted::parse(route.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let scope = Scope { namespace: route.namespace.clone(), wanted };
    let (sender, receiver) = mpsc::unbounded_channel();
    match query.get("resourceVersion") {
        // Starts with all current objects.
        "" | "0" => {
            for (_, object) in cluster.store.list(route.kind, route.namespace.as_deref()) {
                if scope.covers(object) {
                    let _ = sender.send(line("ADDED", object.json()));
                }
            }
            // A client that receives all objects and permits bookmarks gets a bookmark at their end.
            if query.is_set("allowWatchBookmarks") {
                let all = json!({ "annotations": { "k8s.io/initial-events-end": "true" } });
                let _ = sender.send(bookmark(route.kind, cluster.store.version(), all));
            }
        }
        version => {
            let version: u64 = version.parse().map_err(|_| Refusal::internal(read::no_number(version)))?;
            match cluster.store.since(route.kind, version) {
                Some(missed) => {
                    missed
                        .iter()
                        .filter_map(|change| scope.line(change))
                        .for_each(|line| drop(sender.send(line)));
                }
                None => {
                    let newest = cluster.store.version();
                    return Ok(stream::iter([Ok(too_old(version, newest))]).boxed());
                }
            }
        }
    }
    let listener = move |change: &Change| match scope.line(change) {
        Some(line) => sender.send(line).is_ok(),
        None => !sender.is_closed(),
    };
    cluster.store.listen(route.kind, Box::new(listener));
    let lasts = query.get("timeoutSeconds").parse().unwrap_or(LASTS);
    let now = Instant::now();
    let ends = now + Duration::from_secs(lasts);
    let bookmark = query.is_set("allowWatchBookmarks").then(|| next_bookmark(now, ends)).flatten();
    let open = Open { shared: shared.clone(), route: route.clone(), receiver, ends, bookmark };
    Ok(stream::unfold(open, Open::next).boxed())
}

fn next_bookmark(now: Instant, ends: Instant) -> Option<Instant> {
    let last = ends.checked_sub(LAST_BOOKMARK).filter(|last| *last > now)?;
    Some(last.min(now + BOOKMARK_EVERY))
}

/// The objects that a watch covers.
struct Scope {
    namespace: Option<String>,
    wanted: Wanted,
}

impl Scope {
    fn covers(&self, object: &Value) -> bool {
        let is = |field: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| object["metadata"][field] == **wanted)
        };
        is("namespace", &self.namespace) && self.wanted.matches(object)
    }

    /// The event of a change. An object that begins or ceases to match is reported as added or deleted.
    fn line(&self, change: &Change) -> Option<Bytes> {
        let was = change.before.as_ref().is_some_and(|before| self.covers(before));
        let is = change.after().is_some_and(|after| self.covers(after));
        match (was, is) {
            (false, true) => Some(line("ADDED", change.object.json())),
            (true, true) => Some(line("MODIFIED", change.object.json())),
            (true, false) if change.deleted => Some(line("DELETED", change.object.json())),
            (true, false) => {
                // The object in its last matching state, with the version of the change.
                let mut last = change.before.as_ref()?.value.clone();
                last["metadata"]["resourceVersion"] = change.object.version.to_string().into();
                Some(line("DELETED", Stored::draft(last).json()))
            }
            (false, false) => None,
        }
    }
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(object.len() + 32);
    text.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    text.into()
}

fn bookmark(kind: Kind, version: u64, more: Value) -> Bytes {
    let info = kind.info();
    let mut object = json!({ "kind": info.name, "apiVersion": info.api_version(), "metadata": more });
    object["metadata"]["resourceVersion"] = version.to_string().into();
    // An empty pod in its serialised form.
    if kind == Kind::Pod {
        object["spec"] = json!({ "containers": null });
        object["status"] = json!({});
    }
    line("BOOKMARK", object.to_string().as_bytes())
}

fn too_old(version: u64, newest: u64) -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired",
        "message": format!("too old resource version: {version} ({newest})"), "code": 410,
    });
    line("ERROR", status.to_string().as_bytes())
}

struct Open {
    shared: Arc<Shared>,
    route: Route,
    receiver: mpsc::UnboundedReceiver<Bytes>,
    ends: Instant,
    bookmark: Option<Instant>,
}

impl Open {
    async fn next(mut self) -> Option<(Result<Bytes, super::Broken>, Open)> {
        let moment = self.bookmark.map_or(self.ends, |bookmark| bookmark.min(self.ends));
        tokio::select! {
            biased;
            line = self.receiver.recv() => line.map(|line| (Ok(line), self)),
            () = tokio::time::sleep_until(moment) => {
                if moment == self.ends {
                    return None;
                }
                self.bookmark = next_bookmark(moment, self.ends);
                let version = self.shared.lock().store.version();
                Some((Ok(bookmark(self.route.kind, version, json!({}))), self))
            }
        }
    }
}
