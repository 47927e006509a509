use super::Meta;
use crate::names;
use rollcall_core::facts::Namespace;
use serde::Deserialize;

/// A Namespace, for the permissions that its annotations grant.
#[derive(Clone, Debug, Deserialize)]
pub struct NamespaceObject {
    pub metadata: Meta,
}

impl NamespaceObject {
    pub fn facts(&self) -> Namespace {
        let meta = &self.metadata;
        Namespace {
            name: meta.name.as_str().into(),
            version: meta.version(),
            allow_from: meta.annotation(names::ALLOW_FROM).map(Into::into),
            allow_node_taints: meta.annotation(names::ALLOW_NODE_TAINTS) == Some("true"),
        }
    }
}
