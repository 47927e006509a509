//! The ConfigMap for whose keys the containers of a pod wait.

use crate::patch::json::{add, escape, test};
use crate::patch::{Body, Style};
use crate::watch::Meta;
use rollcall_core::Uid;
use rollcall_core::decision::BarrierWrite;
use rollcall_core::launch::index::{BarrierOwner, SeenBarrier};
use rollcall_core::launch::ranks::Spelling;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What every key says.
const OPEN: &str = "true";

/// A ConfigMap that may be the one of a pod.
#[derive(Clone, Debug, Deserialize)]
pub struct BarrierObject {
    metadata: Meta,
    #[serde(default)]
    data: BTreeMap<String, IgnoredAny>,
}

impl BarrierObject {
    /// As it is for a pod.
    pub fn facts(&self, pod: Uid) -> SeenBarrier {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = match owners {
            [] => BarrierOwner::Nobody,
            [owner] if owner.kind == "Pod" && owner.api_version == "v1" => {
                BarrierOwner::Pod(Uid::new(&owner.uid))
            }
            [owner] => BarrierOwner::Other(format!("a {}", owner.kind).into()),
            several => BarrierOwner::Other(format!("{} owners", several.len()).into()),
        };
        let keys = self
            .data
            .keys()
            .filter(|key| Spelling::ALL.iter().any(|spelling| spelling.priority_of_key(key).is_some()));
        let (uid, version) = (self.metadata.uid(), self.metadata.version());
        SeenBarrier { pod, uid, version, owner, keys: keys.cloned().collect() }
    }
}

/// A new one.
pub fn config_map(write: &BarrierWrite, keys: &[String]) -> Value {
    let data: Map<String, Value> = keys.iter().map(|key| (key.clone(), OPEN.into())).collect();
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": write.pod_name, "uid": write.pod.to_string(), "controller": true,
    });
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": write.target.name, "namespace": write.target.namespace, "ownerReferences": [owner] },
        "data": data,
    })
}

/// More keys, if the ConfigMap still belongs to the pod.
pub fn add_keys(write: &BarrierWrite, keys: &[String]) -> Body {
    let mut operations = vec![test("/metadata/ownerReferences/0/uid", write.pod.to_string())];
    operations.extend(keys.iter().map(|key| add(&format!("/data/{}", escape(key)), OPEN)));
    Body { style: Style::Json, value: operations.into() }
}

/// Only the one that was looked at.
pub fn delete_options(config_map: Uid) -> Value {
    json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": config_map.to_string() } })
}
