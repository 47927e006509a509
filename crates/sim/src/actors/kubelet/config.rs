//! What a container needs from ConfigMaps and Secrets before it can start.

use crate::kinds::Kind;
use crate::store::Store;
use serde_json::Value;

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_optional(reference: &Value) -> bool {
    reference["optional"].as_bool().unwrap_or_default()
}

/// What is missing for the environment of a container, in the words of the kubelet.
pub fn missing_for(store: &Store, namespace: &str, container: &Value) -> Option<String> {
    for source in items(&container["envFrom"]) {
        for (field, kind) in [("configMapRef", Kind::ConfigMap), ("secretRef", Kind::Secret)] {
            let reference = &source[field];
            let Some(name) = reference["name"].as_str().filter(|_| !is_optional(reference)) else { continue };
            if store.find(kind, namespace, name).is_none() {
                return Some(not_found(kind, name));
            }
        }
    }
    for variable in items(&container["env"]) {
        for (field, kind) in [("configMapKeyRef", Kind::ConfigMap), ("secretKeyRef", Kind::Secret)] {
            let reference = &variable["valueFrom"][field];
            let Some(name) = reference["name"].as_str().filter(|_| !is_optional(reference)) else { continue };
            let Some(object) = store.find(kind, namespace, name) else { return Some(not_found(kind, name)) };
            let key = reference["key"].as_str().unwrap_or_default();
            if object["data"][key].is_null() && object["stringData"][key].is_null() {
                let what = kind.info().name;
                return Some(format!("couldn't find key {key} in {what} {namespace}/{name}"));
            }
        }
    }
    None
}

/// Whether every volume that is made of a ConfigMap or a Secret and used can be mounted.
pub fn volumes_are_there(store: &Store, namespace: &str, pod: &Value) -> bool {
    let there = |kind: Kind, source: &Value, name: &str| {
        let Some(name) = source[name].as_str().filter(|_| !is_optional(source)) else { return true };
        store.find(kind, namespace, name).is_some_and(|object| {
            items(&source["items"])
                .filter_map(|item| item["key"].as_str())
                .all(|key| !object["data"][key].is_null() || !object["binaryData"][key].is_null())
        })
    };
    let is_there = |volume: &Value| {
        there(Kind::ConfigMap, &volume["configMap"], "name")
            && there(Kind::Secret, &volume["secret"], "secretName")
            && items(&volume["projected"]["sources"]).all(|source| {
                there(Kind::ConfigMap, &source["configMap"], "name")
                    && there(Kind::Secret, &source["secret"], "name")
            })
    };
    // The root certificate is published into every namespace; the embedded cluster has none.
    let is_own =
        |volume: &Value| volume["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    // What no container mounts is not waited for.
    let is_used = |volume: &Value| {
        let containers = items(&pod["spec"]["containers"]).chain(items(&pod["spec"]["initContainers"]));
        let mut mounts = containers.flat_map(|container| items(&container["volumeMounts"]));
        mounts.any(|mount| mount["name"] == volume["name"])
    };
    items(&pod["spec"]["volumes"]).all(|volume| is_own(volume) || !is_used(volume) || is_there(volume))
}

fn not_found(kind: Kind, name: &str) -> String {
    format!("{} {name:?} not found", kind.info().name.to_lowercase())
}
