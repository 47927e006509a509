//! Deserialised Kubernetes objects: only the fields that become facts. All other fields, above all `managedFields`, are
//! skipped during parsing and take no memory.

mod affinity;
mod kept_labels;
mod meta;
mod namespace;
mod node;
mod owner;
mod pod;

pub use kept_labels::{KeptLabels, LabelText, MOST_LABELS};
pub use meta::{Meta, labels, owner_kind};
pub use namespace::NamespaceObject;
pub use node::{CsiNodeObject, NodeObject, journal_key, journal_text};
pub use owner::OwnerObject;
pub(crate) use pod::ContainerStatus;
pub use pod::{PodObject, placement_of};

use serde::Deserialize;

/// A list, or one page of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct ListOf<T> {
    pub metadata: ListMeta,
    // Some API servers write an empty list as `null`.
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub items: Vec<T>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    #[serde(default)]
    pub resource_version: String,
    #[serde(default, rename = "continue")]
    pub continue_token: Option<String>,
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A resourceVersion as a number; 0 if it is not a number.
pub fn version(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}
