//! Reads the objects of a namespace, and the cluster-scoped objects that rules need, with the permissions of the caller.

use super::manifests::{Manifests, Object};
use crate::cli::Access;
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::load::{has_code, list};
use crate::output;
use anyhow::{Result, ensure};
use kube::api::ListParams;
use rollcall_sim::kinds::{Info, Kind};
use serde_json::Value;

/// Kinds that rules check.
const KINDS: [Kind; 17] = [
    Kind::Namespace,
    Kind::Node,
    Kind::PriorityClass,
    Kind::Service,
    Kind::ResourceQuota,
    Kind::PersistentVolumeClaim,
    Kind::PodDisruptionBudget,
    Kind::PodSequence,
    Kind::Order,
    Kind::Ticket,
    Kind::Deployment,
    Kind::StatefulSet,
    Kind::DaemonSet,
    Kind::CronJob,
    Kind::Job,
    Kind::ReplicaSet,
    Kind::Pod,
];

pub async fn manifests(access: &Access, namespace: Option<&str>) -> Result<Manifests<'static>> {
    let connection = Connection::open(access, namespace, REQUEST_TIMEOUT).await?;
    let (mut objects, mut closed) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let info = kind.info();
        let listed = match kind {
            // A sequence in another namespace may select pods of this one.
            Kind::PodSequence => match listed(&connection, info, None).await {
                Err(error) if has_code(&error, 403) => {
                    listed(&connection, info, Some(&connection.namespace)).await
                }
                everywhere => everywhere.map(|items| about(items, &connection.namespace)),
            },
            _ => listed(&connection, info, Some(&connection.namespace)).await,
        };
        match listed {
            Ok(items) => objects.extend(items.into_iter().filter_map(|item| own(info, item))),
            Err(error) if has_code(&error, 403) => closed.push(info.plural),
            // The CRD is not installed.
            Err(error) if has_code(&error, 404) => {}
            Err(error) => return Err(connection.explained(error, &format!("list {}", info.plural))),
        }
    }
    let namespace = &connection.namespace;
    ensure!(closed.len() < KINDS.len(), "not allowed to list anything in namespace {namespace}");
    if !closed.is_empty() {
        let closed = closed.join(", ");
        output::note(format!("not allowed to list {closed}: findings about them are missing"));
    }
    Ok(Manifests { sources: Vec::new(), objects, live: true })
}

/// Lists the objects of a kind; `namespace` is ignored for cluster-scoped kinds.
async fn listed(
    connection: &Connection,
    info: &Info,
    namespace: Option<&str>,
) -> Result<Vec<Value>, kube::Error> {
    let root = if info.group.is_empty() { "/api" } else { "/apis" };
    let api = info.api_version();
    let path = match namespace.filter(|_| info.namespaced) {
        Some(namespace) => format!("{root}/{api}/namespaces/{namespace}/{}", info.plural),
        None => format!("{root}/{api}/{}", info.plural),
    };
    list(connection, &path, &ListParams::default()).await
}

/// Keeps the sequences of a namespace, and those that select pods in it.
fn about(mut sequences: Vec<Value>, namespace: &str) -> Vec<Value> {
    sequences
        .retain(|one| one["metadata"]["namespace"] == namespace || one["spec"]["namespace"] == namespace);
    sequences
}

/// Converts a list item, which lacks its kind, to an object. Drops objects with a controlling owner: users change the owner
/// instead.
fn own(info: &Info, mut item: Value) -> Option<Object> {
    let owners = item["metadata"]["ownerReferences"].as_array();
    if owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true)) {
        return None;
    }
    item["apiVersion"] = info.api_version().into();
    item["kind"] = info.name.into();
    Some(Object::new(item, None))
}
