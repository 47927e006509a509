//! Parses deletion requests and builds their answers.

use super::delete::{self, DeleteOptions, Deleted, Propagation};
use super::incoming::parse;
use super::refusal::{Refusal, Wrong};
use super::route::{Query, Route};
use super::{options, read};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::store::{Key, Stored};
use bytes::Bytes;
use serde_json::{Value, json};

pub fn delete_options(query: &Query, body: &[u8], dry_run: bool) -> Result<DeleteOptions, Refusal> {
    let body = if body.is_empty() { Value::Null } else { parse(body)? };
    delete_options_in(&body, query, dry_run)
}

/// Options from the request body, completed by the query.
pub fn delete_options_in(said: &Value, query: &Query, dry_run: bool) -> Result<DeleteOptions, Refusal> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let propagation = match (said["propagationPolicy"].as_str(), query.get("propagationPolicy")) {
        (Some(policy), _) => policy,
        (None, policy) => policy,
    };
    let propagation = match propagation {
        "" => None,
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        other => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let wrong = Wrong::not_supported("propagationPolicy", &other.into(), &supported);
            return Err(options::refusal("DeleteOptions", &[wrong]));
        }
    };
    Ok(DeleteOptions {
        grace: said["gracePeriodSeconds"].as_i64().or(query.get("gracePeriodSeconds").parse().ok()),
        uid: text(&said["preconditions"]["uid"]),
        version: text(&said["preconditions"]["resourceVersion"]),
        propagation,
        dry_run: dry_run || said["dryRun"].as_array().is_some_and(|list| !list.is_empty()),
    })
}

pub fn delete_object(cluster: &mut Cluster, key: &Key, options: &DeleteOptions) -> Result<Bytes, Refusal> {
    let mut options = options.clone();
    // Jobs orphan their dependents by default, for historical reasons.
    if key.kind == Kind::Job && options.propagation.is_none() {
        options.propagation = Some(Propagation::Orphan);
    }
    Ok(match delete::delete(cluster, key, &options)? {
        Deleted::Terminating(object) => object.json().clone(),
        Deleted::Gone(object) => done(key, &object),
    })
}

/// Deletes all objects that a list would contain, and returns the list.
pub fn many(
    cluster: &mut Cluster,
    route: &Route,
    query: &Query,
    options: &DeleteOptions,
) -> Result<Bytes, Refusal> {
    let keys = read::keys(cluster, route, query)?;
    let shown = read::list(cluster, route, query)?;
    for key in keys {
        match delete::delete(cluster, &key, options) {
            Err(refusal) if refusal.code != 404 => return Err(refusal),
            _ => {}
        }
    }
    Ok(shown)
}

/// The answer to a completed deletion.
fn done(key: &Key, object: &Stored) -> Bytes {
    // For these kinds the server returns the last state.
    if matches!(
        key.kind,
        Kind::Pod
            | Kind::PersistentVolumeClaim
            | Kind::ServiceAccount
            | Kind::ResourceQuota
            | Kind::Service
            | Kind::CsiNode
    ) {
        return object.json().clone();
    }
    let info = key.kind.info();
    let mut details = json!({ "name": &*key.name, "kind": info.plural, "uid": object.uid() });
    if !info.group.is_empty() {
        details["group"] = info.group.into();
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    status.to_string().into()
}
