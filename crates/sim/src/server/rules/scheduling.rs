//! Validation of scheduling fields: gates, tolerations, affinity, topology spread.

use super::{invalid_each, items, names, one_of, selector, text};
use crate::server::refusal::Wrong;
use serde_json::Value;
use std::collections::BTreeSet;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn gates(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    let mut seen = BTreeSet::new();
    for (at, gate) in items(spec, "schedulingGates").enumerate() {
        let field = format!("{path}.schedulingGates[{at}]");
        let name = text(gate, "name");
        invalid_each(found, &field, name, names::qualified(name));
        if !seen.insert(name) {
            found.push(Wrong::duplicate(field, &name.into()));
        }
    }
}

pub fn tolerations(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    for (at, toleration) in items(spec, "tolerations").enumerate() {
        let path = format!("{path}.tolerations[{at}]");
        let part = |name: &str| text(toleration, name);
        let (key, operator, value, effect) = (part("key"), part("operator"), part("value"), part("effect"));
        let at_operator = format!("{path}.operator");
        if !key.is_empty() {
            invalid_each(found, &format!("{path}.key"), key, names::qualified(key));
        } else if operator != "Exists" {
            let words =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            found.push(Wrong::invalid(&at_operator, &operator.into(), words));
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            found.push(Wrong::invalid(format!("{path}.effect"), &effect.into(), words));
        }
        match operator {
            "" | "Equal" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    found.push(Wrong::invalid(&at_operator, &value.into(), &messages.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let words = "value must be empty when `operator` is 'Exists'";
                found.push(Wrong::invalid(&at_operator, &value.into(), words));
            }
            "Exists" => {}
            // Numeric comparison requires a feature gate that is off.
            "Lt" | "Gt" => {
                let all = ["Equal", "Exists", "Lt", "Gt"];
                found.push(Wrong::not_supported(&at_operator, &operator.into(), &all));
            }
            _ => found.push(Wrong::not_supported(&at_operator, &operator.into(), &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of(found, &format!("{path}.effect"), &effect.into(), &EFFECTS);
        }
    }
}

/// Validates the taints of a node. The API server says `metadata` where it means `spec`.
pub fn taints(node: &Value, found: &mut Vec<Wrong>) {
    let mut seen = BTreeSet::new();
    for (at, taint) in items(&node["spec"], "taints").enumerate() {
        let path = format!("metadata.taints[{at}]");
        let part = |name: &str| text(taint, name);
        invalid_each(found, &format!("{path}.key"), part("key"), names::qualified(part("key")));
        let messages = names::label_value(part("value"));
        if !messages.is_empty() {
            found.push(Wrong::invalid(format!("{path}.value"), &part("value").into(), &messages.join(";")));
        }
        match part("effect") {
            "" => found.push(Wrong::required(format!("{path}.effect"), "")),
            effect => one_of(found, &format!("{path}.effect"), &effect.into(), &EFFECTS),
        }
        if !seen.insert((part("key"), part("effect"))) {
            let text = |name: &str| Value::from(part(name));
            let time = &taint["timeAdded"];
            let detail = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{time}}}: taints must be unique by key and \
                 effect pair",
                text("key"),
                text("value"),
                text("effect")
            );
            found.push(Wrong { detail, ..Wrong::duplicate(path, &Value::Null) });
        }
    }
}

pub fn affinity(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    let affinity = &spec["affinity"];
    let path = format!("{path}.affinity");
    node_affinity(&affinity["nodeAffinity"], &format!("{path}.nodeAffinity"), found);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = format!("{path}.{kind}");
        for (at, term) in items(&affinity[kind], REQUIRED).enumerate() {
            pod_term(term, &format!("{path}.{REQUIRED}[{at}]"), found);
        }
        for (at, preferred) in items(&affinity[kind], PREFERRED).enumerate() {
            let path = format!("{path}.{PREFERRED}[{at}]");
            weight(preferred, &path, found);
            pod_term(&preferred["podAffinityTerm"], &format!("{path}.podAffinityTerm"), found);
        }
    }
}

fn node_affinity(affinity: &Value, path: &str, found: &mut Vec<Wrong>) {
    if let Some(required) = affinity.get(REQUIRED) {
        let field = format!("{path}.{REQUIRED}.nodeSelectorTerms");
        if items(required, "nodeSelectorTerms").next().is_none() {
            found.push(Wrong::required(&field, "must have at least one node selector term"));
        }
        for (at, term) in items(required, "nodeSelectorTerms").enumerate() {
            node_term(term, &format!("{field}[{at}]"), found);
        }
    }
    for (at, preferred) in items(affinity, PREFERRED).enumerate() {
        let path = format!("{path}.{PREFERRED}[{at}]");
        weight(preferred, &path, found);
        node_term(&preferred["preference"], &format!("{path}.preference"), found);
    }
}

