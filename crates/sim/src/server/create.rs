//! Creation: names, defaults, admission and validation.

use super::refusal::Refusal;
use super::{defaults, prepare, quota, rules};
use crate::cluster::Cluster;
use crate::kinds::{Info, Kind};
use crate::store::{Key, Stored};
use serde_json::{Value, json};
use std::sync::Arc;

/// Number of attempts to generate a free name.
const NAME_ATTEMPTS: usize = 8;
/// Maximum length of the prefix of a generated name, so that the name with its suffix fits a DNS label.
const LONGEST_START: usize = 58;

/// Metadata fields that only the server sets.
const OURS: [&str; 8] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
    "generation",
    "managedFields",
];

pub fn create(
    cluster: &mut Cluster,
    kind: Kind,
    namespace: &str,
    mut object: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, Refusal> {
    check_envelope(kind, namespace, &object)?;
    if !text(&object["metadata"]["resourceVersion"]).is_empty() {
        return Err(Refusal::internal("resourceVersion should not be set on objects to be created"));
    }
    if kind.info().namespaced {
        object["metadata"]["namespace"] = namespace.into();
        check_namespace(cluster, kind, &object, namespace)?;
    }
    let start = object["metadata"]["generateName"].as_str().map(str::to_owned);
    let generated = text(&object["metadata"]["name"]).is_empty() && start.is_some();
    stamp(cluster, kind, &mut object);
    for _ in 0..NAME_ATTEMPTS {
        if let (true, Some(start)) = (generated, &start) {
            let start: String = start.chars().take(LONGEST_START).collect();
            object["metadata"]["name"] = format!("{start}{}", cluster.chance.suffix()).into();
        }
        if !(generated && cluster.store.get(&Key::from_object(kind, &object)).is_some()) {
            break;
        }
    }
    prepare::created(cluster, kind, &mut object, generated)?;
    let name = text(&object["metadata"]["name"]).to_owned();
    let wrong = rules::created(kind, &object);
    if !wrong.is_empty() {
        return Err(Refusal::invalid(kind, &name, &wrong));
    }
    let key = Key::from_object(kind, &object);
    if cluster.store.get(&key).is_some() {
        return Err(Refusal::already_exists(kind, &name));
    }
    if dry_run {
        return Ok(Arc::new(Stored::draft(object)));
    }
    if kind == Kind::Pod {
        quota::charge(cluster, &object);
    }
    let at = cluster.now();
    let stored = cluster.store.put(key, object, at);
    prepare::settled(cluster, kind, &stored);
    Ok(stored)
}

/// Commits an object of the cluster itself, without validation as for users.
pub(crate) fn commit_as_is(cluster: &mut Cluster, kind: Kind, mut object: Value) -> Arc<Stored> {
    stamp(cluster, kind, &mut object);
    defaults::fill(kind, &mut object);
    let at = cluster.now();
    cluster.store.put(Key::from_object(kind, &object), object, at)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks that kind and namespace of the object match the request's path.
pub(super) fn check_envelope(kind: Kind, namespace: &str, object: &Value) -> Result<(), Refusal> {
    let info = kind.info();
    let (said_version, said_kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let expected = info.api_version();
    let differs = |said: &str, is: &str| !said.is_empty() && said != is;
    if differs(said_version, &expected) || differs(said_kind, info.name) {
        return Err(Refusal::bad_request(another_kind(info, said_version, said_kind)));
    }
    let said = text(&object["metadata"]["namespace"]);
    if info.namespaced && !said.is_empty() && said != namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Refusal::bad_request(message));
    }
    Ok(())
}

/// The message for an object of another or an unknown kind.
fn another_kind(info: &Info, said_version: &str, said_kind: &str) -> String {
    let api_version = if said_version.is_empty() { info.api_version() } else { said_version.to_owned() };
    let kind = if said_kind.is_empty() { info.name } else { said_kind };
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let head = format!("{kind} in version {version:?} cannot be handled as a {}", info.name);
    let internal = if info.group.is_empty() { "core" } else { info.group };
    match Kind::named(&api_version, kind) {
        Some(_) => {
            format!("{head}: converting ({version}.{kind}) to ({internal}.{}): unknown conversion", info.name)
        }
        None => format!(
            "{head}: no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ),
    }
}

fn check_namespace(cluster: &Cluster, kind: Kind, object: &Value, namespace: &str) -> Result<(), Refusal> {
    let Some(there) = cluster.store.find(Kind::Namespace, "", namespace) else {
        return Err(Refusal::not_found(Kind::Namespace, namespace));
    };
    if there.is_terminating() {
        let name = match text(&object["metadata"]["name"]) {
            "" => text(&object["metadata"]["generateName"]),
            name => name,
        };
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut refusal = Refusal::forbidden(kind, name, &why);
        refusal.details["causes"] = json!([{
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        return Err(refusal);
    }
    Ok(())
}

/// Sets the server's metadata fields, such as uid and creation time.
fn stamp(cluster: &mut Cluster, kind: Kind, object: &mut Value) {
    let info = kind.info();
    object["apiVersion"] = info.api_version().into();
    object["kind"] = info.name.into();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        OURS.iter().for_each(|field| drop(metadata.remove(*field)));
    }
    object["metadata"]["uid"] = cluster.chance.uid().into();
    object["metadata"]["creationTimestamp"] = cluster.stamp().into();
    if info.generation {
        object["metadata"]["generation"] = 1.into();
    }
}
