//! Rights that the controller's account needs: the rules of the roles that this program installs.

use super::fetched::Installed;
use crate::commands::install::{Admission, Mode, id, objects, of_launch_alone};
use serde_json::{Value, json};

/// A permission for one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The role that grants it, as `KIND/NAME`.
    pub role: String,
    pub group: String,
    /// With its subresource, such as `podsequences/status`.
    pub resource: String,
    pub verb: String,
    /// Limits the right to the object of this name.
    pub name: Option<String>,
    /// Limits the right to this namespace; `None` for all namespaces.
    pub namespace: Option<String>,
}

/// All rights that the account needs, for the installed mode and webhooks.
pub fn needed(installed: &Installed, namespace: &str) -> Vec<Right> {
    let full = installed.mode == Mode::Full;
    let admission = (installed.webhook && full).then_some(Admission::Webhook);
    let unused = if installed.launch { Vec::new() } else { of_launch_alone(admission) };
    let roles = objects(installed.mode, admission, namespace);
    roles.iter().filter(|role| !unused.contains(&id(role))).flat_map(granted).collect()
}

/// Rights that a role grants; none for an object of another kind.
pub fn granted(role: &Value) -> Vec<Right> {
    if !matches!(role["kind"].as_str(), Some("Role" | "ClusterRole")) {
        return Vec::new();
    }
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    rights.extend(names.iter().map(|name| Right {
                        role: id(role),
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                        namespace: role["metadata"]["namespace"].as_str().map(str::to_owned),
                    }));
                }
            }
        }
    }
    rights
}

impl Right {
    /// The SubjectAccessReview that asks whether an account has this right.
    pub fn review(&self, account: &str, own_namespace: &str) -> Value {
        let Right { role: _, group, resource, verb, name, namespace } = self;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{own_namespace}:{account}"),
                "groups": [
                    "system:serviceaccounts",
                    format!("system:serviceaccounts:{own_namespace}"),
                    "system:authenticated",
                ],
                "resourceAttributes": {
                    "group": group, "resource": resource, "subresource": subresource, "verb": verb,
                    "name": name.clone().unwrap_or_default(),
                    "namespace": namespace.clone().unwrap_or_default(),
                },
            },
        })
    }

    /// The resource with its group, such as `pods` or `deployments.apps`.
    pub fn what(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

/// Describes rights, such as `get, list pods; create events.events.k8s.io`.
pub fn listed(rights: &[Right]) -> String {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for right in rights {
        match lines.iter_mut().find(|(what, _)| *what == right.what()) {
            // Listed already, for an object of another name.
            Some((_, verbs)) if verbs.contains(&right.verb.as_str()) => {}
            Some((_, verbs)) => verbs.push(&right.verb),
            None => lines.push((right.what(), vec![&right.verb])),
        }
    }
    let lines = lines.iter().map(|(what, verbs)| format!("{} {what}", verbs.join(", ")));
    lines.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_need_what_their_manifests_grant() {
        let with = |mode, webhook, launch| {
            needed(&Installed { mode, webhook, launch, ..Installed::default() }, "here")
        };
        let lite = with(Mode::Lite, false, false);
        let full = with(Mode::Full, false, false);
        let webhook = with(Mode::Full, true, false);
        let launch = with(Mode::Full, false, true);
        let has = |rights: &[Right], verb: &str, what: &str| {
            rights.iter().any(|right| right.verb == verb && right.what() == what)
        };
        assert!(has(&lite, "patch", "pods") && !has(&lite, "update", "pods"));
        assert!(has(&lite, "patch", "podsequences/status.scheduling.example.com"));
        assert!(!has(&lite, "patch", "nodes") && has(&full, "patch", "nodes"));
        for (rights, secrets, barriers) in
            [(&full, false, false), (&webhook, true, false), (&launch, true, true)]
        {
            assert_eq!(has(rights, "create", "secrets"), secrets);
            let everywhere = |right: &&Right| right.resource == "configmaps" && right.namespace.is_none();
            assert_eq!(rights.iter().any(|right| everywhere(&right)), barriers);
        }
        let lease = lite.iter().find(|right| right.verb == "get" && right.resource == "leases").expect("one");
        assert_eq!(lease.namespace.as_deref(), Some("here"));
        assert_eq!(lease.name.as_deref(), Some("pod-sequence-controller.example.com"));
    }

    #[test]
    fn they_are_listed_by_what_they_are_for() {
        let rights: Vec<Right> = needed(&Installed::default(), "here").into_iter().take(6).collect();
        assert_eq!(listed(&rights), "get, list, watch, patch pods; list, watch deployments.apps");
    }
}
