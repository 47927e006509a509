//! The label of a node that registers, by which members of Node-scoped sequences stay away until the controller has seen
//! the node.

use crate::json::{Fields, Malformed};
use rollcall_api::names::UNSEEN_LABEL;
use rollcall_api::patch::json::{Operations, add, escape};
use serde_json::json;

pub fn mark_unseen(node: Fields<'_>) -> Result<Operations, Malformed> {
    let labels = node.object("metadata", "object.metadata")?.texts("labels")?;
    Ok(match labels {
        None => vec![add("/metadata/labels", json!({ UNSEEN_LABEL: "true" }))],
        Some(labels) if labels.iter().any(|(key, _)| *key == UNSEEN_LABEL) => Operations::new(),
        Some(_) => vec![add(&format!("/metadata/labels/{}", escape(UNSEEN_LABEL)), json!("true"))],
    })
}
