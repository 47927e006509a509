//! What watches saw of a cluster, in the order of the versions.

use super::side::{Side, place};
use anyhow::Result;
use futures::StreamExt;
use rollcall_sim::kinds::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds that scenarios are about.
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

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    pub version: u64,
    pub kind: Kind,
    pub deleted: bool,
    pub object: Value,
}

#[derive(Clone, Default)]
pub struct Recorder {
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// Watches all kinds from now on.
    pub async fn start(side: &Side) -> Result<Recorder> {
        let recorder = Recorder::default();
        for kind in KINDS {
            let mut lines = side.watch(&format!("{}?watch=true", place(kind, None))).await?;
            let events = recorder.events.clone();
            tokio::spawn(async move {
                while let Some(Ok(line)) = lines.next().await {
                    let object = line["object"].clone();
                    let version = version(&object);
                    let deleted = line["type"] == "DELETED";
                    let event = Event { version, kind, deleted, object };
                    events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
                }
            });
        }
        Ok(recorder)
    }

    /// What happened in a namespace.
    pub fn of(&self, namespace: &str) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of: Vec<Event> = events
            .iter()
            .filter(|event| event.object["metadata"]["namespace"] == namespace)
            .cloned()
            .collect();
        of.sort_by_key(|event| event.version);
        of
    }

    /// Whether the watches have come as far as these objects of a namespace, and know of no others.
    pub fn has_seen(&self, namespace: &str, objects: &[(Kind, Value)]) -> bool {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for event in self.of(namespace) {
            let uid = event.object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            match event.deleted {
                true => drop(last.remove(&uid)),
                false => drop(last.insert(uid, event.version)),
            }
        }
        let of = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let listed: BTreeMap<String, u64> =
            objects.iter().map(|(_, object)| (of(object), version(object))).collect();
        last == listed
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}
