//! Rules on containers: what runs, and what it is given.

use super::volumes::Volumes;
use super::{invalid_each, items, names, not_negative, one_of, text};
use crate::server::defaults::Quantity;
use crate::server::refusal::{Wrong, WrongKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const FIELDS_OF_A_POD: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub fn check_all(spec: &Value, path: &str, volumes: &Volumes<'_>, found: &mut Vec<Wrong>) {
    let field = format!("{path}.containers");
    if items(spec, "containers").next().is_none() {
        found.push(Wrong::required(field, ""));
    } else {
        let mut seen = BTreeSet::new();
        for (at, container) in items(spec, "containers").enumerate() {
            let path = format!("{field}[{at}]");
            common(container, &path, volumes, found);
            unique_name(container, &path, &mut seen, found);
            probes(container, &path, found);
        }
        host_ports(items(spec, "containers"), &field, found);
    }
    init_containers(spec, path, volumes, found);
}

fn init_containers(spec: &Value, path: &str, volumes: &Volumes<'_>, found: &mut Vec<Wrong>) {
    let mut seen: BTreeSet<&str> =
        items(spec, "containers").map(|container| text(container, "name")).collect();
    for (at, container) in items(spec, "initContainers").enumerate() {
        let path = format!("{path}.initContainers[{at}]");
        common(container, &path, volumes, found);
        unique_name(container, &path, &mut seen, found);
        if text(container, "restartPolicy") == "Always" {
            probes(container, &path, found);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.get(field).is_some() {
                let words = "may not be set for init containers without restartPolicy=Always";
                found.push(Wrong::forbidden(format!("{path}.{field}"), words));
            }
        }
    }
}

fn unique_name<'a>(container: &'a Value, path: &str, seen: &mut BTreeSet<&'a str>, found: &mut Vec<Wrong>) {
    let name = text(container, "name");
    if !seen.insert(name) {
        found.push(Wrong::duplicate(format!("{path}.name"), &name.into()));
    }
}

fn common(container: &Value, path: &str, volumes: &Volumes<'_>, found: &mut Vec<Wrong>) {
    match text(container, "name") {
        "" => found.push(Wrong::required(format!("{path}.name"), "")),
        name => invalid_each(found, &format!("{path}.name"), name, names::dns_label(name)),
    }
    if text(container, "image").is_empty() {
        found.push(Wrong::required(format!("{path}.image"), ""));
    }
    let policy = format!("{path}.terminationMessagePolicy");
    one_of(found, &policy, &container["terminationMessagePolicy"], &["File", "FallbackToLogsOnError"]);
    ports(container, path, found);
    variables(container, path, found);
    mounts(container, path, volumes, found);
    let policy = format!("{path}.imagePullPolicy");
    one_of(found, &policy, &container["imagePullPolicy"], &["Always", "IfNotPresent", "Never"]);
    resources(&container["resources"], &format!("{path}.resources"), found);
}

/// Only for pods; a template with such an image is stored.
pub fn no_blanks_around_images(spec: &Value, found: &mut Vec<Wrong>) {
    for list in ["containers", "initContainers"] {
        for (at, container) in items(spec, list).enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let words = "must not have leading or trailing whitespace";
                found.push(Wrong::invalid(format!("spec.{list}[{at}].image"), &image.into(), words));
            }
        }
    }
}

