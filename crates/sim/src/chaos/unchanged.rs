//! What the controllers must leave unchanged, including the order of list items.

use super::allowed::Feature;
use super::world::{OURS, World};
use rollcall_api::names;
use serde_json::{Value, json};

/// Whether a pod differs only in fields that the feature may change: its gate is removed, its annotations and status fields
/// are set. In Full mode the sequence feature may also add node affinity and tolerations.
pub fn unchanged_except(before: &Value, after: &Value, feature: &Feature, full: bool) -> bool {
    let metadata: &[&str] = &["resourceVersion", "generation", "managedFields", "annotations"];
    let steers = feature.steers && full;
    let spec: &[&str] =
        if steers { &["schedulingGates", "affinity", "tolerations"] } else { &["schedulingGates"] };
    let annotations = |pod| foreign_annotations(pod, feature);
    let gates = |pod| foreign_gates(pod, feature);
    let parts: &[&str] = &["metadata", "spec", "status"];
    without(before, parts).eq(without(after, parts))
        && without(&before["status"], feature.status).eq(without(&after["status"], feature.status))
        && without(&before["metadata"], metadata).eq(without(&after["metadata"], metadata))
        && without(&before["spec"], spec).eq(without(&after["spec"], spec))
        && annotations(before).eq(annotations(after))
        && gates(before).eq(gates(after))
        && (!steers || only_adds_own_tolerations(before, after) && only_adds_own_affinity(before, after))
}

fn without<'a>(object: &'a Value, names: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !names.contains(&name.as_str()))
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

fn foreign_gates<'a>(pod: &'a Value, feature: &Feature) -> impl Iterator<Item = &'a Value> {
    let own = feature.gate;
    list(pod, "/spec/schedulingGates").filter(move |gate| gate["name"] != own)
}

fn foreign_annotations<'a>(
    pod: &'a Value,
    feature: &Feature,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    without(&pod["metadata"]["annotations"], feature.annotations)
}

fn is_ours(item: &Value) -> bool {
    item["key"].as_str().is_some_and(|key| key.starts_with(OURS))
}

/// Whether the new tolerations follow the old ones, and are for Rollcall's taints.
fn only_adds_own_tolerations(before: &Value, after: &Value) -> bool {
    let (mut old, mut new) = (list(before, "/spec/tolerations"), list(after, "/spec/tolerations"));
    let kept = old.all(|is| new.next() == Some(is));
    kept && new.all(|is| is_ours(is) && is["operator"] == "Exists" && is["effect"] == "NoSchedule")
}

/// Whether the affinity is unchanged except for Rollcall's requirements.
fn only_adds_own_affinity(before: &Value, after: &Value) -> bool {
    foreign_affinity(before) == foreign_affinity(after)
}

fn foreign_affinity(pod: &Value) -> Value {
    let mut affinity = pod["spec"]["affinity"].clone();
    let terms = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    for term in affinity.pointer_mut(terms).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(all) = term["matchExpressions"].as_array_mut() {
            all.retain(|item| !(is_ours(item) && item["operator"] == "DoesNotExist"));
        }
    }
    without_empty(affinity)
}

/// A value without its empty parts; `Null` if it is empty.
fn without_empty(value: Value) -> Value {
    let is_something = |value: &Value| !matches!(value, Value::Null);
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
            let fields: serde_json::Map<_, _> = fields.filter(|(_, value)| is_something(value)).collect();
            if fields.is_empty() { Value::Null } else { fields.into() }
        }
        Value::Array(items) => {
            let items: Vec<Value> = items.into_iter().map(without_empty).filter(is_something).collect();
            if items.is_empty() { Value::Null } else { items.into() }
        }
        other => other,
    }
}

