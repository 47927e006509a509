//! The states that objects passed through, as seen by watches.

use super::recorder::Event;
use super::side::fits;
use super::words::Words;
use rollcall_sim::kinds::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TERMINATING_VICTIMS: &str = "not eligible due to a terminating pod on the nominated node";

/// A summary of an object's state; `None` for states that are not always visible.
fn state(event: &Event, words: &Words) -> Option<String> {
    let object = &event.object;
    if event.deleted {
        return Some("gone".into());
    }
    let ends = object["metadata"]["deletionTimestamp"].is_string();
    // A kubelet reports how a pod ends; kwok does not.
    if ends && event.kind == Kind::Pod && !words.kubelet {
        return Some("terminating".into());
    }
    let mut said = match event.kind {
        Kind::Pod if words.kubelet && has_run(object) || is_waiting_for_victims(object) => return None,
        Kind::Pod => pod(object, words),
        Kind::Job => conditions(object, words, |_| true),
        Kind::PodSequence => match object["status"]["phase"].as_str() {
            // Whether the status is written before the next change depends on timing.
            None | Some("Pending") => vec!["new".into()],
            Some(phase) => vec![phase.to_owned()],
        },
        // For other kinds only creation and deletion matter. The intermediate status of a Deployment depends on how many
        // changes it processes at once.
        _ => vec!["there".into()],
    };
    if ends {
        said.push("terminating".into());
    }
    Some(said.join(", "))
}

/// Whether all containers have ended, but the phase does not show it yet. A busy kubelet reports both at once.
fn has_run(pod: &Value) -> bool {
    let containers = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    pod["status"]["phase"] == "Running"
        && pod["spec"]["restartPolicy"] == "Never"
        && containers.iter().all(|container| container["state"]["terminated"].is_object())
}

/// The scheduler retries while its victims terminate, if another change could free capacity.
fn is_waiting_for_victims(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| {
        condition["message"].as_str().is_some_and(|message| message.contains(TERMINATING_VICTIMS))
    })
}

fn pod(pod: &Value, words: &Words) -> Vec<String> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut said = vec![status["phase"].as_str().unwrap_or_default().to_owned()];
    for gate in spec["schedulingGates"].as_array().into_iter().flatten() {
        said.push(format!("held by {}", gate["name"].as_str().unwrap_or_default()));
    }
    if spec["nodeName"].is_string() {
        said.push("bound".into());
    }
    said.extend(status["nominatedNodeName"].as_str().map(|node| format!("nominated for {node}")));
    let worth = |condition: &Value| match condition["type"].as_str() {
        Some("Ready") => condition["status"] == "True",
        Some("PodScheduled") => condition["reason"] == "Unschedulable",
        Some("DisruptionTarget") => true,
        _ => false,
    };
    said.extend(conditions(pod, words, worth));
    said.extend(status["reason"].as_str().map(str::to_owned));
    said
}

fn conditions(object: &Value, words: &Words, worth: impl Fn(&Value) -> bool) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut said: Vec<String> = all
        .filter(|condition| worth(condition))
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            let said = format!("{}={} {} {}", text("type"), text("status"), text("reason"), text("message"));
            words.said(said.trim())
        })
        .collect();
    said.sort();
    said
}

/// The sequences of states by `Kind/name`; several if names are random.
pub fn each(events: &[Event], words: &Words) -> BTreeMap<String, Value> {
    let mut ways: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for event in events {
        let text = |field: &str| event.object["metadata"][field].as_str().unwrap_or_default();
        let name = format!("{}/{}", event.kind.info().name, words.said(text("name")));
        let way = ways.entry((name, text("uid").to_owned())).or_default();
        let Some(state) = state(event, words) else { continue };
        if way.last() != Some(&state) {
            way.push(state);
        }
    }
    let mut named: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for ((name, _), way) in ways {
        named.entry(name).or_default().push(way);
    }
    named.values_mut().for_each(|ways| ways.sort());
    named.into_iter().map(|(name, ways)| (name, json!(ways))).collect()
}

/// The states of all objects whose `Kind/name` matches a glob, in one sequence. The order across these objects is
/// deterministic.
pub fn together(events: &[Event], words: &Words, globs: &[String]) -> Value {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut line = Vec::new();
    for event in events {
        let text = |field: &str| event.object["metadata"][field].as_str().unwrap_or_default();
        let name = format!("{}/{}", event.kind.info().name, words.said(text("name")));
        if !globs.iter().any(|glob| fits(glob, &name)) {
            continue;
        }
        let Some(state) = state(event, words) else { continue };
        if last.insert(text("uid").to_owned(), state.clone()).as_ref() != Some(&state) {
            line.push(format!("{name}: {state}"));
        }
    }
    json!(line)
}
