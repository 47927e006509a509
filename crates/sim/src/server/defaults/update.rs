//! Fields that an update cannot change, and consequences of its changes.

use crate::kinds::Kind;
use serde_json::Value;

pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Copies the fields from the stored object that a write to this subresource (empty: the object itself) cannot change. Also
/// increments the generation.
pub fn carry_over(kind: Kind, old: &Value, new: &mut Value, subresource: &str) {
    let (before, after) = (&old["metadata"], &mut new["metadata"]);
    keep(before, after, "creationTimestamp");
    keep(before, after, "generation");
    // A deletion cannot be undone. The rules report an update that tries to set it.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if before.get(field).is_some() {
            keep(before, after, field);
        }
    }
    // The rules report another uid.
    if new["metadata"]["uid"].as_str().is_none_or(str::is_empty) {
        keep(&old["metadata"], &mut new["metadata"], "uid");
    }
    if subresource == "status" {
        return carry_over_all_but_status(kind, old, new);
    }
    if kind.info().status {
        keep(old, new, "status");
    }
    if kind == Kind::Namespace {
        keep(&old["spec"], &mut new["spec"], "finalizers");
    }
    if kind == Kind::DaemonSet {
        count_template(old, new);
    }
    let counted = kind.info().generation && kind != Kind::PriorityClass;
    if counted && old["spec"] != new["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

/// Counts the changes of a DaemonSet's template in a deprecated annotation.
fn count_template(old: &Value, new: &mut Value) {
    let before = &old["metadata"]["annotations"][TEMPLATE_GENERATION];
    let number: i64 = before.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
    let changed = old["spec"]["template"] != new["spec"]["template"];
    let annotations = super::inner(&mut new["metadata"], "annotations");
    annotations[TEMPLATE_GENERATION] = (number + i64::from(changed)).to_string().into();
}

fn carry_over_all_but_status(kind: Kind, old: &Value, new: &mut Value) {
    keep(old, new, "spec");
    match kind {
        // A status write of a custom resource changes only the status.
        _ if kind.custom().is_some() => keep(old, new, "metadata"),
        Kind::Deployment => keep(&old["metadata"], &mut new["metadata"], "labels"),
        Kind::Pod => {
            keep(&old["metadata"], &mut new["metadata"], "ownerReferences");
            if new["status"]["qosClass"].as_str().is_none_or(str::is_empty) {
                keep(&old["status"], &mut new["status"], "qosClass");
            }
        }
        _ => {}
    }
}

fn keep(old: &Value, new: &mut Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match (old.get(field), fields.get_mut(field)) {
        // Usually the field is unchanged, and comparing is cheaper than copying.
        (Some(before), Some(after)) => {
            if before != after {
                after.clone_from(before);
            }
        }
        (Some(before), None) => _ = fields.insert(field.to_owned(), before.clone()),
        (None, _) => _ = fields.remove(field),
    }
}
