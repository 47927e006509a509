//! What the controllers of workloads have in common.
//!
//! - [`pods`]: what a controller reads off a pod. [`placement`]: where a pod may be. [`family`]: which pods belong to which owner.
//! - [`template`]: pods out of templates. [`revisions`]: the states of a template, kept. [`conditions`], [`numbers`]: small things.

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

/// The reference to the owner that controls an object.
pub fn controller_of(object: &Value) -> Option<&Value> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    references.iter().find(|reference| reference["controller"] == true)
}

pub fn is_controlled_by(object: &Value, uid: &str) -> bool {
    controller_of(object).is_some_and(|reference| reference["uid"] == uid)
}

/// A text in an object; empty if it is not there.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number in an object; 0 if it is not there.
pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A time in an object.
pub fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub fn born(object: &Value) -> Option<Timestamp> {
    moment(&object["metadata"]["creationTimestamp"])
}

/// Deletes an object if it is still the one that was looked at.
pub fn delete_this(cluster: &mut Cluster, key: &Key, object: &Stored) -> bool {
    use crate::server::delete::{DeleteOptions, delete};
    let options = DeleteOptions { uid: Some(object.uid().to_owned()), ..DeleteOptions::default() };
    delete(cluster, key, &options).is_ok()
}

/// Writes a status whole, in place of the one that is there. Nothing is written if nothing changes.
pub fn write_status(cluster: &mut Cluster, key: &Key, status: Value) {
    // An object that is gone needs no status.
    let _ = cluster.update_status(key, |object| object["status"] = status);
}
