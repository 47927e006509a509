//! Prepares a new object before its validation: defaults, admission, initial status.

use super::defaults::{self, PodAdmissionContext};
use super::refusal::Refusal;
use super::{admission, quota};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use serde_json::{Value, json};

/// Prepares a new object. `generated` means that the server generates its name, after admission.
pub fn created(
    cluster: &mut Cluster,
    kind: Kind,
    object: &mut Value,
    generated: bool,
) -> Result<(), Refusal> {
    defaults::fill(kind, object);
    match kind {
        Kind::Pod => admit_pod(cluster, object, generated)?,
        Kind::PriorityClass => admit_class(cluster, object)?,
        _ => {
            defaults::admit(kind, object);
            admission::review(cluster, kind, object, generated)?;
        }
    }
    defaults::initial_status(kind, object);
    if kind == Kind::Service {
        give_address(cluster, &mut object["spec"]);
    }
    Ok(())
}

/// Assigns a cluster IP to a new Service, unless it needs none. Nothing listens there.
fn give_address(cluster: &Cluster, spec: &mut Value) {
    if spec["type"] == "ExternalName" || spec["clusterIP"].as_str().is_some_and(|address| !address.is_empty())
    {
        return;
    }
    // Store versions are unique, so these addresses are unique, up to a million.
    let number = cluster.store.version() % (1 << 20);
    let address = format!("10.{}.{}.{}", 96 + (number >> 16), (number >> 8) & 0xff, number & 0xff);
    spec["clusterIP"] = address.as_str().into();
    spec["clusterIPs"] = json!([address]);
}

fn admit_pod(cluster: &mut Cluster, pod: &mut Value, generated: bool) -> Result<(), Refusal> {
    let suffix = cluster.chance.suffix();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let classes: Vec<&Value> =
        cluster.store.list(Kind::PriorityClass, None).map(|(_, class)| &class.value).collect();
    let accounts: Vec<&Value> = cluster
        .store
        .list(Kind::ServiceAccount, Some(namespace))
        .map(|(_, account)| &account.value)
        .collect();
    let context = PodAdmissionContext { classes: &classes, accounts: Some(&accounts), suffix: &suffix };
    defaults::admit_pod(pod, &context)?;
    admission::review(cluster, Kind::Pod, pod, generated)?;
    quota::admit(cluster, pod)
}

/// Checks that at most one class is the default.
pub fn admit_class(cluster: &Cluster, class: &Value) -> Result<(), Refusal> {
    let classes: Vec<&Value> =
        cluster.store.list(Kind::PriorityClass, None).map(|(_, class)| &class.value).collect();
    defaults::admit_class(class, &classes)
}

/// Adds the default service account to a new namespace. In a real cluster a controller does so slightly later.
pub fn settled(cluster: &mut Cluster, kind: Kind, object: &Value) {
    if kind == Kind::Namespace {
        let account = json!({ "metadata": { "name": "default", "namespace": object["metadata"]["name"] } });
        let _ = cluster.create(Kind::ServiceAccount, account);
    }
}
