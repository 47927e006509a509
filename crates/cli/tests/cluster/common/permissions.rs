//! The permissions that the shipped manifests grant, and those that requests in the audit log used, in one format.

use super::lab::repository;
use anyhow::{Context, Result};
use rollcall_testbed::AuditEvent;
use serde_json::Value;
use std::collections::BTreeSet;

/// Verb, API group, and resource with subresource.
pub type Permission = (String, String, String);

/// Returns the permissions that roles of this kind in a manifest grant.
pub fn granted(file: &str, kind: &str) -> Result<BTreeSet<Permission>> {
    let text = std::fs::read_to_string(repository(file))?;
    let mut permissions = BTreeSet::new();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document)?;
        if object["kind"] != kind {
            continue;
        }
        for rule in object["rules"].as_array().context("rules")? {
            let words = |key: &str| -> Vec<String> {
                let words = rule[key].as_array().unwrap_or_else(|| panic!("{key} of {rule}"));
                words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            for group in words("apiGroups") {
                for resource in words("resources") {
                    let permission = |verb| (verb, group.clone(), resource.clone());
                    permissions.extend(words("verbs").into_iter().map(permission));
                }
            }
        }
    }
    Ok(permissions)
}

/// Returns the permission that a request needed.
pub fn used(event: &AuditEvent) -> Permission {
    (event.verb.clone(), event.group.clone(), event.resource_path())
}
