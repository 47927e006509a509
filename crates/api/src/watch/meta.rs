//! `metadata`: the fields that are used.

use super::{KeptLabels, LabelText};
use crate::names;
use jiff::Timestamp;
use rollcall_core::{
    Uid,
    facts::{OwnerKind, OwnerRef},
    labels::Labels,
    sequence::index::{MEMBERSHIP_KEY, membership_value},
};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: Option<i64>,
    pub labels: Option<LabelText>,
    pub annotations: Option<Annotations>,
    pub owner_references: Option<Vec<OwnerReference>>,
    pub creation_timestamp: Option<Timestamp>,
    pub deletion_timestamp: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub uid: String,
    #[serde(default)]
    pub controller: Option<bool>,
}

/// Set by the Deployment controller on a Deployment and on its newest ReplicaSet.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";

/// Annotations without our prefix that are kept nevertheless.
const KEPT: [&str; 3] = [REVISION, names::LAUNCHED, names::BEFORE_STOP];

/// The annotations that are kept. Others are dropped, because they can be very long (`last-applied-configuration`).
#[derive(Clone, Debug, Default)]
pub struct Annotations(BTreeMap<String, String>);

impl Annotations {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnnotationsVisitor;
        impl<'de> Visitor<'de> for AnnotationsVisitor {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut picked = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    match is_ours(&key) {
                        true => drop(picked.insert(key, map.next_value()?)),
                        false => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Annotations(picked))
            }
        }
        deserializer.deserialize_map(AnnotationsVisitor)
    }
}

fn is_ours(key: &str) -> bool {
    key.starts_with(names::PREFIX) || key.starts_with(names::KORDER_PREFIX) || KEPT.contains(&key)
}

impl Meta {
    pub fn uid(&self) -> Uid {
        Uid::new(&self.uid)
    }

    pub fn version(&self) -> u64 {
        super::version(&self.resource_version)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key)
    }

    /// The labels that are kept, and the membership that the object's annotations declare.
    pub fn labels(&self, kept: &KeptLabels) -> Labels {
        let name = self.annotation(names::POD_SEQUENCE_NAME);
        let group = self.annotation(names::POD_SEQUENCE_GROUP);
        kept.pick(&self.namespace, self.labels.as_ref(), |pairs| labels(pairs, name, group))
    }

    /// The annotations that are kept.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.annotations.iter().flat_map(|annotations| &annotations.0);
        all.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn created(&self) -> Timestamp {
        self.creation_timestamp.unwrap_or_default()
    }

    /// The owner with `controller: true`, whose replica count the object counts towards.
    pub fn controller(&self) -> Option<OwnerRef> {
        let owners = self.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some(OwnerRef { kind: owner.known_kind(), uid: Uid::new(&owner.uid) })
    }

    /// The Node that owns the object without controlling it, as it owns a guardian.
    pub fn node_owner(&self) -> Option<OwnerRef> {
        let owners = self.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.kind == "Node" && owner.api_version == "v1")?;
        Some(OwnerRef { kind: owner.known_kind(), uid: Uid::new(&owner.uid) })
    }
}

/// Labels, and the membership that the annotations of a pod or a template declare: the name of a sequence and the index
/// of a group. The index must be in canonical form (`0`, `1`, `2` …).
pub fn labels<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    sequence: Option<&str>,
    group: Option<&str>,
) -> Labels {
    let index = group.and_then(|text| text.parse().ok().filter(|index: &usize| index.to_string() == text));
    let word = sequence.zip(index).map(|(sequence, index)| membership_value(sequence, index));
    // Not chained directly: `word` does not live as long as the given labels.
    let labels = labels.into_iter().map(|(key, value)| (key, Cow::Borrowed(value)));
    labels.chain(word.iter().map(|word| (MEMBERSHIP_KEY, Cow::Owned(word.to_string())))).collect()
}

impl OwnerReference {
    fn known_kind(&self) -> OwnerKind {
        owner_kind(&self.api_version, &self.kind)
    }
}

/// The kind of an owner, from the fields of an owner reference.
pub fn owner_kind(api_version: &str, kind: &str) -> OwnerKind {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        ("apps", "Deployment") => OwnerKind::Deployment,
        ("apps", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps", "StatefulSet") => OwnerKind::StatefulSet,
        ("apps", "DaemonSet") => OwnerKind::DaemonSet,
        ("batch", "Job") => OwnerKind::Job,
        ("batch", "CronJob") => OwnerKind::CronJob,
        _ => OwnerKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_written_in_one_way() {
        let word =
            |text: &str| labels([("app", "web")], Some("shop"), Some(text)).get(MEMBERSHIP_KEY).cloned();
        for (text, expected) in [("0", "shop/0"), ("7", "shop/7"), ("999", "shop/999")] {
            assert_eq!(word(text).as_deref(), Some(expected));
        }
        for text in ["", "-1", "+1", "01", " 1", "1 ", "1.0", "1e0", "one", "99999999999999999999999"] {
            assert_eq!(word(text), None, "{text:?}");
        }
    }
}
