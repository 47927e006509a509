//! The barrier of a pod: a ConfigMap whose keys let the containers of the pod start, rank by rank.

use crate::patch::json::{Operations, add, escape, test};
use crate::patch::{Body, Style};
use crate::watch::version;
use rollcall_core::Uid;
use rollcall_core::decision::BarrierWrite;
use rollcall_core::launch::index::{BarrierOwner, SeenBarrier};
use rollcall_core::launch::ranks::{Spelling, barrier_name};
use rollcall_core::planted::{Bug, planted};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The value of every key.
const OPEN: &str = "true";

/// A ConfigMap with the name of a pod's barrier.
#[derive(Clone, Debug, Deserialize)]
pub struct BarrierObject {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    owner_references: Vec<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

impl Owner {
    /// Whether the owner is a pod, existing or deleted, whose barrier has the name `config_map`.
    fn is_pod_of(&self, config_map: &str) -> bool {
        self.kind == "Pod" && self.api_version == "v1" && barrier_name(&self.name) == config_map
    }
}

impl BarrierObject {
    /// Returns the facts about this ConfigMap as the barrier of a pod.
    pub fn facts(&self, pod: Uid) -> SeenBarrier {
        let Metadata { name, uid, resource_version, owner_references } = &self.metadata;
        let owner = match owner_references.as_slice() {
            [] => BarrierOwner::Nobody,
            [owner] if owner.is_pod_of(name) => BarrierOwner::Pod(Uid::new(&owner.uid)),
            [owner] => BarrierOwner::Other(format!("the {} {}", owner.kind, owner.name).into()),
            several => BarrierOwner::Other(format!("{} owners", several.len()).into()),
        };
        let keys = self
            .data
            .keys()
            .filter(|key| Spelling::ALL.iter().any(|spelling| spelling.priority_of_key(key).is_some()));
        let (uid, version) = (Uid::new(uid), version(resource_version));
        let (keys, has_no_data) = (keys.cloned().collect(), self.data.is_empty());
        SeenBarrier { pod, uid, version, owner, keys, has_no_data }
    }
}

/// Builds the barrier of a pod with the given keys.
pub fn config_map(write: &BarrierWrite, keys: &[String]) -> Value {
    let data: Map<String, Value> = keys.iter().map(|key| (key.clone(), OPEN.into())).collect();
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": write.pod_name, "uid": write.pod.to_string(), "controller": true,
    });
    let owners: Vec<Value> = Some(owner).filter(|_| !planted(Bug::BarrierWithoutOwner)).into_iter().collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": write.target.name, "namespace": write.target.namespace, "ownerReferences": owners },
        "data": data,
    })
}

/// Builds the patch that adds keys to a barrier. The API server rejects it if the ConfigMap no longer belongs to the pod.
pub fn add_keys(write: &BarrierWrite, keys: &[String], first: bool) -> Body {
    let owned = test("/metadata/ownerReferences/0/uid", write.pod.to_string());
    let mut operations: Operations =
        Some(owned).filter(|_| !planted(Bug::KeyForAnybody)).into_iter().collect();
    // JSON Patch adds a key only to an existing map.
    operations.extend(first.then(|| add("/data", json!({}))));
    operations.extend(keys.iter().map(|key| add(&format!("/data/{}", escape(key)), OPEN)));
    Body { style: Style::Json, value: operations.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_of(references: Value) -> BarrierOwner {
        let metadata = json!({ "name": "web-0-barrier", "uid": "1", "ownerReferences": references });
        let object: BarrierObject =
            serde_json::from_value(json!({ "metadata": metadata })).expect("a ConfigMap can be read");
        object.facts(Uid::new("a")).owner
    }

    /// Only the leftover of an earlier pod of the same name may be deleted. A ConfigMap that a pod of another name owns is never
    /// touched, even if that pod is not known yet.
    #[test]
    fn a_config_map_belongs_to_the_pod_by_whose_name_it_is_called() {
        let owner =
            |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": "b" });
        assert_eq!(owner_of(json!([])), BarrierOwner::Nobody);
        assert_eq!(owner_of(json!([owner("Pod", "web-0")])), BarrierOwner::Pod(Uid::new("b")));
        assert_eq!(owner_of(json!([owner("Pod", "db-0")])), BarrierOwner::Other("the Pod db-0".into()));
        assert_eq!(
            owner_of(json!([owner("Secret", "web-0")])),
            BarrierOwner::Other("the Secret web-0".into())
        );
        let two = json!([owner("Pod", "web-0"), owner("Pod", "web-1")]);
        assert_eq!(owner_of(two), BarrierOwner::Other("2 owners".into()));
    }
}
