//! Records the watch events of a cluster, ordered by version.

use super::side::{Lines, Side, place};
use anyhow::Result;
use futures::StreamExt;
use rollcall_sim::kinds::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The kinds that scenarios use.
pub const KINDS: [Kind; 15] = [
    Kind::Pod,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::Job,
    Kind::CronJob,
    Kind::ControllerRevision,
    Kind::PersistentVolumeClaim,
    Kind::PodSequence,
    Kind::ResourceQuota,
    Kind::PodDisruptionBudget,
    Kind::ConfigMap,
    Kind::Service,
    Kind::ServiceAccount,
];

/// Delay before a watch is reopened.
const AGAIN: Duration = Duration::from_millis(200);

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    pub version: u64,
    pub kind: Kind,
    pub deleted: bool,
    pub object: Arc<Value>,
}

/// Events by namespace.
type Events = BTreeMap<String, Vec<Event>>;

#[derive(Clone, Default)]
pub struct Recorder {
    events: Arc<Mutex<Events>>,
}

impl Recorder {
    /// Starts watching all kinds.
    pub async fn start(side: &Side) -> Result<Recorder> {
        let recorder = Recorder::default();
        for kind in KINDS {
            let path = format!("{}?watch=true", place(kind, None));
            let lines = side.watch(&path).await?;
            let (side, events) = (side.clone(), recorder.events.clone());
            tokio::spawn(async move { record(&side, &path, kind, lines, &events).await });
        }
        Ok(recorder)
    }

    /// The number of events in a namespace.
    pub fn count(&self, namespace: &str) -> usize {
        lock(&self.events).get(namespace).map_or(0, Vec::len)
    }

    /// The events in a namespace.
    pub fn events_of(&self, namespace: &str) -> Vec<Event> {
        let mut of = lock(&self.events).get(namespace).cloned().unwrap_or_default();
        of.sort_by_key(|event| event.version);
        of
    }
}

/// Records events, and reopens a watch that ends. The API server ends the watches of slow clients, and this test is slow on
/// a busy machine.
async fn record(side: &Side, path: &str, kind: Kind, mut lines: Lines, events: &Mutex<Events>) {
    let mut last = 0;
    loop {
        while let Some(Ok(line)) = lines.next().await {
            if line["type"] == "ERROR" {
                println!("the watch of {kind:?} has failed: {}", line["object"]["message"]);
                break;
            }
            let object = line["object"].clone();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            let (version, deleted) = (version(&object), line["type"] == "DELETED");
            last = last.max(version);
            let event = Event { version, kind, deleted, object: Arc::new(object) };
            lock(events).entry(namespace).or_default().push(event);
        }
        let from = if last > 0 { format!("{path}&resourceVersion={last}") } else { path.to_owned() };
        lines = loop {
            tokio::time::sleep(AGAIN).await;
            if let Ok(lines) = side.watch(&from).await {
                break lines;
            }
        };
    }
}

fn lock(events: &Mutex<Events>) -> MutexGuard<'_, Events> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The objects that exist after these events.
pub fn existing_objects(events: &[Event]) -> impl Iterator<Item = (Kind, &Value)> {
    let mut left: BTreeMap<&str, &Event> = BTreeMap::new();
    for event in events {
        let uid = event.object["metadata"]["uid"].as_str().unwrap_or_default();
        match event.deleted {
            true => drop(left.remove(uid)),
            false => drop(left.insert(uid, event)),
        }
    }
    left.into_values().map(|event| (event.kind, &*event.object))
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}