fn weight(preferred: &Value, path: &str, found: &mut Vec<Wrong>) {
    if !preferred["weight"].as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
        let words = "must be in the range 1-100";
        found.push(Wrong::invalid(format!("{path}.weight"), &preferred["weight"], words));
    }
}

fn node_term(term: &Value, path: &str, found: &mut Vec<Wrong>) {
    for (at, requirement) in items(term, "matchExpressions").enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let values = items(requirement, "values").count();
        let field = format!("{path}.values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values == 0 => {
                found.push(Wrong::required(field, "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                found.push(Wrong::forbidden(field, words));
            }
            "Gt" | "Lt" if values != 1 => {
                let words = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                found.push(Wrong::required(field, words));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => unknown_operator(other, &path, found),
        }
        let key = text(requirement, "key");
        invalid_each(found, &format!("{path}.key"), key, names::qualified(key));
        for (at, value) in items(requirement, "values").filter_map(Value::as_str).enumerate() {
            invalid_each(found, &format!("{path}.values[{at}]"), value, names::label_value(value));
        }
    }
    for (at, requirement) in items(term, "matchFields").enumerate() {
        node_field(requirement, &format!("{path}.matchFields[{at}]"), found);
    }
}

/// Validates a requirement on node fields. Only the name is supported, with a single value.
fn node_field(requirement: &Value, path: &str, found: &mut Vec<Wrong>) {
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if items(requirement, "values").count() != 1 {
                let words =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                found.push(Wrong::required(format!("{path}.values"), words));
            }
        }
        other => unknown_operator(other, path, found),
    }
    match text(requirement, "key") {
        "metadata.name" => {
            for (at, name) in items(requirement, "values").filter_map(Value::as_str).enumerate() {
                invalid_each(found, &format!("{path}.values[{at}]"), name, names::dns_subdomain(name));
            }
        }
        other => {
            let words = "not a valid field selector key";
            found.push(Wrong::invalid(format!("{path}.key"), &other.into(), words));
        }
    }
}

fn unknown_operator(operator: &str, path: &str, found: &mut Vec<Wrong>) {
    let words = "not a valid selector operator";
    found.push(Wrong::invalid(format!("{path}.operator"), &operator.into(), words));
}

fn pod_term(term: &Value, path: &str, found: &mut Vec<Wrong>) {
    selector::check(&term["labelSelector"], &format!("{path}.labelSelector"), found);
    selector::check(&term["namespaceSelector"], &format!("{path}.namespaceSelector"), found);
    for name in items(term, "namespaces").filter_map(Value::as_str) {
        invalid_each(found, &format!("{path}.namespace"), name, names::dns_label(name));
    }
    let key = text(term, "topologyKey");
    let field = format!("{path}.topologyKey");
    if key.is_empty() {
        found.push(Wrong::required(&field, "can not be empty"));
    }
    invalid_each(found, &field, key, names::qualified(key));
}

pub fn spread(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    for (at, constraint) in items(spec, "topologySpreadConstraints").enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{at}]");
        if constraint["maxSkew"].as_i64().is_none_or(|skew| skew <= 0) {
            let words = "must be greater than zero";
            found.push(Wrong::invalid(format!("{path}.maxSkew"), &constraint["maxSkew"], words));
        }
        let key = text(constraint, "topologyKey");
        let field = format!("{path}.topologyKey");
        if key.is_empty() {
            found.push(Wrong::required(field, "can not be empty"));
        } else {
            invalid_each(found, &field, key, names::qualified(key));
        }
        let allowed = ["DoNotSchedule", "ScheduleAnyway"];
        one_of(found, &format!("{path}.whenUnsatisfiable"), &constraint["whenUnsatisfiable"], &allowed);
        let same = |other: &Value| {
            ["topologyKey", "whenUnsatisfiable"].iter().all(|part| other[*part] == constraint[*part])
        };
        if items(spec, "topologySpreadConstraints").skip(at + 1).any(same) {
            let pair = format!("{{{key}, {}}}", text(constraint, "whenUnsatisfiable"));
            let field = format!("{path}.{{topologyKey, whenUnsatisfiable}}");
            found.push(Wrong::duplicate(field, &pair.into()));
        }
        selector::check(&constraint["labelSelector"], &format!("{path}.labelSelector"), found);
    }
}
