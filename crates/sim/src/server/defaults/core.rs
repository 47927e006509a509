//! Defaults of kinds other than pods and workloads.

use super::{default, each, inner, text};
use serde_json::{Map, Value, json};

const CLIENT_IP_SECONDS: u32 = 10_800;

/// Adds the namespace's name as a label, for namespace selectors.
pub fn fill_namespace(namespace: &mut Value) {
    if let Some(name) = namespace["metadata"]["name"].as_str().filter(|name| !name.is_empty()) {
        let name = Value::from(name);
        let labels = inner(&mut namespace["metadata"], "labels");
        labels["kubernetes.io/metadata.name"] = name;
    }
    default(&mut namespace["status"], "phase", "Active");
}

pub fn fill_node(node: &mut Value) {
    let capacity = node["status"]["capacity"].clone();
    if capacity.is_object() {
        default(&mut node["status"], "allocatable", capacity);
    }
    // The single address range becomes the only item of the list.
    if let Some(range) = node["spec"]["podCIDR"].as_str().map(str::to_owned) {
        default(&mut node["spec"], "podCIDRs", vec![range]);
    }
}

/// Converts `stringData`, which is write-only, into `data`.
pub fn fill_secret(secret: &mut Value) {
    if let Some(Value::Object(plain)) = secret.as_object_mut().and_then(|fields| fields.remove("stringData"))
    {
        let data = inner(secret, "data");
        for (key, value) in plain {
            data[&key] = base64(value.as_str().unwrap_or_default().as_bytes()).into();
        }
    }
    default(secret, "type", "Opaque");
}

pub fn fill_claim(claim: &mut Value) {
    default(inner(claim, "spec"), "volumeMode", "Filesystem");
    default(inner(claim, "status"), "phase", "Pending");
}

pub fn fill_service(service: &mut Value) {
    let spec = inner(service, "spec");
    default(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "ClientIP" {
        let client = inner(inner(spec, "sessionAffinityConfig"), "clientIP");
        default(client, "timeoutSeconds", CLIENT_IP_SECONDS);
    } else if let Some(fields) = spec.as_object_mut() {
        fields.remove("sessionAffinityConfig");
    }
    default(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        default(port, "protocol", "TCP");
        if matches!(&port["targetPort"], Value::Number(number) if number.as_i64() == Some(0))
            || text(port, "targetPort").is_empty() && port["targetPort"].is_string()
        {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = text(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer");
    let has_addresses = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    if external || kind == "ClusterIP" && has_addresses {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if external || kind == "ClusterIP" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Sets the address families of a new Service, and the fields that follow from a given address. The caller must allocate a
/// missing address.
pub fn families_of_service(spec: &mut Value) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let address = text(spec, "clusterIP").to_owned();
    if !address.is_empty() {
        default(spec, "clusterIPs", json!([address]));
    } else if let Some(first) = spec["clusterIPs"][0].as_str().map(Value::from) {
        spec["clusterIP"] = first;
    }
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let headless_alone = text(spec, "clusterIP") == "None" && !selects;
    default(spec, "ipFamilyPolicy", if headless_alone { "RequireDualStack" } else { "SingleStack" });
    let both = headless_alone && spec["ipFamilyPolicy"] != "SingleStack";
    default(spec, "ipFamilies", if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Adds the not-ready taint of new nodes.
pub fn taint_not_ready(node: &mut Value) {
    let spec = inner(node, "spec");
    let key = "node.kubernetes.io/not-ready";
    let there = each(spec, "taints").any(|taint| taint["key"] == key && taint["effect"] == "NoSchedule");
    if !there {
        default(spec, "taints", Vec::<Value>::new());
        let taint = json!({ "key": key, "effect": "NoSchedule" });
        spec["taints"].as_array_mut().into_iter().for_each(|taints| taints.push(taint.clone()));
    }
}

pub fn protect_claim(claim: &mut Value) {
    let metadata = inner(claim, "metadata");
    default(metadata, "finalizers", Vec::<Value>::new());
    if let Some(list) = metadata["finalizers"].as_array_mut() {
        let finalizer = Value::from("kubernetes.io/pvc-protection");
        if !list.contains(&finalizer) {
            list.push(finalizer);
        }
    }
}

/// Sets the status and the finalizer of a new namespace.
pub fn new_namespace(namespace: &mut Value) {
    namespace["status"] = json!({ "phase": "Active" });
    let spec = inner(namespace, "spec");
    default(spec, "finalizers", Vec::<Value>::new());
    if let Some(list) = spec["finalizers"].as_array_mut() {
        let finalizer = Value::from("kubernetes");
        if !list.contains(&finalizer) {
            list.push(finalizer);
        }
    }
}

/// References to secrets keep only the name.
pub fn new_service_account(account: &mut Value) {
    for secret in each(account, "secrets") {
        let name = secret["name"].take();
        let mut only = Map::new();
        if name.is_string() {
            only.insert("name".into(), name);
        }
        *secret = Value::Object(only);
    }
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_with_padding() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
