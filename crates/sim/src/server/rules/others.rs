//! Validation of kinds other than pods and workloads: nodes, claims, quotas, budgets, services, events.

use super::workloads::{at_most_all, number_or_percentage};
use super::{
    invalid_each, invalid_shown, items, metadata, names, not_negative, one_of, scheduling, selector, text,
};
use crate::kinds::Kind;
use crate::server::defaults::quantity;
use crate::server::refusal::{Wrong, WrongKind};
use serde_json::{Value, json};

/// Limit of the data in a ConfigMap or Secret, without keys.
const DATA_BYTES: usize = 1024 * 1024;
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const INSTANCE_LENGTH: usize = 128;
const NOTE_LENGTH: usize = 1024;

pub fn created(kind: Kind, object: &Value, found: &mut Vec<Wrong>) {
    match kind {
        Kind::PriorityClass => priority_class(object, found),
        Kind::Event => {
            event(object, found);
            new_event(object, found);
        }
        Kind::ControllerRevision => {
            not_negative_at(object, "revision", found);
            match &object["data"] {
                Value::Null => found.push(Wrong::required("data", "data is mandatory")),
                Value::Object(_) => {}
                _ => found.push(Wrong::required("data", "data must be a valid JSON object")),
            }
        }
        _ => created_or_updated(kind, object, found),
    }
}

fn created_or_updated(kind: Kind, object: &Value, found: &mut Vec<Wrong>) {
    let spec = &object["spec"];
    match kind {
        Kind::ConfigMap => config_map(object, found),
        Kind::Secret => data(object, "data", found),
        Kind::Node => scheduling::taints(object, found),
        Kind::Service => service(spec, found),
        Kind::ResourceQuota => quota(spec, found),
        Kind::PersistentVolumeClaim => claim(spec, "spec", found),
        Kind::PodDisruptionBudget => budget(spec, found),
        Kind::Lease => lease(spec, found),
        _ => {}
    }
}

pub fn updated(kind: Kind, old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    match kind {
        Kind::PriorityClass => {
            if old["value"] != new["value"] {
                found.push(Wrong::forbidden("value", "may not be changed in an update."));
            }
            metadata::immutable(
                found,
                "preemptionPolicy",
                &old["preemptionPolicy"],
                &new["preemptionPolicy"],
            );
        }
        Kind::ControllerRevision => {
            not_negative_at(new, "revision", found);
            metadata::immutable(found, "data", &old["data"], &new["data"]);
        }
        Kind::Event => {
            event(new, found);
            event_immutable(old, new, found);
        }
        Kind::ConfigMap | Kind::Secret => {
            if kind == Kind::Secret {
                metadata::immutable(found, "type", &old["type"], &new["type"]);
            }
            if old["immutable"] == true {
                immutable_data(old, new, found);
            }
            created_or_updated(kind, new, found);
        }
        Kind::ResourceQuota => {
            created_or_updated(kind, new, found);
            metadata::immutable(found, "spec.scopes", &old["spec"]["scopes"], &new["spec"]["scopes"]);
        }
        Kind::PersistentVolumeClaim => {
            created_or_updated(kind, new, found);
            claim_immutable(old, new, found);
        }
        _ => created_or_updated(kind, new, found),
    }
}

fn not_negative_at(object: &Value, field: &str, found: &mut Vec<Wrong>) {
    if object[field].as_i64().is_some_and(|number| number < 0) {
        found.push(Wrong::invalid(field, &object[field], "must be greater than or equal to 0"));
    }
}

fn priority_class(class: &Value, found: &mut Vec<Wrong>) {
    let name = text(&class["metadata"], "name");
    let value = class["value"].as_i64().unwrap_or_default();
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known)) if *known != value => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some(_) if class["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let words = "priority class names with 'system-' prefix are reserved for system use only";
            found.push(Wrong::forbidden("metadata.name", format!("{words}. error: {why}")));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let words = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        found.push(Wrong::forbidden("value", words));
    }
    let policies = ["PreemptLowerPriority", "Never"];
    one_of(found, "preemptionPolicy", &class["preemptionPolicy"], &policies);
}

fn config_map(map: &Value, found: &mut Vec<Wrong>) {
    for key in map["data"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if map["binaryData"].get(key).is_some() {
            let words = "duplicate of key present in binaryData";
            found.push(Wrong::invalid(format!("data[{key}]"), &key.as_str().into(), words));
        }
    }
    data(map, "data", found);
    data(map, "binaryData", found);
}

fn data(object: &Value, field: &str, found: &mut Vec<Wrong>) {
    let mut bytes = 0;
    for (key, value) in object[field].as_object().into_iter().flatten() {
        invalid_each(found, &format!("{field}[{key}]"), key, names::data_key(key));
        bytes += value.as_str().unwrap_or_default().len();
    }
    if bytes > DATA_BYTES {
        let field = if object["kind"] == "Secret" { field } else { "" }.to_owned();
        let detail = format!("may not be more than {DATA_BYTES} bytes");
        found.push(Wrong { field, kind: WrongKind::TooLong, detail });
    }
}

