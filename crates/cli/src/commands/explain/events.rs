//! The last warning event for each pod that `explain` names as a cause.

use super::node::Node;
use crate::connect::Connection;
use crate::load::{self, Loaded, has_code};
use jiff::Timestamp;
use kube::api::ListParams;
use rollcall_core::Uid;
use rollcall_core::line::elapsed;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum number of pods to look up; each costs a request.
const PODS: usize = 5;
/// Maximum length of a message in characters. A message may contain up to 10 KiB of container output; the beginning matters
/// most.
const MESSAGE: usize = 200;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    event_time: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    series: Option<Series>,
    involved_object: Involved,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    last_observed_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Involved {
    uid: Option<String>,
}

impl Event {
    fn at(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        series.or(self.last_timestamp).or(self.event_time)
    }

    fn line(&self, now: Timestamp) -> String {
        let ago = self.at().map_or(String::new(), |at| format!(" {} ago", elapsed(at, now)));
        let (reason, message) = (self.reason.as_deref(), self.message.as_deref());
        format!(
            "event{ago}: {}: {}",
            reason.unwrap_or("Warning"),
            shortened(message.unwrap_or_default().trim())
        )
    }
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// Puts the last warning about each blamed pod below its line. Returns a description of the events that could not be read.
pub async fn add(
    node: &mut Node,
    connection: &Connection,
    loaded: &Loaded,
    now: Timestamp,
) -> Option<String> {
    let mut pods = Vec::new();
    blamed(node, &mut pods);
    let mut found = BTreeMap::new();
    for pod in pods.into_iter().take(PODS) {
        let Some(uid) = loaded.index.cluster.pod_named(&loaded.namespace, &pod).map(|pod| pod.uid) else {
            continue;
        };
        let path = format!("/api/v1/namespaces/{}/events", loaded.namespace);
        let params = ListParams::default().fields(&format!("involvedObject.name={pod},type=Warning"));
        match load::list::<Event>(connection, &path, &params).await {
            Ok(events) => {
                last_warning(&events, uid).map(|event| found.insert(pod, (event.line(now), event.at())));
            }
            // The answer is valid without events, so an error only adds a note.
            Err(error) if has_code(&error, 403) => {
                return Some(format!("not allowed to list events in namespace {}", loaded.namespace));
            }
            Err(error) => return Some(connection.explained(error, "list events").to_string()),
        }
    }
    place(node, &found);
    None
}

/// Returns the last warning about the pod with this UID, ignoring earlier pods of the same name.
fn last_warning(events: &[Event], uid: Uid) -> Option<&Event> {
    let about =
        |event: &&Event| event.involved_object.uid.as_deref().is_some_and(|text| Uid::new(text) == uid);
    let warnings = events.iter().filter(|event| event.kind.as_deref() == Some("Warning"));
    warnings.filter(about).max_by_key(|event| event.at())
}

fn blamed(node: &Node, pods: &mut Vec<String>) {
    let pod = Some(&node.object.name).filter(|pod| node.blames_pod && !pods.contains(pod));
    pods.extend(pod.cloned());
    node.below.iter().for_each(|node| blamed(node, pods));
}

fn place(node: &mut Node, found: &BTreeMap<String, (String, Option<Timestamp>)>) {
    node.below.iter_mut().for_each(|node| place(node, found));
    let event = found.get(&node.object.name).filter(|_| node.blames_pod);
    let event = event.map(|(text, at)| node.event(text.clone(), at.unwrap_or(node.since)));
    node.below.extend(event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_warning_about_this_pod_counts() {
        let events: Vec<Event> = serde_json::from_value(serde_json::json!([
            {"type": "Warning", "reason": "Old", "message": "m", "lastTimestamp": "2026-11-15T23:00:00Z",
             "involvedObject": {"uid": "u1"}},
            {"type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed\n", "lastTimestamp": null,
             "eventTime": "2026-11-15T22:00:00.000000Z",
             "series": {"count": 9, "lastObservedTime": "2026-11-15T23:00:10.000000Z"},
             "involvedObject": {"uid": "u1"}},
            {"type": "Normal", "reason": "Pulled", "lastTimestamp": "2026-11-15T23:01:00Z", "involvedObject": {"uid": "u1"}},
            {"type": "Warning", "reason": "Namesake", "lastTimestamp": "2026-11-15T23:01:00Z", "involvedObject": {"uid": "u2"}},
            {"type": "Warning", "reason": "Dateless", "involvedObject": {"uid": "u1"}},
        ]))
        .expect("events");
        let now = "2026-11-15T23:00:22Z".parse().expect("a time");
        let last = last_warning(&events, Uid::new("u1")).expect("a warning");
        assert_eq!(last.line(now), "event 12s ago: Unhealthy: Readiness probe failed");
        assert!(last_warning(&events, Uid::new("u3")).is_none());
    }

    #[test]
    fn a_message_is_not_longer_than_is_read() {
        assert_eq!(shortened(&"é".repeat(MESSAGE)), "é".repeat(MESSAGE));
        assert_eq!(shortened(&"é".repeat(MESSAGE + 1)), "é".repeat(MESSAGE) + "…");
    }
}
