//! Common parts of the workload controllers.
//!
//! - [`pods`]: the state of a pod. [`placement`]: whether a pod may run on a node. [`family`]: ownership of pods.
//! - [`template`]: creates pods from templates. [`revisions`]: the history of a template. [`conditions`], [`numbers`]:
//!   small helpers.

pub mod conditions;
pub mod family;
pub mod numbers;
pub mod placement;
pub mod pods;
pub mod revisions;
pub mod template;

use crate::cluster::Cluster;
use crate::store::{Key, Stored};
use jiff::Timestamp;
use serde_json::Value;

/// The owner reference of the controller.
pub fn controller_of(object: &Value) -> Option<&Value> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    references.iter().find(|reference| reference["controller"] == true)
}

pub fn is_controlled_by(object: &Value, uid: &str) -> bool {
    controller_of(object).is_some_and(|reference| reference["uid"] == uid)
}

/// A text in an object; empty if missing.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number in an object; 0 if missing.
pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A timestamp in an object.
pub fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub fn born(object: &Value) -> Option<Timestamp> {
    moment(&object["metadata"]["creationTimestamp"])
}

/// Deletes an object, unless it was replaced by another one with the same name.
pub fn delete_this(cluster: &mut Cluster, key: &Key, object: &Stored) -> bool {
    use crate::server::delete::{DeleteOptions, delete};
    let options = DeleteOptions { uid: Some(object.uid().to_owned()), ..DeleteOptions::default() };
    delete(cluster, key, &options).is_ok()
}

/// Replaces the status. An unchanged status is not written.
pub fn write_status(cluster: &mut Cluster, key: &Key, status: Value) {
    // The object may already be deleted.
    let _ = cluster.update_status(key, |object| object["status"] = status);
}
