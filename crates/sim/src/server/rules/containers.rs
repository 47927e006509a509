//! Validation of containers.

use super::volumes::VolumeNames;
use super::{container_fields, invalid_each, items, names, not_negative, one_of, text};
use crate::server::refusal::Wrong;
use serde_json::Value;
use std::collections::BTreeSet;

pub fn check_all(spec: &Value, path: &str, volumes: &VolumeNames<'_>, found: &mut Vec<Wrong>) {
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
            restart_policy(container, &path, found);
        }
        host_ports(items(spec, "containers"), &field, found);
    }
    init_containers(spec, path, volumes, found);
}

fn init_containers(spec: &Value, path: &str, volumes: &VolumeNames<'_>, found: &mut Vec<Wrong>) {
    let mut seen: BTreeSet<&str> =
        items(spec, "containers").map(|container| text(container, "name")).collect();
    for (at, container) in items(spec, "initContainers").enumerate() {
        let path = format!("{path}.initContainers[{at}]");
        common(container, &path, volumes, found);
        restart_policy(container, &path, found);
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

fn common(container: &Value, path: &str, volumes: &VolumeNames<'_>, found: &mut Vec<Wrong>) {
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
    container_fields::variables(container, path, found);
    container_fields::mounts(container, path, volumes, found);
    let policy = format!("{path}.imagePullPolicy");
    one_of(found, &policy, &container["imagePullPolicy"], &["Always", "IfNotPresent", "Never"]);
    container_fields::resources(&container["resources"], &format!("{path}.resources"), found);
    user(&container["securityContext"], &format!("{path}.securityContext"), found);
}

/// Checks the images of a pod. Templates with such images are accepted.
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

fn restart_policy(container: &Value, path: &str, found: &mut Vec<Wrong>) {
    if let Some(policy) = container.get("restartPolicy") {
        one_of(found, &format!("{path}.restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
    }
}

/// Checks user and group IDs of a container or a pod.
pub fn user(security: &Value, path: &str, found: &mut Vec<Wrong>) {
    for field in ["runAsUser", "runAsGroup"] {
        if let Some(number) = security[field].as_i64()
            && !(0..=i64::from(i32::MAX)).contains(&number)
        {
            let words = format!("must be between 0 and {}, inclusive", i32::MAX);
            found.push(Wrong::invalid(format!("{path}.{field}"), &number.into(), &words));
        }
    }
}

/// With `hostNetwork`, the host port of a container must equal its container port.
pub fn ports_on_host_network(spec: &Value, path: &str, found: &mut Vec<Wrong>) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (of, container) in items(spec, "containers").enumerate() {
        for (at, port) in items(container, "ports").enumerate() {
            if let Some(host) = port.get("hostPort").filter(|host| **host != port["containerPort"]) {
                let field = format!("{path}.containers[{of}].ports[{at}].hostPort");
                let words = "must match `containerPort` when `hostNetwork` is true";
                found.push(Wrong::invalid(field, host, words));
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
        if let Some(seconds) = probe.get("terminationGracePeriodSeconds").filter(|_| name == "readinessProbe")
        {
            let field = format!("{path}.terminationGracePeriodSeconds");
            found.push(Wrong::invalid(field, seconds, "must not be set for readinessProbes"));
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

/// A handler must have exactly one complete action.
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
            "httpGet" => {
                port_of(&action["port"], &format!("{path}.port"), found);
                one_of(found, &format!("{path}.scheme"), &action["scheme"], &["HTTP", "HTTPS"]);
            }
            "tcpSocket" | "grpc" => port_of(&action["port"], &format!("{path}.port"), found),
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
