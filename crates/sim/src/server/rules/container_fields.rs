//! Validation of container fields: environment variables, mounts, resources.

use super::volumes::VolumeNames;
use super::{invalid_each, items, names, one_of, text};
use crate::server::defaults::quantity;
use crate::server::refusal::{Wrong, WrongKind};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::BTreeSet;

const FIELDS_FOR_VARIABLES: [&str; 9] = [
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

/// Pod fields that the API server knows but rejects as sources of environment variables.
const FIELDS_NOT_FOR_VARIABLES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

pub fn variables(container: &Value, path: &str, found: &mut Vec<Wrong>) {
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
    for (at, source) in items(container, "envFrom").enumerate() {
        let all = format!("{path}.envFrom");
        let prefix = text(source, "prefix");
        invalid_each(found, &format!("{all}[{at}].prefix"), prefix, names::variable(prefix));
        let given = ["configMapRef", "secretRef"].iter().filter_map(|kind| Some((kind, source.get(*kind)?)));
        let mut count = 0;
        for (kind, reference) in given {
            count += 1;
            let field = format!("{all}[{at}].{kind}.name");
            match text(reference, "name") {
                "" => found.push(Wrong::required(field, "")),
                name => invalid_each(found, &field, name, names::dns_subdomain(name)),
            }
        }
        match count {
            0 => {
                let words = "must specify one of: `configMapRef` or `secretRef`";
                found.push(Wrong::invalid(all, &json!(""), words));
            }
            1 => {}
            _ => {
                let words = "may not have more than one field specified at a time";
                found.push(Wrong::invalid(all, &json!(""), words));
            }
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
        Some(_) => {
            let words =
                format!("error converting fieldPath: field label does not support subscript: {field}");
            found.push(Wrong::invalid(format!("{path}.fieldPath"), &field.into(), &words));
        }
        None if FIELDS_FOR_VARIABLES.contains(&field) => {}
        None if FIELDS_NOT_FOR_VARIABLES.contains(&field) => {
            found.push(Wrong::not_supported(
                format!("{path}.fieldPath"),
                &field.into(),
                &FIELDS_FOR_VARIABLES,
            ));
        }
        None => {
            let words = format!("error converting fieldPath: field label not supported: {field}");
            found.push(Wrong::invalid(format!("{path}.fieldPath"), &field.into(), &words));
        }
    }
}

pub fn mounts(container: &Value, path: &str, volumes: &VolumeNames<'_>, found: &mut Vec<Wrong>) {
    let mut seen = BTreeSet::new();
    for (at, mount) in items(container, "volumeMounts").enumerate() {
        let all = format!("{path}.volumeMounts");
        let path = format!("{all}[{at}]");
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
        // In this message, the API server omits the index of the mount.
        for kind in ["subPath", "subPathExpr"] {
            relative_path(text(mount, kind), &format!("{all}.{kind}"), found);
        }
        if let Some(propagation) = mount.get("mountPropagation") {
            let allowed = ["Bidirectional", "HostToContainer", "None"];
            one_of(found, &format!("{all}.mountPropagation"), propagation, &allowed);
        }
    }
}

/// Checks that a path is relative and stays below its base directory.
pub fn relative_path(path: &str, field: &str, found: &mut Vec<Wrong>) {
    if path.starts_with('/') {
        found.push(Wrong::invalid(field, &path.into(), "must be a relative path"));
    }
    if path.split('/').any(|part| part == "..") {
        found.push(Wrong::invalid(field, &path.into(), "must not contain '..'"));
    }
}

pub fn resources(resources: &Value, path: &str, found: &mut Vec<Wrong>) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources[list].as_object().into_iter().flatten() {
            resource(name, amount, &format!("{path}.{list}[{name}]"), found);
            if list == "requests" {
                within_limit(name, amount, resources["limits"].get(name), path, found);
            }
        }
    }
}

/// Whether the request may be lower than the limit. Devices and huge pages cannot be overcommitted.
fn can_be_shared(name: &str) -> bool {
    let own = !name.contains('/') || name.contains("kubernetes.io/");
    own && !name.starts_with("hugepages-")
}

fn within_limit(name: &str, amount: &Value, limit: Option<&Value>, path: &str, found: &mut Vec<Wrong>) {
    let Some(limit) = limit else {
        if !can_be_shared(name) {
            let words = "Limit must be set for non overcommitable resources";
            found.push(Wrong::required(format!("{path}.limits"), words));
        }
        return;
    };
    let nanos = |value: &Value| quantity::parse(value).map_or(0, |quantity| quantity.nanos());
    let relation = match nanos(amount).cmp(&nanos(limit)) {
        Ordering::Equal => return,
        _ if !can_be_shared(name) => "equal to",
        Ordering::Greater => "less than or equal to",
        Ordering::Less => return,
    };
    let words = format!("must be {relation} {name} limit of {}", limit.as_str().unwrap_or_default());
    found.push(Wrong::invalid(format!("{path}.requests"), amount, &words));
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
    let Some(quantity) = quantity::parse(amount) else { return };
    if quantity.nanos() < 0 {
        found.push(Wrong::invalid(field, amount, "must be greater than or equal to 0"));
    }
    if !can_be_shared(name) && !quantity.is_whole() {
        found.push(Wrong::invalid(field, amount, "must be an integer"));
    }
}
