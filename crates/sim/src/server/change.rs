//! Updates: permitted changes, generation counts, and updates without effect.

use super::patch::drop_nulls;
use super::refusal::{Refusal, Wrong};
use super::{defaults, prepare, rules};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Author, Key, Stored};
use serde_json::Value;
use std::sync::Arc;

/// The part of an object that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything except the status, if the kind has a separate status.
    Main,
    /// Only the status.
    Status,
}

impl Part {
    /// The subresource name that the rules use.
    fn subresource(self) -> &'static str {
        match self {
            Part::Main => "",
            Part::Status => "status",
        }
    }
}

/// Updates an existing object. `change` modifies a copy and may reject the update.
pub fn update(
    cluster: &mut Cluster,
    key: &Key,
    part: Part,
    dry_run: bool,
    change: impl FnOnce(&mut Value) -> Result<(), Refusal>,
) -> Result<Arc<Stored>, Refusal> {
    let kind = key.kind;
    let Some(old) = cluster.store.get(key).cloned() else {
        return Err(Refusal::not_found(kind, &key.name));
    };
    let mut new = old.value.clone();
    change(&mut new)?;
    drop_nulls(&mut new);
    check_preconditions(key, &old, &new)?;
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    // The cluster's own actors write valid statuses, and very many of them, so these writes are not checked.
    // The same applies to revisions: an actor renumbers them and leaves their data unchanged byte for byte.
    let written_often = part == Part::Status || kind == Kind::ControllerRevision;
    let trusted = written_often && cluster.store.author == Author::Cluster;
    if !trusted {
        // A status write of a custom resource only changes the status; the rest is carried over below.
        match (kind.custom(), part) {
            (Some(custom), Part::Status) => defaults::fill_custom_part(custom, &mut new, "status"),
            _ => defaults::fill(kind, &mut new),
        }
        if kind == Kind::Pod && part == Part::Main {
            defaults::admit_pod_update(&old, &mut new);
        }
        if kind == Kind::PriorityClass {
            prepare::admit_class(cluster, &new)?;
        }
    }
    if trusted && kind == Kind::Pod {
        // The API server writes conditions of pods with an explicit null.
        let conditions = new["status"]["conditions"].as_array_mut().into_iter().flatten();
        for condition in conditions.filter_map(Value::as_object_mut) {
            condition.insert("lastProbeTime".into(), Value::Null);
        }
    }
    defaults::carry_over(kind, &old, &mut new, part.subresource());
    if new == old.value {
        return Ok(old);
    }
    let wrong = if trusted { Vec::new() } else { rules::updated(kind, &old, &new, part.subresource()) };
    if !wrong.is_empty() {
        return Err(Refusal::invalid(kind, &key.name, &wrong));
    }
    if dry_run {
        return Ok(Arc::new(Stored::draft(new)));
    }
    let at = cluster.now();
    // An object that loses its last finalizer is removed immediately. Watches see its previous state.
    if is_finished(&new) {
        cluster.store.remove(key, at);
        return Ok(Arc::new(Stored::draft(new)));
    }
    Ok(cluster.store.put(key.clone(), new, at))
}

/// Replaces an object, as PUT does.
pub fn replace(key: &Key, is: &mut Value, object: Value) -> Result<(), Refusal> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if name != &*key.name {
        return Err(Refusal::other_name(name, &key.name));
    }
    check_sent(key, is, &object)?;
    let namespace = is["metadata"]["namespace"].clone();
    *is = object;
    if !namespace.is_null() {
        is["metadata"]["namespace"] = namespace;
    }
    let info = key.kind.info();
    is["apiVersion"] = info.api_version().into();
    is["kind"] = info.name.into();
    Ok(())
}

/// Checks of PUT only: some kinds require a version, and a given uid must match.
fn check_sent(key: &Key, old: &Value, new: &Value) -> Result<(), Refusal> {
    let text =
        |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let info = key.kind.info();
    let conditional =
        matches!(key.kind, Kind::Lease | Kind::PodDisruptionBudget) || key.kind.custom().is_some();
    if conditional && text(new, "resourceVersion").is_empty() {
        let words = "must be specified for an update";
        let wrong = Wrong::invalid("metadata.resourceVersion", &0.into(), words);
        return Err(Refusal::invalid_as(info.plural, info.group, &key.name, &[wrong]));
    }
    let (sent, uid) = (text(new, "uid"), text(old, "uid"));
    if !sent.is_empty() && sent != uid {
        let place = format!("/registry/{}/{}/{}", info.plural, key.namespace, key.name);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {sent}, UID in object meta: {uid}"
        );
        return Err(Refusal::conflict(key.kind, &key.name, &why));
    }
    Ok(())
}

/// Checks a given version. The rules check the uid.
fn check_preconditions(key: &Key, old: &Stored, new: &Value) -> Result<(), Refusal> {
    let version = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != old.version.to_string() {
        return Err(Refusal::modified(key.kind, &key.name));
    }
    Ok(())
}

/// Whether the object was only waiting for the removal of its last finalizer.
pub(super) fn is_finished(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    let content = object["spec"]["finalizers"].as_array().map_or(0, Vec::len);
    object["metadata"]["deletionTimestamp"].is_string() && finalizers == 0 && grace == 0 && content == 0
}