/// The first part of a node that changed and does not belong to Rollcall.
pub fn changed_foreign_field(before: &Value, after: &Value) -> Option<&'static str> {
    let metadata: &[&str] = &["resourceVersion", "managedFields", "labels", "annotations"];
    let foreign = |object: &Value, map: &str| -> Vec<(String, Value)> {
        let all = object["metadata"][map].as_object().into_iter().flatten();
        let all = all.filter(|(key, _)| !key.starts_with(OURS));
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let taints = |object: &Value| -> Vec<Value> {
        list(object, "/spec/taints").filter(|taint| !is_ours(taint)).cloned().collect()
    };
    let differs = [
        ("a foreign label", foreign(before, "labels") != foreign(after, "labels")),
        ("a foreign annotation", foreign(before, "annotations") != foreign(after, "annotations")),
        ("a foreign taint", taints(before) != taints(after)),
        ("the spec", !without(&before["spec"], &["taints"]).eq(without(&after["spec"], &["taints"]))),
        ("the metadata", !without(&before["metadata"], metadata).eq(without(&after["metadata"], metadata))),
        ("the status", before["status"] != after["status"]),
    ];
    differs.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what)
}

/// A group in both journals of a node that has lost its completion time.
pub fn lost_completion_on_node(before: &Value, after: &Value) -> Option<String> {
    let journals = before["metadata"]["annotations"].as_object().into_iter().flatten();
    journals.filter(|(key, _)| key.starts_with(names::JOURNAL_PREFIX)).find_map(|(key, old)| {
        let (old, new) = (journal_groups(old), journal_groups(after["metadata"]["annotations"].get(key)?));
        let complete = old.as_object()?.iter().filter(|(_, times)| times["completedAt"].is_number());
        let mut lost =
            complete.filter(|(group, _)| new.get(group).is_some_and(|now| now["completedAt"].is_null()));
        lost.next().map(|(group, _)| group.clone())
    })
}

/// The groups of a journal on a node.
pub fn journal_groups(text: &Value) -> Value {
    let journal: Option<Value> = text.as_str().and_then(|text| serde_json::from_str(text).ok());
    journal.map(|mut journal| journal["groups"].take()).unwrap_or_default()
}

/// A key with Rollcall's prefix on a node that belongs to no sequence in Node scope of this world.
pub fn unknown_mark(world: &World, node: &Value) -> Option<String> {
    let rules = world.rules.iter().filter(|rule| rule.guard.is_some());
    let known: Vec<String> =
        rules.map(|rule| format!("{OURS}{}.{}.", rule.namespace, rule.sequence)).collect();
    let is_known = |key: &str| {
        key == names::UNSEEN_LABEL
            || key.starts_with(names::JOURNAL_PREFIX)
            || known.iter().any(|start| key.starts_with(start)) && key.ends_with("-blocked")
    };
    own_keys(node).into_iter().find(|key| !is_known(key))
}

/// The keys of Rollcall's labels, annotations and taints on a node.
pub fn own_keys(node: &Value) -> Vec<String> {
    let maps = ["labels", "annotations"].into_iter().filter_map(|map| node["metadata"][map].as_object());
    let keys = maps.flatten().map(|(key, _)| key.as_str());
    let taints = list(node, "/spec/taints").filter_map(|taint| taint["key"].as_str());
    keys.chain(taints).filter(|key| key.starts_with(OURS)).map(str::to_owned).collect()
}

/// A log summary of a node: Rollcall's labels and journals, all taints, and the uid.
pub fn describe_node(node: &Value) -> String {
    let all = node["metadata"]["annotations"].as_object().into_iter().flatten();
    let journals: Vec<&Value> =
        all.filter(|(key, _)| key.starts_with(names::JOURNAL_PREFIX)).map(|(_, journal)| journal).collect();
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: Vec<&String> = labels.map(|(key, _)| key).filter(|key| key.starts_with(OURS)).collect();
    let taints: Vec<&Value> = list(node, "/spec/taints").map(|taint| &taint["key"]).collect();
    json!({ "labels": labels, "taints": taints, "journals": journals, "uid": node["metadata"]["uid"] })
        .to_string()
}
