//! The effects of admission plugins that are enabled by default: `Priority`, `ServiceAccount`, `DefaultTolerationSeconds`,
//! `TaintNodesByCondition` and `StorageObjectInUseProtection`.

use super::{core, default, each, inner, pod as pods, text};
use crate::kinds::Kind;
use crate::server::refusal::Refusal;
use serde_json::{Value, json};

/// Seconds that a pod tolerates a node that is not ready or unreachable.
const TOLERATED_SECONDS: u16 = 300;
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";
/// One hour, plus seven seconds that mark a token as requested by the API server itself.
const TOKEN_SECONDS: u16 = 3607;

/// The objects that affect the admission of a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodAdmissionContext<'a> {
    /// All PriorityClasses.
    pub classes: &'a [&'a Value],
    /// The ServiceAccounts of the pod's namespace; `None` if the plugin is disabled.
    pub accounts: Option<&'a [&'a Value]>,
    /// The random suffix for the name of the token volume: five letters or digits.
    pub suffix: &'a str,
}

/// Applies admission to a new object of a kind other than Pod.
pub fn admit(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Node => core::taint_not_ready(object),
        Kind::PersistentVolumeClaim => core::protect_claim(object),
        _ => {}
    }
}

/// Rejects a second default PriorityClass. `classes` contains all existing classes.
pub fn admit_class(class: &Value, classes: &[&Value]) -> Result<(), Refusal> {
    let name = text(&class["metadata"], "name");
    let other = |other: &&&Value| other["globalDefault"] == true && text(&other["metadata"], "name") != name;
    match classes.iter().find(other) {
        Some(other) if class["globalDefault"] == true => {
            let other = text(&other["metadata"], "name");
            let why =
                format!("PriorityClass {other} is already marked as default. Only one default can exist");
            Err(Refusal::forbidden(Kind::PriorityClass, name, &why))
        }
        _ => Ok(()),
    }
}

/// Applies admission to a new pod, or rejects it.
pub fn admit_pod(pod: &mut Value, context: &PodAdmissionContext<'_>) -> Result<(), Refusal> {
    if let Some(accounts) = context.accounts {
        give_account(pod, accounts, context.suffix)?;
    }
    give_priority(pod, context.classes)?;
    tolerate_for_a_while(&mut pod["spec"]);
    Ok(())
}

/// Applies admission to an updated pod.
pub fn admit_pod_update(old: &Value, pod: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = old["spec"].get(field) {
            default(&mut pod["spec"], field, value.clone());
        }
    }
    tolerate_for_a_while(&mut pod["spec"]);
}

fn forbidden(pod: &Value, why: &str) -> Refusal {
    let name = match text(&pod["metadata"], "name") {
        "" => text(&pod["metadata"], "generateName"),
        name => name,
    };
    Refusal::forbidden(Kind::Pod, name, why)
}

fn give_priority(pod: &mut Value, classes: &[&Value]) -> Result<(), Refusal> {
    let name = text(&pod["spec"], "priorityClassName").to_owned();
    let named = |class: &&&Value| text(&class["metadata"], "name") == name;
    let class = if name.is_empty() {
        let defaults = classes.iter().filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64())
    } else {
        let found = classes.iter().find(named);
        Some(found.ok_or_else(|| forbidden(pod, &format!("no PriorityClass with name {name} was found")))?)
    };
    let priority = class.and_then(|class| class["value"].as_i64()).unwrap_or_default();
    let policy = class.map_or("PreemptLowerPriority", |class| text(class, "preemptionPolicy"));
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    if let Some(given) = pod["spec"]["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
    }
    pod["spec"]["priority"] = priority.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

fn give_account(pod: &mut Value, accounts: &[&Value], suffix: &str) -> Result<(), Refusal> {
    if pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some() {
        return Ok(());
    }
    default(&mut pod["spec"], "serviceAccountName", "default");
    let name = text(&pod["spec"], "serviceAccountName").to_owned();
    let Some(account) = accounts.iter().find(|account| text(&account["metadata"], "name") == name) else {
        let namespace = text(&pod["metadata"], "namespace");
        let why =
            format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(forbidden(pod, &why));
    };
    let spec = &mut pod["spec"];
    pods::service_account(spec);
    let wanted = |object: &Value| object["automountServiceAccountToken"].as_bool();
    if wanted(spec).or_else(|| wanted(account)).unwrap_or(true) {
        mount_token(spec, suffix);
    }
    let secrets = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty());
    if let Some(secrets) = secrets {
        default(spec, "imagePullSecrets", secrets.clone());
    }
    Ok(())
}

fn mount_token(spec: &mut Value, suffix: &str) {
    let named =
        |volume: &Value| Some(text(volume, "name").to_owned()).filter(|name| name.starts_with(TOKEN_VOLUME));
    let there = spec["volumes"].as_array().into_iter().flatten().find_map(named);
    let name = there.clone().unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mount = json!({ "name": name, "readOnly": true, "mountPath": TOKEN_PATH });
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            if each(container, "volumeMounts").any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            append(container, "volumeMounts", mount.clone());
            mounted = true;
        }
    }
    if there.is_none() && mounted {
        let volume = json!({ "name": name, "projected": { "defaultMode": 0o644, "sources": [
            { "serviceAccountToken": { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            { "downwardAPI": { "items": [{
                "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
            }] } },
        ] } });
        append(spec, "volumes", volume);
    }
}

fn tolerate_for_a_while(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = |toleration: &mut Value| {
            let (of, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (of == key || of.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !each(spec, "tolerations").any(tolerated) {
            let toleration = json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
            });
            append(spec, "tolerations", toleration);
        }
    }
}

fn append(object: &mut Value, list: &str, item: Value) {
    default(object, list, Vec::<Value>::new());
    if let Some(items) = inner(object, list).as_array_mut() {
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recorded cases have no default class, because it would change all other pods.
    #[test]
    fn the_lowest_default_class_is_given() {
        let class = |name: &str, value: i64| {
            json!({
                "metadata": { "name": name }, "value": value, "globalDefault": true, "preemptionPolicy": "Never",
            })
        };
        let (high, low) = (class("high", 9), class("low", 3));
        let context = PodAdmissionContext { classes: &[&high, &low], accounts: None, suffix: "" };
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": {} });
        assert!(admit_pod(&mut pod, &context).is_ok());
        let spec = &pod["spec"];
        assert_eq!((&spec["priorityClassName"], &spec["priority"]), (&json!("low"), &json!(3)));
        assert_eq!((&spec["preemptionPolicy"], spec.get("serviceAccountName")), (&json!("Never"), None));

        assert!(admit_class(&low, &[&low]).is_ok());
        let refusal = admit_class(&high, &[&low]).unwrap_err();
        let words = "priorityclasses.scheduling.k8s.io \"high\" is forbidden: PriorityClass low is already marked as \
                     default. Only one default can exist";
        assert_eq!(refusal.message, words);
    }
}
