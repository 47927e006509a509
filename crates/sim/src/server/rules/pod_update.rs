//! Permitted updates of a pod: images, the deadline, additional tolerations, removed gates. While a gate remains, the node
//! selection may also be narrowed.

use super::{in_order, invalid_shown, items, pod, scheduling, text};
use crate::server::refusal::Wrong;
use serde_json::{Map, Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The API server's message ends with the difference of the two specs.
const OTHER_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                            `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
                            additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set \
                            to 1 if it was previously negative)";

pub fn updated(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    pod::created_or_updated(new, found);
    let (old, new) = (&old["spec"], &new["spec"]);
    for list in ["containers", "initContainers"] {
        if items(old, list).count() != items(new, list).count() {
            let words = "pod updates may not add or remove containers";
            found.push(Wrong::forbidden(format!("spec.{list}"), words));
            return;
        }
    }
    if !deadline(old, new, found) {
        return;
    }
    tolerations(old, new, found);
    gates(old, new, found);
    let mut allowed = new.clone();
    for list in ["containers", "initContainers"] {
        keep_images(old, &mut allowed, list);
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(old, &mut allowed, field);
    }
    let seconds = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64().unwrap_or_default();
    if seconds(old) < 0 && seconds(&allowed) == 1 {
        keep(old, &mut allowed, "terminationGracePeriodSeconds");
    }
    if items(old, "schedulingGates").next().is_some() {
        choice_of_nodes(old, new, &mut allowed, found);
    }
    if allowed != *old {
        found.push(Wrong::forbidden("spec", OTHER_FIELDS));
    }
}

/// The deadline may be set or shortened. Returns whether the other fields must be checked.
fn deadline(old: &Value, new: &Value, found: &mut Vec<Wrong>) -> bool {
    let field = "spec.activeDeadlineSeconds";
    let seconds = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    match (seconds(old), seconds(new)) {
        (_, Some(after)) if !(0..=i64::from(i32::MAX)).contains(&after) => {
            let words = format!("must be between 0 and {}, inclusive", i32::MAX);
            found.push(Wrong::invalid(field, &after.into(), &words));
            false
        }
        (Some(before), Some(after)) if before < after => {
            let words = "must be less than or equal to previous value";
            found.push(Wrong::invalid(field, &after.into(), words));
            false
        }
        (Some(_), None) => {
            let words = "must not update from a positive integer to nil value";
            found.push(Wrong::invalid(field, &Value::Null, words));
            true
        }
        _ => true,
    }
}

fn tolerations(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    let but_seconds = |toleration: &Value| -> Map<String, Value> {
        let fields = toleration.as_object().into_iter().flatten();
        fields.filter(|(name, _)| *name != "tolerationSeconds").map(|(n, v)| (n.clone(), v.clone())).collect()
    };
    let after: Vec<_> = items(new, "tolerations").map(but_seconds).collect();
    if !items(old, "tolerations").map(but_seconds).all(|toleration| after.contains(&toleration)) {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        found.push(Wrong::forbidden("spec.tolerations", words));
        return;
    }
    scheduling::tolerations(new, "spec", found);
}

fn gates(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    for (at, gate) in items(new, "schedulingGates").enumerate() {
        let name = text(gate, "name");
        if !items(old, "schedulingGates").any(|gate| text(gate, "name") == name) {
            let words = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            found.push(Wrong::forbidden(format!("spec.schedulingGates[{at}].name"), words));
        }
    }
}

/// While the old pod has a gate, its node selector and the terms of its node affinity may get additional entries.
fn choice_of_nodes(old: &Value, new: &Value, allowed: &mut Value, found: &mut Vec<Wrong>) {
    let before = old["nodeSelector"].as_object();
    let after = &new["nodeSelector"];
    if before.into_iter().flatten().any(|(key, value)| after.get(key) != Some(value)) {
        let shown = if after.is_null() { json!({}) } else { after.clone() };
        let words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        found.push(Wrong::invalid("spec.nodeSelector", &shown, words));
    }
    keep(old, allowed, "nodeSelector");

    let (before, after) = (&old["affinity"]["nodeAffinity"], &new["affinity"]["nodeAffinity"]);
    if before == after {
        return;
    }
    node_affinity(&before[REQUIRED], &after[REQUIRED], found);
    match (old.get("affinity"), allowed.get_mut("affinity").and_then(Value::as_object_mut)) {
        (Some(_), Some(affinity)) => match before {
            Value::Null => drop(affinity.remove("nodeAffinity")),
            before => drop(affinity.insert("nodeAffinity".into(), before.clone())),
        },
        (None, Some(affinity)) if affinity.keys().all(|kind| kind == "nodeAffinity") => {
            allowed.as_object_mut().map(|fields| fields.remove("affinity"));
        }
        (None, Some(affinity)) => drop(affinity.remove("nodeAffinity")),
        (_, None) => allowed["affinity"] = json!({ "nodeAffinity": before }),
    }
}

fn node_affinity(before: &Value, after: &Value, found: &mut Vec<Wrong>) {
    let field = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let terms = |required: &Value| -> Vec<Value> { items(required, "nodeSelectorTerms").cloned().collect() };
    let (before, after) = (terms(before), terms(after));
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        let shown: Vec<String> = after.iter().map(shown_term).collect();
        let shown = if after.is_empty() { "null".to_owned() } else { format!("[{}]", shown.join(",")) };
        let words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        found.push(invalid_shown(&field, &shown, words));
        return;
    }
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        if !is_tightened(before, after) {
            let words = "only additions are allowed (no mutations or deletions)";
            found.push(invalid_shown(&format!("{field}[{at}]"), &shown_term(after), words));
        }
    }
}

fn is_tightened(before: &Value, after: &Value) -> bool {
    let list = |term: &Value, name: &str| -> Vec<Value> { items(term, name).cloned().collect() };
    let lists = ["matchExpressions", "matchFields"];
    // An empty term matches nothing, so an additional requirement would loosen it.
    if lists.iter().all(|name| list(before, name).is_empty()) {
        return lists.iter().all(|name| list(after, name).is_empty());
    }
    lists.iter().all(|name| list(after, name).starts_with(&list(before, name)))
}

/// A term as the API server prints it, with the field names of its own types.
fn shown_term(term: &Value) -> String {
    let requirement = |requirement: &Value| {
        let part = |name: &str| requirement[name].clone();
        let shown = json!({ "Key": part("key"), "Operator": part("operator"), "Values": part("values") });
        in_order(&shown, &["Key", "Operator", "Values"])
    };
    let list = |name: &str| {
        let shown: Vec<String> = items(term, name).map(requirement).collect();
        if shown.is_empty() { "null".to_owned() } else { format!("[{}]", shown.join(",")) }
    };
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    format!("{{\"MatchExpressions\":{expressions},\"MatchFields\":{fields}}}")
}

fn keep_images(old: &Value, allowed: &mut Value, list: &str) {
    let before = old[list].as_array().into_iter().flatten();
    let after = allowed.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    for (before, after) in before.zip(after) {
        keep(before, after, "image");
    }
}

fn keep(old: &Value, new: &mut Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}