fn immutable_data(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    for field in ["immutable", "data", "binaryData"] {
        if old[field] != new[field] {
            found.push(Wrong::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
}

fn service(spec: &Value, found: &mut Vec<Wrong>) {
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    let headless = text(spec, "clusterIP") == "None";
    let count = items(spec, "ports").count();
    if count == 0 && !headless && text(spec, "type") != "ExternalName" {
        found.push(Wrong::required("spec.ports", ""));
    }
    for (at, port) in items(spec, "ports").enumerate() {
        let path = format!("spec.ports[{at}]");
        match text(port, "name") {
            "" if count > 1 => found.push(Wrong::required(format!("{path}.name"), "")),
            "" => {}
            name => invalid_each(found, &format!("{path}.name"), name, names::dns_label(name)),
        }
        let number = port["port"].as_i64().unwrap_or_default();
        for words in names::port_number(number) {
            found.push(Wrong::invalid(format!("{path}.port"), &number.into(), &words));
        }
        one_of(found, &format!("{path}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
        super::containers::port_of(&port["targetPort"], &format!("{path}.targetPort"), found);
    }
    metadata::labels(&spec["selector"], "spec.selector", found);
    one_of(found, "spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    one_of(found, "spec.type", &spec["type"], &kinds);
}

fn quota(spec: &Value, found: &mut Vec<Wrong>) {
    for (name, amount) in spec["hard"].as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        invalid_each(found, &field, name, names::qualified(name));
        if quantity::parse(amount).is_some_and(|amount| amount.nanos() < 0) {
            found.push(Wrong::invalid(field, amount, "must be greater than or equal to 0"));
        }
    }
}

pub fn claim(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    if items(spec, "accessModes").next().is_none() {
        found.push(Wrong::required(format!("{path}.accessModes"), "at least 1 access mode is required"));
    }
    selector::check(&spec["selector"], &format!("{path}.selector"), found);
    for mode in items(spec, "accessModes") {
        one_of(found, &format!("{path}.accessModes"), mode, &modes);
    }
    match quantity::parse(&spec["resources"]["requests"]["storage"]) {
        None => found.push(Wrong::required(format!("{path}.resources[storage]"), "")),
        Some(amount) if amount.nanos() <= 0 => {
            let amount = &spec["resources"]["requests"]["storage"];
            found.push(Wrong::invalid(
                format!("{path}.resources[storage]"),
                amount,
                "must be greater than zero",
            ));
        }
        Some(_) => {}
    }
    one_of(found, &format!("{path}.volumeMode"), &spec["volumeMode"], &["Block", "Filesystem"]);
}

/// A bound claim may only grow. The API server's message ends with the difference of the two specs.
fn claim_immutable(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    let bound = old["status"]["phase"] == "Bound";
    let unnamed = text(&old["spec"], "volumeName").is_empty();
    let rest = |claim: &Value| {
        let mut spec = claim["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|field, _| match field.as_str() {
            "resources" | "volumeAttributesClassName" => !bound,
            // The controller that binds the claim sets this field.
            "volumeName" => !unnamed,
            _ => true,
        });
        spec
    };
    if rest(old) != rest(new) {
        let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                     bound claims";
        found.push(Wrong::forbidden("spec", words));
    }
}

fn budget(spec: &Value, found: &mut Vec<Wrong>) {
    let (least, most) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if let (Some(least), Some(most)) = (least, most) {
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{}}}",
            selector::shown(&spec["selector"]),
            spec["unhealthyPodEvictionPolicy"]
        );
        found.push(invalid_shown("spec", &shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        number_or_percentage(&spec[field], &format!("spec.{field}"), found);
        at_most_all(&spec[field], &format!("spec.{field}"), found);
    }
    selector::check(&spec["selector"], "spec.selector", found);
    if let Some(policy) = spec.get("unhealthyPodEvictionPolicy") {
        one_of(found, "spec.unhealthyPodEvictionPolicy", policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

fn lease(spec: &Value, found: &mut Vec<Wrong>) {
    let seconds = &spec["leaseDurationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
        found.push(Wrong::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    not_negative(found, spec, "leaseTransitions", "spec");
}

fn event(event: &Value, found: &mut Vec<Wrong>) {
    if event["eventTime"].is_null() {
        return;
    }
    let controller = text(event, "reportingController");
    if controller.is_empty() {
        found.push(Wrong::required("reportingController", ""));
    }
    invalid_each(found, "reportingController", controller, names::qualified(controller));
    let long = |field: &str, name: &str, limit: usize, found: &mut Vec<Wrong>| {
        if text(event, field).len() > limit {
            let words = format!("can have at most {limit} characters");
            found.push(Wrong::invalid(name, &json!(""), &words));
        }
    };
    for field in ["reportingInstance", "action", "reason"] {
        if text(event, field).is_empty() {
            found.push(Wrong::required(field, ""));
        }
        long(field, field, INSTANCE_LENGTH, found);
    }
    long("note", "message", NOTE_LENGTH, found);
}

fn new_event(event: &Value, found: &mut Vec<Wrong>) {
    series(event, found);
    if event["eventTime"].is_null() {
        found.push(Wrong::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        found.push(Wrong::invalid("type", &json!(""), &format!("has invalid value: {kind}")));
    }
}

fn series(event: &Value, found: &mut Vec<Wrong>) {
    if let Some(series) = event.get("series") {
        if series["count"].as_i64().unwrap_or_default() < 2 {
            found.push(Wrong::invalid("series.count", &json!(""), "should be at least 2"));
        }
        if series["lastObservedTime"].is_null() {
            found.push(Wrong::required("series.lastObservedTime", ""));
        }
    }
}

/// Only the series and the metadata of an event may change. The field names are those of the older event API.
fn event_immutable(old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    if old["series"] != new["series"] {
        series(new, found);
    }
    for (field, name) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        metadata::immutable(found, name, &old[field], &new[field]);
    }
}
