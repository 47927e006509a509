//! The end of a scenario: all objects of its namespace, its nodes, and the states that the objects passed through.

use super::compare::{Line, compare};
use super::recorder::Event;
use super::side::{Side, place};
use super::trail;
use super::words::Words;
use anyhow::Result;
use rollcall_api::names;
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Published in every namespace of a real cluster, but not used here.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

/// The nodes of a scenario, without the fields that kubelets write.
pub async fn nodes(side: &Side, namespace: &str) -> Result<Vec<(Kind, Value)>> {
    let list = side.get(&format!("/api/v1/nodes?labelSelector=scenario%3D{namespace}")).await?.body;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let kept = |node: Value| {
        let metadata = json!({
            "name": node["metadata"]["name"], "labels": node["metadata"]["labels"],
            "finalizers": node["metadata"]["finalizers"],
        });
        (Kind::Node, json!({ "metadata": metadata, "spec": node["spec"] }))
    };
    Ok(items.into_iter().map(kept).collect())
}

/// The Events of a scenario, each only once, because their number depends on the timing of retries.
pub async fn said(side: &Side, namespace: &str) -> Result<Vec<(Kind, Value)>> {
    let list = side.get(&place(Kind::Event, Some(namespace))).await?.body;
    let mut said = BTreeMap::new();
    for event in list["items"].as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let by = text(&event["reportingController"]);
        let about = format!("{} {}", text(&event["regarding"]["kind"]), text(&event["regarding"]["name"]));
        // Rollcall's controller combines Events within a second, so their text depends on the timing.
        let name = match by == names::LEASE {
            true => format!("ours about {about}"),
            false => format!("cluster: {} {about}: {}", text(&event["reason"]), text(&event["note"])),
        };
        let kept = json!({ "metadata": { "name": name }, "type": event["type"], "reportingController": by });
        said.insert(name, (Kind::Event, kept));
    }
    Ok(said.into_values().collect())
}

/// The end of a scenario, described independently of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// By `Kind/name`; several objects if names are random.
    objects: BTreeMap<String, Vec<Value>>,
    ways: BTreeMap<String, Value>,
    together: Value,
}

impl End {
    pub fn new(objects: &[(Kind, Value)], events: &[Event], words: &Words, order: &[String]) -> End {
        let mut named: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (kind, object) in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if name != ROOT_CERTIFICATE {
                let name = format!("{}/{}", kind.info().name, words.said(name));
                named.entry(name).or_default().push(words.tell(object));
            }
        }
        // Objects with the same description are sorted by spec and phase, not by what kubelets report.
        let order_by =
            |object: &Value| format!("{}{}{}", object["metadata"], object["status"]["phase"], object["spec"]);
        named.values_mut().for_each(|objects| objects.sort_by_key(order_by));
        let known = |event: &&Event| event.object["metadata"]["name"] != ROOT_CERTIFICATE;
        let events: Vec<Event> = events.iter().filter(known).cloned().collect();
        End {
            objects: named,
            ways: trail::each(&events, words),
            together: trail::together(&events, words, order),
        }
    }

    pub fn compare(&self, theirs: &End, scenario: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        let at = |name: &str| format!("scenarios/{scenario} {name}");
        let names: BTreeSet<&String> = self.objects.keys().chain(theirs.objects.keys()).collect();
        let none = Vec::new();
        for name in names {
            let ours = self.objects.get(name).unwrap_or(&none);
            let theirs = theirs.objects.get(name).unwrap_or(&none);
            compare(&at(name), "number", &ours.len().into(), &theirs.len().into(), &mut lines);
            if ours.len() == theirs.len() {
                ours.iter()
                    .zip(theirs)
                    .for_each(|(ours, theirs)| compare(&at(name), "", ours, theirs, &mut lines));
            }
        }
        let names: BTreeSet<&String> = self.ways.keys().chain(theirs.ways.keys()).collect();
        for name in names {
            let way = |end: &End| end.ways.get(name).cloned().unwrap_or_default();
            compare(&at(name), "way", &way(self), &way(theirs), &mut lines);
        }
        compare(&at("all"), "order", &self.together, &theirs.together, &mut lines);
        lines
    }
}
