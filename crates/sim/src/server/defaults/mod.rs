//! Everything that the API server adds to an object before it stores it.
//!
//! Steps of a creation:
//!
//! 1. [`undecodable`] and, if requested, [`unknown_fields`] may reject the object.
//! 2. [`fill`] applies canonical form and defaults.
//! 3. [`admit`], for pods [`admit_pod`], for priority classes [`admit_class`]: the built-in admission plugins.
//! 4. The caller sets name (from `generateName`), uid and creation time.
//! 5. [`initial_status`]: the creation strategy of the kind. Then `rules::created`.
//!
//! Steps of an update: 1 and 2, for pods [`admit_pod_update`], [`carry_over`], then `rules::updated`.
//!
//! The caller is responsible for the rest: resourceVersion and conflicts; addresses and node ports of Services; checks
//! against other objects (quota, terminating namespaces).

mod admit;
mod batch;
mod core;
mod create;
mod custom;
mod decode;
mod pod;
pub mod quantity;
mod shape;
mod update;
mod workloads;

pub use admit::{PodAdmissionContext, admit, admit_class, admit_pod, admit_pod_update};
pub use create::initial_status;
pub use custom::fill_part as fill_custom_part;
pub use decode::{undecodable, unknown_fields};
pub use update::carry_over;

use crate::kinds::Kind;
use serde_json::{Map, Value};

/// Converts an object to the canonical form of the API server, and applies the defaults of its type. Idempotent.
pub fn fill(kind: Kind, object: &mut Value) {
    shape::canonical(kind, object);
    let spec = &mut object["spec"];
    match kind {
        Kind::Pod => pod::fill_pod(spec),
        Kind::Deployment => workloads::fill_deployment(spec),
        Kind::StatefulSet => workloads::fill_stateful_set(spec),
        Kind::DaemonSet => workloads::fill_daemon_set(spec),
        Kind::ReplicaSet => workloads::fill_replica_set(spec),
        Kind::Job => batch::fill_job(object),
        Kind::CronJob => batch::fill_cron_job(spec),
        Kind::PodSequence | Kind::Order | Kind::Ticket => {
            kind.custom().into_iter().for_each(|custom| custom::fill(custom, object));
        }
        Kind::Namespace => core::fill_namespace(object),
        Kind::Node => core::fill_node(object),
        Kind::Secret => core::fill_secret(object),
        Kind::Service => core::fill_service(object),
        Kind::PersistentVolumeClaim => core::fill_claim(object),
        Kind::PriorityClass => default(object, "preemptionPolicy", "PreemptLowerPriority"),
        Kind::CsiNode
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::ResourceQuota
        | Kind::PodDisruptionBudget
        | Kind::ControllerRevision
        | Kind::Lease
        | Kind::Event => {}
    }
    // Some kinds have no spec. The access above created an empty one.
    if let Some(fields) = object.as_object_mut()
        && fields.get("spec").is_some_and(Value::is_null)
    {
        fields.remove("spec");
    }
}

/// Sets a field that is absent or null. Does nothing if `object` is not an object.
fn default(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(field).is_none_or(Value::is_null)
    {
        fields.insert(field.to_owned(), value.into());
    }
}

/// A field with an object, which is created if absent.
fn inner<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    default(object, field, Map::new());
    &mut object[field]
}

/// The items of a list; empty if absent.
fn each<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
