//! Defaults of pods and pod templates.

use super::quantity;
use super::{default, each, text};
use serde_json::{Map, Value, json};

/// Default mode of files in a volume: readable by all users (0644).
const FILE_MODE: u16 = 0o644;

/// Defaults of pods, including those that templates do not get: requests from limits, host ports, service links.
pub fn fill_pod(spec: &mut Value) {
    fill_spec(spec);
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(requests_from_limits);
    }
    requests_of_the_pod(spec);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    default(spec, "enableServiceLinks", true);
    if spec["hostNetwork"] == true {
        for container in each(spec, "containers") {
            each(container, "ports").for_each(host_port);
        }
        for container in each(spec, "initContainers") {
            each(container, "ports").for_each(host_port);
        }
    }
}

pub fn fill_template(template: &mut Value) {
    if let Some(spec) = template.get_mut("spec") {
        fill_spec(spec);
    }
}

fn fill_spec(spec: &mut Value) {
    each(spec, "volumes").for_each(volume);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list).for_each(container);
    }
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "securityContext", Map::new());
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "schedulerName", "default-scheduler");
    service_account(spec);
}

/// `serviceAccount` is the deprecated alias of `serviceAccountName`; both are set.
pub fn service_account(spec: &mut Value) {
    let name = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    if !name.is_empty() {
        let name = Value::from(name);
        spec["serviceAccountName"] = name.clone();
        spec["serviceAccount"] = name;
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    each(container, "ports").for_each(|port| default(port, "protocol", "TCP"));
    for variable in each(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(field, "apiVersion", "v1");
        }
        if let Some(file) = variable.pointer_mut("/valueFrom/fileKeyRef") {
            default(file, "optional", false);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get_mut(name) {
            probe(found);
        }
    }
    for hook in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        if let Some(get) = container.pointer_mut(hook) {
            http_get(get);
        }
    }
}

fn probe(probe: &mut Value) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    if let Some(get) = probe.get_mut("httpGet") {
        http_get(get);
    }
    if let Some(grpc) = probe.get_mut("grpc") {
        default(grpc, "service", "");
    }
}

fn http_get(get: &mut Value) {
    default(get, "path", "/");
    default(get, "scheme", "HTTP");
}

/// The default pull policy: `Always` for images with the tag `latest` or without a tag and digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    let (repository, tag) = last.split_once(':').unwrap_or((last, ""));
    // An invalid image name counts as having a tag.
    let readable = !repository.is_empty() && !name.bytes().any(|byte| byte.is_ascii_whitespace());
    let lower = !repository.bytes().any(|byte| byte.is_ascii_uppercase());
    match tag {
        "latest" if readable && lower => "Always",
        "" if readable && lower && digest.is_none() => "Always",
        _ => "IfNotPresent",
    }
}

fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|fields| fields.keys().all(|name| name == "name")) {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            default(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default(path, "type", "");
    }
    if let Some(files) = volume.get_mut("downwardAPI") {
        downward(files);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in each(projected, "sources") {
            if let Some(files) = source.get_mut("downwardAPI") {
                downward(files);
            }
            if let Some(token) = source.get_mut("serviceAccountToken") {
                default(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        default(claim, "volumeMode", "Filesystem");
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = pull_policy(text(image, "reference"));
        default(image, "pullPolicy", policy);
    }
    old_volume(volume);
}

/// Defaults of rarely used volume types.
fn old_volume(volume: &mut Value) {
    if let Some(iscsi) = volume.get_mut("iscsi") {
        default(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = volume.get_mut("rbd") {
        default(rbd, "pool", "rbd");
        default(rbd, "user", "admin");
        default(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        default(disk, "cachingMode", "ReadWrite");
        default(disk, "fsType", "ext4");
        default(disk, "readOnly", false);
        default(disk, "kind", "Shared");
    }
    if let Some(scale) = volume.get_mut("scaleIO") {
        default(scale, "storageMode", "ThinProvisioned");
        default(scale, "fsType", "xfs");
    }
}

fn downward(source: &mut Value) {
    for file in each(source, "items") {
        if let Some(field) = file.get_mut("fieldRef") {
            default(field, "apiVersion", "v1");
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else {
        return;
    };
    let requests = super::inner(&mut container["resources"], "requests");
    for (name, limit) in limits {
        default(requests, &name, limit);
    }
}

/// The pod-level requests default to the sum of the containers' requests, otherwise to the pod-level limits.
fn requests_of_the_pod(spec: &mut Value) {
    let Some(limits) = spec.pointer("/resources/limits").and_then(Value::as_object).cloned() else {
        return;
    };
    for (name, limit) in limits.iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")) {
        let asked = |container: &Value| quantity::parse(&container["resources"]["requests"][name]);
        let containers = spec["containers"].as_array().into_iter().flatten();
        let sum = containers.filter_map(asked).reduce(|sum, more| sum + more);
        let request = sum.map_or_else(|| limit.clone(), |sum| sum.to_string().into());
        default(super::inner(&mut spec["resources"], "requests"), name, request);
    }
}

fn host_port(port: &mut Value) {
    let same = port["containerPort"].clone();
    default(port, "hostPort", same);
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn pulled_always_or_if_absent() {
        for image in ["a", "a:latest", "r.io:5000/a", "r.io/b/a:latest", "a:latest@sha256:00"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["a:1", "r.io:5000/a:1.2", "a@sha256:00", "", "A", "a b"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
