//! The label of a node that registers. It keeps members of Node-scoped sequences off the node until the controller has
//! seen the node.

use crate::json::{AnObject, Found, Malformed, Text, Texts, object, required};
use rollcall_api::names::UNSEEN_LABEL;
use rollcall_api::patch::json::{Operations, add, escape};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

static LABELS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| [UNSEEN_LABEL].into());

/// A node that registers.
#[derive(Default)]
pub struct Node<'a> {
    metadata: Found<NodeMetadata<'a>>,
}

#[derive(Default)]
struct NodeMetadata<'a> {
    labels: Found<BTreeMap<&'static str, Text<'a>>>,
}

impl Node<'_> {
    pub fn mark_unseen(self) -> Result<Operations, Malformed> {
        Ok(match required(self.metadata, "object.metadata")?.labels.transpose()? {
            None => vec![add("/metadata/labels", json!({ UNSEEN_LABEL: "true" }))],
            Some(labels) if labels.contains_key(UNSEEN_LABEL) => Operations::new(),
            Some(_) => vec![add(&format!("/metadata/labels/{}", escape(UNSEEN_LABEL)), json!("true"))],
        })
    }
}

object! { Node<'a>, "object", |this|
    "metadata" => metadata: AnObject(NodeMetadata::default()),
}

object! { NodeMetadata<'a>, "object.metadata", |this|
    "labels" => labels: Texts(&LABELS),
}
