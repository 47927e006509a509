//! Validation of pods and pod templates.

use super::volumes::VolumeNames;
use super::{containers, invalid_each, items, metadata, names, one_of, scheduling, text, volumes};
use crate::server::refusal::Wrong;
use serde_json::Value;
use std::net::IpAddr;

pub fn created(pod: &Value, found: &mut Vec<Wrong>) {
    created_or_updated(pod, found);
    let spec = &pod["spec"];
    if items(spec, "ephemeralContainers").next().is_some() {
        found.push(Wrong::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && items(spec, "schedulingGates").next().is_some() {
        let words = "cannot be set until all schedulingGates have been cleared";
        found.push(Wrong::forbidden("spec.nodeName", words));
    }
}

/// Validation that applies to creations and updates.
pub fn created_or_updated(pod: &Value, found: &mut Vec<Wrong>) {
    check_spec(&pod["spec"], "spec", &[], found);
    containers::no_blanks_around_images(&pod["spec"], found);
}

/// Validates a pod template. `claims` are volumes that the owner adds later.
pub fn template(template: &Value, path: &str, claims: &[&str], found: &mut Vec<Wrong>) {
    // In these paths, the API server omits `metadata`.
    metadata::labels(&template["metadata"]["labels"], &format!("{path}.labels"), found);
    metadata::annotations(&template["metadata"]["annotations"], &format!("{path}.annotations"), found);
    check_spec(&template["spec"], &format!("{path}.spec"), claims, found);
    if items(&template["spec"], "ephemeralContainers").next().is_some() {
        let words = "ephemeral containers not allowed in pod template";
        found.push(Wrong::forbidden(format!("{path}.spec.ephemeralContainers"), words));
    }
}

fn check_spec(spec: &Value, path: &str, claims: &[&str], found: &mut Vec<Wrong>) {
    let mut volumes: VolumeNames<'_> = volumes::check(spec, path, found);
    volumes.extend(claims);
    containers::check_all(spec, path, &volumes, found);
    containers::ports_on_host_network(spec, path, found);
    let policies = ["Always", "OnFailure", "Never"];
    one_of(found, &format!("{path}.restartPolicy"), &spec["restartPolicy"], &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(found, &format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &policies);
    metadata::labels(&spec["nodeSelector"], &format!("{path}.nodeSelector"), found);
    containers::user(&spec["securityContext"], &format!("{path}.securityContext"), found);
    scheduling::affinity(spec, path, found);
    for (at, gate) in items(spec, "readinessGates").enumerate() {
        let kind = text(gate, "conditionType");
        let field = format!("{path}.readinessGates[{at}].conditionType");
        invalid_each(found, &field, kind, names::qualified(kind));
    }
    scheduling::gates(spec, path, found);
    scheduling::spread(spec, path, found);
    named(spec, path, "serviceAccountName", names::dns_subdomain, found);
    named(spec, path, "nodeName", names::dns_subdomain, found);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let words = format!("must be between 1 and {}, inclusive", i32::MAX);
        found.push(Wrong::invalid(format!("{path}.activeDeadlineSeconds"), &seconds.into(), &words));
    }
    named(spec, path, "hostname", names::dns_label, found);
    named(spec, path, "subdomain", names::dns_label, found);
    scheduling::tolerations(spec, path, found);
    for (at, alias) in items(spec, "hostAliases").enumerate() {
        let path = format!("{path}.hostAliases[{at}]");
        if text(alias, "ip").parse::<IpAddr>().is_err() {
            let words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            found.push(Wrong::invalid(format!("{path}.ip"), &text(alias, "ip").into(), words));
        }
        for (at, name) in items(alias, "hostnames").filter_map(Value::as_str).enumerate() {
            invalid_each(found, &format!("{path}.hostnames[{at}]"), name, names::dns_subdomain(name));
        }
    }
    named(spec, path, "priorityClassName", names::dns_subdomain, found);
    if let Some(policy) = spec.get("preemptionPolicy") {
        let policies = ["PreemptLowerPriority", "Never"];
        one_of(found, &format!("{path}.preemptionPolicy"), policy, &policies);
    }
}

fn named(spec: &Value, path: &str, field: &str, rule: fn(&str) -> names::Messages, found: &mut Vec<Wrong>) {
    let name = text(spec, field);
    if !name.is_empty() {
        invalid_each(found, &format!("{path}.{field}"), name, rule(name));
    }
}
