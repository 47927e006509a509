//! The API server's validation, in its own wording.
//!
//! [`created`] validates a new object after [`super::defaults`]. [`updated`] validates an update after
//! [`super::defaults::carry_over`]. Rules for rarely used features (Windows, AppArmor, device claims, exotic volumes) are
//! missing; such objects are accepted.
//!
//! Where the API server prints a whole object of its own types, or a difference of two objects, the message contains
//! [`ELIDED`] instead. No client reads these values, and printing them would require all fields of those types.

mod batch;
mod container_fields;
mod containers;
mod cron;
mod custom;
mod metadata;
mod names;
mod others;
mod pod;
mod pod_update;
mod scheduling;
mod selector;
mod status;
mod volumes;
mod workloads;

use super::refusal::{Wrong, WrongKind};
use crate::kinds::Kind;
use names::Messages;
pub use names::label_value;
use serde_json::Value;
use std::collections::BTreeSet;

/// A placeholder for a value that the API server prints in full.
pub const ELIDED: &str = "{…}";

/// The errors of a new object.
pub fn created(kind: Kind, object: &Value) -> Vec<Wrong> {
    let mut found = Vec::new();
    metadata::created(kind, object, &mut found);
    match kind {
        Kind::Pod => pod::created(object, &mut found),
        Kind::Deployment => workloads::deployment(&object["spec"], &mut found),
        Kind::ReplicaSet => workloads::replica_set(&object["spec"], &mut found),
        Kind::StatefulSet => workloads::stateful_set(&object["spec"], &mut found),
        Kind::DaemonSet => workloads::daemon_set(&object["spec"], &mut found),
        Kind::Job => batch::job(object, &mut found),
        Kind::CronJob => batch::cron_job_created(object, &mut found),
        _ => match kind.custom() {
            Some(custom) => custom::check(custom, None, object, &mut found),
            None => others::created(kind, object, &mut found),
        },
    }
    once_each(found)
}

/// The errors of an update; `subresource` is empty for the object itself.
pub fn updated(kind: Kind, old: &Value, new: &Value, subresource: &str) -> Vec<Wrong> {
    let mut found = Vec::new();
    metadata::updated(kind, old, new, &mut found);
    let (before, after) = (&old["spec"], &new["spec"]);
    if subresource == "status" {
        status::updated(kind, old, new, &mut found);
        return once_each(found);
    }
    // An unchanged spec is still valid. Most writes only change labels or annotations, and there are many pods.
    if !after.is_null() && before == after {
        return once_each(found);
    }
    match kind {
        Kind::Pod => pod_update::updated(old, new, &mut found),
        Kind::Deployment => {
            workloads::deployment(after, &mut found);
            workloads::selector_immutable(before, after, &mut found);
        }
        Kind::ReplicaSet => {
            workloads::replica_set(after, &mut found);
            workloads::selector_immutable(before, after, &mut found);
        }
        Kind::DaemonSet => {
            workloads::selector_immutable(before, after, &mut found);
            workloads::daemon_set(after, &mut found);
        }
        Kind::StatefulSet => {
            workloads::stateful_set(after, &mut found);
            workloads::stateful_set_updated(before, after, &mut found);
        }
        Kind::Job => batch::job_updated(old, new, &mut found),
        Kind::CronJob => batch::cron_job(after, &mut found),
        _ => match kind.custom() {
            Some(custom) => custom::check(custom, Some(old), new, &mut found),
            None => others::updated(kind, old, new, &mut found),
        },
    }
    once_each(found)
}

/// Removes duplicates. The API server's message has no duplicates either, but its `causes` may.
fn once_each(found: Vec<Wrong>) -> Vec<Wrong> {
    let mut said = BTreeSet::new();
    found.into_iter().filter(|wrong| said.insert(wrong.to_string())).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn items<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object[field].as_array().into_iter().flatten()
}

fn invalid_each(found: &mut Vec<Wrong>, field: &str, value: &str, messages: Messages) {
    found.extend(messages.iter().map(|message| Wrong::invalid(field, &value.into(), message)));
}

/// Reports a negative number. The field may be absent.
fn not_negative(found: &mut Vec<Wrong>, object: &Value, field: &str, path: &str) {
    if object[field].as_i64().is_some_and(|number| number < 0) {
        let words = "must be greater than or equal to 0";
        found.push(Wrong::invalid(format!("{path}.{field}"), &object[field], words));
    }
}

/// Reports a string other than the allowed ones. `allowed` has the order of the API server's message.
fn one_of(found: &mut Vec<Wrong>, field: &str, value: &Value, allowed: &[&str]) {
    if !value.as_str().is_some_and(|text| allowed.contains(&text)) {
        found.push(Wrong::not_supported(field, value, allowed));
    }
}

/// An invalid value, already formatted as the API server prints it.
fn invalid_shown(field: &str, shown: &str, words: &str) -> Wrong {
    Wrong { field: field.to_owned(), kind: WrongKind::Invalid, detail: format!("{shown}: {words}") }
}

/// An object with its fields in a given order. Without this they are sorted by name.
fn in_order(object: &Value, order: &[&str]) -> String {
    let field = |name: &&str| object.get(*name).map(|value| format!("\"{name}\":{value}"));
    let fields: Vec<String> = order.iter().filter_map(field).collect();
    format!("{{{}}}", fields.join(","))
}