fn ports(container: &Value, path: &str, found: &mut Vec<Wrong>) {
    let mut seen = BTreeSet::new();
    for (at, port) in items(container, "ports").enumerate() {
        let path = format!("{path}.ports[{at}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if !messages.is_empty() {
                invalid_each(found, &format!("{path}.name"), name, messages);
            } else if !seen.insert(name) {
                found.push(Wrong::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        match port["containerPort"].as_i64().unwrap_or_default() {
            0 => found.push(Wrong::required(format!("{path}.containerPort"), "")),
            number => port_number(number, &format!("{path}.containerPort"), found),
        }
        if let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) {
            port_number(number, &format!("{path}.hostPort"), found);
        }
        one_of(found, &format!("{path}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

fn port_number(number: i64, field: &str, found: &mut Vec<Wrong>) {
    found.extend(names::port_number(number).iter().map(|words| Wrong::invalid(field, &number.into(), words)));
}

fn host_ports<'a>(containers: impl Iterator<Item = &'a Value>, field: &str, found: &mut Vec<Wrong>) {
    let mut seen = BTreeSet::new();
    for (of, container) in containers.enumerate() {
        for (at, port) in items(container, "ports").enumerate() {
            let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else { continue };
            let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if !seen.insert(place.clone()) {
                let field = format!("{field}[{of}].ports[{at}].hostPort");
                found.push(Wrong::duplicate(field, &place.into()));
            }
        }
    }
}

fn variables(container: &Value, path: &str, found: &mut Vec<Wrong>) {
    for (at, variable) in items(container, "env").enumerate() {
        let path = format!("{path}.env[{at}]");
        match text(variable, "name") {
            "" => found.push(Wrong::required(format!("{path}.name"), "")),
            name => invalid_each(found, &format!("{path}.name"), name, names::variable(name)),
        }
        if let Some(source) = variable.get("valueFrom") {
            let field = format!("{path}.valueFrom");
            let given = source_of_variable(source, &field, found);
            let words = match given {
                0 => {
                    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                     `fileKeyRef`"
                }
                _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
                1 => continue,
                _ => "may not have more than one field specified at a time",
            };
            found.push(Wrong::invalid(field, &json!(""), words));
        }
    }
}

fn source_of_variable(source: &Value, path: &str, found: &mut Vec<Wrong>) -> usize {
    if let Some(field) = source.get("fieldRef") {
        field_of_pod(field, &format!("{path}.fieldRef"), found);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let Some(reference) = source.get(kind) else { continue };
        let name = text(reference, "name");
        invalid_each(found, &format!("{path}.{kind}.name"), name, names::dns_subdomain(name));
        match text(reference, "key") {
            "" => found.push(Wrong::required(format!("{path}.{kind}.key"), "")),
            key => invalid_each(found, &format!("{path}.{kind}.key"), key, names::data_key(key)),
        }
    }
    source.as_object().map_or(0, serde_json::Map::len)
}

fn field_of_pod(reference: &Value, path: &str, found: &mut Vec<Wrong>) {
    let field = text(reference, "fieldPath");
    if field.is_empty() {
        found.push(Wrong::required(format!("{path}.fieldPath"), ""));
        return;
    }
    match field.split_once("['").and_then(|(list, rest)| Some((list, rest.strip_suffix("']")?))) {
        Some(("metadata.labels", key)) => invalid_each(found, path, key, names::qualified(key)),
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            invalid_each(found, path, &key, names::qualified(&key));
        }
        Some(_) | None if FIELDS_OF_A_POD.contains(&field) => {}
        Some(_) | None => {
            let words = format!("error converting fieldPath: field label not supported: {field}");
            found.push(Wrong::invalid(format!("{path}.fieldPath"), &field.into(), &words));
        }
    }
}

fn mounts(container: &Value, path: &str, volumes: &Volumes<'_>, found: &mut Vec<Wrong>) {
    let mut seen = BTreeSet::new();
    for (at, mount) in items(container, "volumeMounts").enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            found.push(Wrong::required(format!("{path}.name"), ""));
        }
        if !volumes.contains(name) {
            let detail = Value::from(name).to_string();
            found.push(Wrong { field: format!("{path}.name"), kind: WrongKind::NotFound, detail });
        }
        if place.is_empty() {
            found.push(Wrong::required(format!("{path}.mountPath"), ""));
        }
        if !seen.insert(place) {
            found.push(Wrong::invalid(format!("{path}.mountPath"), &place.into(), "must be unique"));
        }
    }
}

fn resources(resources: &Value, path: &str, found: &mut Vec<Wrong>) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources[list].as_object().into_iter().flatten() {
            resource(name, amount, &format!("{path}.{list}[{name}]"), found);
            let limit = &resources["limits"][name];
            if list == "requests" && !limit.is_null() {
                let nanos = |value: &Value| Quantity::of(value).map_or(0, Quantity::nanos);
                if nanos(amount) > nanos(limit) {
                    let limit = limit.as_str().unwrap_or_default();
                    let words = format!("must be less than or equal to {name} limit of {limit}");
                    found.push(Wrong::invalid(format!("{path}.{list}"), amount, &words));
                }
            }
        }
    }
}

fn resource(name: &str, amount: &Value, field: &str, found: &mut Vec<Wrong>) {
    invalid_each(found, field, name, names::qualified(name));
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !known {
        for words in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            found.push(Wrong::invalid(field, &name.into(), words));
        }
    }
    if Quantity::of(amount).is_some_and(|amount| amount.nanos() < 0) {
        found.push(Wrong::invalid(field, amount, "must be greater than or equal to 0"));
    }
}

fn probes(container: &Value, path: &str, found: &mut Vec<Wrong>) {
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container["lifecycle"].get(hook) {
            handler_of(handler, &format!("{path}.lifecycle.{hook}"), found);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name) else { continue };
        let path = format!("{path}.{name}");
        handler_of(probe, &path, found);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            not_negative(found, probe, field, &path);
        }
        if name != "readinessProbe" && probe["successThreshold"] != 1 {
            found.push(Wrong::invalid(
                format!("{path}.successThreshold"),
                &probe["successThreshold"],
                "must be 1",
            ));
        }
    }
}

/// Exactly one way to ask, and it must be complete.
fn handler_of(handler: &Value, path: &str, found: &mut Vec<Wrong>) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut first = true;
    for kind in kinds {
        let Some(action) = handler.get(kind) else { continue };
        let path = format!("{path}.{kind}");
        if !std::mem::take(&mut first) {
            found.push(Wrong::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        match kind {
            "exec" if items(action, "command").next().is_none() => {
                found.push(Wrong::required(format!("{path}.command"), ""));
            }
            "httpGet" | "tcpSocket" | "grpc" => port_of(&action["port"], &format!("{path}.port"), found),
            _ => {}
        }
    }
    if first {
        found.push(Wrong::required(path, "must specify a handler type"));
    }
}

pub fn port_of(port: &Value, field: &str, found: &mut Vec<Wrong>) {
    match port {
        Value::String(name) => invalid_each(found, field, name, names::port_name(name)),
        port => port_number(port.as_i64().unwrap_or_default(), field, found),
    }
}
