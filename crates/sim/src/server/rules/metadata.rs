//! Validation of metadata.

use super::names::{self, Messages};
use super::{invalid_each, items, text};
use crate::kinds::Kind;
use crate::server::refusal::{Wrong, WrongKind};
use serde_json::{Value, json};

/// Limit of the total size of an object's annotations.
const ANNOTATION_BYTES: usize = 256 * 1024;
const IMMUTABLE: &str = "field is immutable";

/// The naming rule of a kind.
fn name_rule(kind: Kind) -> fn(&str) -> Messages {
    match kind {
        Kind::Namespace | Kind::StatefulSet | Kind::Service => names::dns_label,
        _ => names::dns_subdomain,
    }
}

pub fn created(kind: Kind, object: &Value, found: &mut Vec<Wrong>) {
    let metadata = &object["metadata"];
    let rule = name_rule(kind);
    let generate = text(metadata, "generateName");
    if !generate.is_empty() {
        // The suffix begins with a letter or digit, so a single dash at the end is valid.
        let masked = generate.strip_suffix('-').map_or(generate.to_owned(), |start| format!("{start}a"));
        invalid_each(found, "metadata.generateName", generate, rule(&masked));
    }
    match text(metadata, "name") {
        "" => found.push(Wrong::required("metadata.name", "name or generateName is required")),
        name => invalid_each(found, "metadata.name", name, rule(name)),
    }
    match (kind.info().namespaced, text(metadata, "namespace")) {
        (true, "") => found.push(Wrong::required("metadata.namespace", "")),
        (true, name) => invalid_each(found, "metadata.namespace", name, names::dns_label(name)),
        (false, "") => {}
        (false, _) => found.push(Wrong::forbidden("metadata.namespace", "not allowed on this type")),
    }
    common(metadata, found);
    finalizers(kind, metadata, found);
}

fn common(metadata: &Value, found: &mut Vec<Wrong>) {
    labels(&metadata["labels"], "metadata.labels", found);
    annotations(&metadata["annotations"], "metadata.annotations", found);
    owners(metadata, found);
}

pub fn labels(labels: &Value, field: &str, found: &mut Vec<Wrong>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        invalid_each(found, field, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        invalid_each(found, field, value, names::label_value(value));
    }
}

pub fn annotations(annotations: &Value, field: &str, found: &mut Vec<Wrong>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        invalid_each(found, field, key, names::qualified(&key.to_lowercase()));
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > ANNOTATION_BYTES {
        let detail = format!("may not be more than {ANNOTATION_BYTES} bytes");
        found.push(Wrong { field: field.to_owned(), kind: WrongKind::TooLong, detail });
    }
}

fn owners(metadata: &Value, found: &mut Vec<Wrong>) {
    let field = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in items(metadata, "ownerReferences") {
        if text(owner, "apiVersion").rsplit('/').next().is_none_or(str::is_empty) {
            let version = owner.get("apiVersion").cloned().unwrap_or_else(|| json!(""));
            found.push(Wrong::invalid(format!("{field}.apiVersion"), &version, "version must not be empty"));
        }
        for part in ["kind", "name", "uid"] {
            if text(owner, part).is_empty() {
                found.push(Wrong::invalid(format!("{field}.{part}"), &json!(""), "must not be empty"));
            }
        }
        if owner["controller"] == true {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let all: Vec<String> = items(metadata, "ownerReferences").map(owner_in_order).collect();
                    let detail = format!(
                        "[{}]: Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {this}",
                        all.join(",")
                    );
                    found.push(Wrong { field: field.to_owned(), kind: WrongKind::Invalid, detail });
                }
            }
        }
    }
}

/// An owner with its fields in the order of the API server's type.
fn owner_in_order(owner: &Value) -> String {
    let order = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    super::in_order(owner, &order)
}

fn finalizers(kind: Kind, metadata: &Value, found: &mut Vec<Wrong>) {
    let list = || items(metadata, "finalizers").filter_map(Value::as_str);
    for name in list() {
        invalid_each(found, "metadata.finalizers", name, names::qualified(name));
    }
    if list().any(|name| name == "orphan") && list().any(|name| name == "foregroundDeletion") {
        let all = &metadata["finalizers"];
        let words = "finalizer orphan and foregroundDeletion cannot be both set";
        found.push(Wrong::invalid("metadata.finalizers", all, words));
    }
    qualified_finalizers(kind, metadata, found);
}

/// Built-in kinds require a domain in every finalizer, except Kubernetes' own finalizers.
fn qualified_finalizers(kind: Kind, metadata: &Value, found: &mut Vec<Wrong>) {
    if kind.custom().is_some() {
        return;
    }
    for (at, name) in items(metadata, "finalizers").filter_map(Value::as_str).enumerate() {
        let standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        if !standard && !name.contains('/') {
            let words = "name is neither a standard finalizer name nor is it fully qualified";
            found.push(Wrong::invalid(format!("metadata.finalizers[{at}]"), &name.into(), words));
        }
    }
}

pub fn updated(kind: Kind, old: &Value, new: &Value, found: &mut Vec<Wrong>) {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    if old["deletionTimestamp"].is_string() {
        let before: Vec<&Value> = items(old, "finalizers").collect();
        let mut added: Vec<String> =
            items(new, "finalizers").filter(|name| !before.contains(name)).map(Value::to_string).collect();
        added.sort();
        if !added.is_empty() {
            let words = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{{}}}",
                added.join(", ")
            );
            found.push(Wrong::forbidden("metadata.finalizers", words));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        let words = "must be specified for an update";
        found.push(Wrong::invalid("metadata.resourceVersion", &json!(""), words));
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        immutable(found, &format!("metadata.{field}"), &old[field], &new[field]);
    }
    common(new, found);
    qualified_finalizers(kind, new, found);
}

pub fn immutable(found: &mut Vec<Wrong>, field: &str, old: &Value, new: &Value) {
    if old != new {
        found.push(Wrong::invalid(field, new, IMMUTABLE));
    }
}

/// Like [`immutable`], for values that the API server prints in another field order, or that are elided.
pub fn immutable_as(found: &mut Vec<Wrong>, field: &str, old: &Value, new: &Value, shown: &str) {
    if old != new {
        let detail = format!("{shown}: {IMMUTABLE}");
        found.push(Wrong { field: field.to_owned(), kind: WrongKind::Invalid, detail });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recorded cases contain no terminating object.
    #[test]
    fn no_finalizers_are_added_to_what_is_being_deleted() {
        let with = |finalizers: Value| {
            json!({ "metadata": {
                "name": "p", "namespace": "a", "resourceVersion": "1", "finalizers": finalizers,
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            } })
        };
        let mut found = Vec::new();
        updated(Kind::Pod, &with(json!(["a/x"])), &with(json!(["a/z", "a/x", "a/y"])), &mut found);
        let words = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
                     found new finalizers []string{\"a/y\", \"a/z\"}";
        assert_eq!(found.iter().map(Wrong::to_string).collect::<Vec<_>>(), [words]);
        found.clear();
        updated(Kind::Pod, &with(json!(["a/x"])), &with(json!([])), &mut found);
        assert_eq!(found, []);
    }
}
