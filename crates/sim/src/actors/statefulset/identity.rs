//! The identity of pods in a StatefulSet: ordinals, names, revisions.

use super::volume_claims;
use crate::actors::common::revisions::Revision;
use crate::actors::common::{template, text};
use crate::store::{Key, Stored};
use serde_json::{Value, json};

pub const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

pub fn replicas(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// The first ordinal.
pub fn start(set: &Value) -> i64 {
    set["spec"]["ordinals"]["start"].as_i64().unwrap_or_default()
}

pub fn is_in_range(set: &Value, ordinal: i64) -> bool {
    (start(set)..start(set) + replicas(set)).contains(&ordinal)
}

/// The ordinal of a pod, if its name consists of the set's name and a number.
pub fn ordinal(set_name: &str, pod_name: &str) -> Option<i64> {
    let (parent, number) = pod_name.rsplit_once('-')?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let ordinal = number.parse::<i32>().ok().filter(|_| plain)?;
    (parent == set_name).then_some(ordinal.into())
}

pub fn revision(pod: &Value) -> &str {
    text(&pod["metadata"]["labels"][REVISION])
}

pub fn is_rolling(set: &Value) -> bool {
    set["spec"]["updateStrategy"]["type"] != "OnDelete"
}

/// Pods below this place keep the old revision during an update.
pub fn partition(set: &Value) -> i64 {
    set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or_default()
}

/// The revisions of a set: the current one, and the one of an update.
pub struct Revisions {
    pub current: Revision,
    pub update: Revision,
}

/// A pod of a set, not created yet.
pub fn new_pod(key: &Key, set: &Stored, revisions: &Revisions, ordinal: i64) -> Value {
    let keeps = is_rolling(set) && ordinal < start(set) + partition(set);
    let revision = if keeps { &revisions.current } else { &revisions.update };
    let mut pod = template::pod(&revision.template(), key, set);
    let name = format!("{}-{ordinal}", key.name);
    pod["metadata"]["name"] = name.clone().into();
    // All pods from templates have this field, although it has no effect here.
    pod["metadata"]["generateName"] = format!("{}-", key.name).into();
    identify(&mut pod, &name, ordinal);
    pod["metadata"]["labels"][REVISION] = revision.name().into();
    pod["spec"]["hostname"] = name.into();
    let service = text(&set["spec"]["serviceName"]);
    if !service.is_empty() {
        pod["spec"]["subdomain"] = service.into();
    }
    volume_claims::mount(&mut pod, key, set, ordinal);
    pod
}

fn identify(pod: &mut Value, name: &str, ordinal: i64) {
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"][POD_NAME] = name.into();
    pod["metadata"]["labels"][POD_INDEX] = ordinal.to_string().into();
}

/// Whether the label with the pod's name is correct.
pub fn is_identified(pod: &Value) -> bool {
    pod["metadata"]["labels"][POD_NAME] == pod["metadata"]["name"]
}

/// Restores the identity labels of a pod that was adopted or modified.
pub fn restore(pod: &mut Value, ordinal: i64) {
    let name = text(&pod["metadata"]["name"]).to_owned();
    identify(pod, &name, ordinal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_read_from_names() {
        for (name, expected) in [
            ("web-0", Some(0)),
            ("web-12", Some(12)),
            ("web-", None),
            ("web-a", None),
            ("web-+1", None),
            ("other-1", None),
            ("web", None),
            ("web-1-1", None),
        ] {
            assert_eq!(ordinal("web", name), expected, "{name}");
        }
    }
}
