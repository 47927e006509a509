//! What becomes of a new object before it is looked at: defaults, what admission adds, a first status.

use super::defaults::{self, PodAdmissionContext};
use super::refusal::Refusal;
use super::{admission, quota};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use serde_json::{Value, json};

/// `generated`: its name is made up by the server, who lets admission look first.
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

/// Where a new Service is found, unless it wants no address. Nothing listens there.
fn give_address(cluster: &Cluster, spec: &mut Value) {
    if spec["type"] == "ExternalName" || spec["clusterIP"].as_str().is_some_and(|address| !address.is_empty())
    {
        return;
    }
    // Versions are never given twice, so these are not either, up to a million.
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

/// There is one class at most that is given to those who name none.
pub fn admit_class(cluster: &Cluster, class: &Value) -> Result<(), Refusal> {
    let classes: Vec<&Value> =
        cluster.store.list(Kind::PriorityClass, None).map(|(_, class)| &class.value).collect();
    defaults::admit_class(class, &classes)
}

/// What the cluster adds at once to a namespace that is new. In a real one a controller does, a moment later.
pub fn settled(cluster: &mut Cluster, kind: Kind, object: &Value) {
    if kind == Kind::Namespace {
        let account = json!({ "metadata": { "name": "default", "namespace": object["metadata"]["name"] } });
        let _ = cluster.create(Kind::ServiceAccount, account);
    }
}
