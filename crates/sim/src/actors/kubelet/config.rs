//! ConfigMaps and Secrets that a container needs before it can start.

use crate::kinds::Kind;
use crate::store::Store;
use serde_json::Value;

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_optional(reference: &Value) -> bool {
    reference["optional"].as_bool().unwrap_or_default()
}

/// The missing object or key in the environment of a container, in the words of the kubelet.
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

/// The missing ConfigMap, Secret or key of a mounted volume, in the words of the kubelet.
pub fn missing_volume(store: &Store, namespace: &str, pod: &Value) -> Option<String> {
    let of = |kind: Kind, source: &Value, field: &str| {
        let name = source[field].as_str().filter(|_| !is_optional(source))?;
        let Some(object) = store.find(kind, namespace, name) else { return Some(not_found(kind, name)) };
        let mut keys = items(&source["items"]).filter_map(|item| item["key"].as_str());
        let missing =
            keys.find(|key| object["data"][*key].is_null() && object["binaryData"][*key].is_null())?;
        let what = if kind == Kind::Secret { "secret" } else { "config" };
        Some(format!("references non-existent {what} key: {missing}"))
    };
    let missing = |volume: &Value| {
        let projected = || {
            items(&volume["projected"]["sources"]).find_map(|source| {
                of(Kind::ConfigMap, &source["configMap"], "name")
                    .or_else(|| of(Kind::Secret, &source["secret"], "name"))
            })
        };
        let single = of(Kind::ConfigMap, &volume["configMap"], "name");
        single.or_else(|| of(Kind::Secret, &volume["secret"], "secretName")).or_else(projected)
    };
    // Real clusters publish the root certificate in every namespace; the embedded cluster does not.
    let is_own =
        |volume: &Value| volume["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    // Volumes that no container mounts are ignored.
    let is_used = |volume: &Value| {
        let containers = items(&pod["spec"]["containers"]).chain(items(&pod["spec"]["initContainers"]));
        let mut mounts = containers.flat_map(|container| items(&container["volumeMounts"]));
        mounts.any(|mount| mount["name"] == volume["name"])
    };
    let mut used = items(&pod["spec"]["volumes"]).filter(|volume| !is_own(volume) && is_used(volume));
    used.find_map(missing)
}

fn not_found(kind: Kind, name: &str) -> String {
    format!("{} {name:?} not found", kind.info().name.to_lowercase())
}
