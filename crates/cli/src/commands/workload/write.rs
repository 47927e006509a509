//! A change of one object: the request, and its description for the user.

use super::world::{Workload, World};
use crate::connect::Connection;
use crate::load::{has_code, sequences_path};
use anyhow::{Result, anyhow};
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use rollcall_api::names;
use rollcall_api::resource::Resource;
use rollcall_core::Uid;
use rollcall_core::facts::{OwnerKind, Pod};
use rollcall_core::kind::Kind;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub target: WriteTarget,
    /// Description for the user, such as `deployment/web: 3 → 0`.
    pub says: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WriteTarget {
    /// A merge patch of a workload, valid only for the version that was read.
    Workload { kind: OwnerKind, name: String, uid: String, body: Value },
    /// A merge patch of the annotation that requests another start.
    Sequence { name: String, body: Value },
    /// A deletion of a pod.
    Pod { name: String, uid: String },
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    /// The object has changed or no longer exists; read it again.
    Moved,
}

impl Write {
    /// Changes annotations and spec fields of a workload; annotations without a value are removed. The patch fails if the
    /// workload has changed since it was read, because the new values depend on the old ones.
    pub fn of_workload(
        workload: &Workload,
        annotations: &[(&str, Option<String>)],
        spec: Value,
        says: impl Into<String>,
    ) -> Write {
        let meta = &workload.fields.metadata;
        let annotations: Value =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let mut body = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations,
        }});
        if !spec.is_null() {
            body["spec"] = spec;
        }
        let uid = meta.uid.clone().unwrap_or_default();
        let target =
            WriteTarget::Workload { kind: workload.kind, name: workload.name().to_owned(), uid, body };
        Write { target, says: format!("{}: {}", workload.title(), says.into()) }
    }

    pub fn of_pod(pod: &Pod) -> Write {
        let target = WriteTarget::Pod { name: pod.name.to_string(), uid: pod.uid.to_string() };
        Write { target, says: format!("pod/{}: deleted", pod.name) }
    }

    /// Requests another start. The value is only compared, so the clock does not matter.
    pub fn begin_again(world: &World, start: &str) -> Write {
        let meta = &world.sequence.metadata;
        let annotations = json!({(names::BEGIN_AGAIN): start});
        let body = json!({"metadata": {"uid": meta.uid, "annotations": annotations}});
        let target = WriteTarget::Sequence { name: meta.name.clone(), body };
        Write { target, says: format!("podsequence/{}: new start requested", meta.name) }
    }

    /// The workload that it changes.
    pub fn workload(&self) -> Option<Uid> {
        match &self.target {
            WriteTarget::Workload { uid, .. } => Some(Uid::new(uid)),
            WriteTarget::Sequence { .. } | WriteTarget::Pod { .. } => None,
        }
    }

    /// The permission that it needs: a verb and a resource.
    pub fn right(&self) -> (&'static str, Kind) {
        match &self.target {
            WriteTarget::Workload { kind, .. } => {
                ("patch", Kind::of_owner(*kind).unwrap_or(Kind::Deployment))
            }
            WriteTarget::Sequence { .. } => ("patch", Kind::Sequence),
            WriteTarget::Pod { .. } => ("delete", Kind::Pod),
        }
    }

    pub async fn send(&self, connection: &Connection, namespace: &str) -> Result<Written> {
        let params = PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..Default::default() };
        let (sent, doing) = match &self.target {
            WriteTarget::Workload { kind, name, body, .. } => {
                let kind = Kind::of_owner(*kind).ok_or_else(|| anyhow!("{name} is not a workload"))?;
                let resource = Resource::from_kind(kind);
                let path = resource.path(Some(namespace));
                let doing = format!("patch {} {name} in namespace {namespace}", resource.plural);
                (patch(connection, &path, name, &params, body).await, doing)
            }
            WriteTarget::Sequence { name, body } => {
                let path = sequences_path(Some(&connection.namespace));
                (patch(connection, &path, name, &params, body).await, format!("patch podsequence {name}"))
            }
            WriteTarget::Pod { name, uid } => {
                let pods = Api::<KubePod>::namespaced(connection.client.clone(), namespace);
                let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                (pods.delete(name, &params).await.map(drop), format!("delete pod {name}"))
            }
        };
        match sent {
            Ok(()) => Ok(Written::Done),
            Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(Written::Moved),
            Err(error) => Err(connection.explained(error, &doing)),
        }
    }
}

async fn patch(
    connection: &Connection,
    path: &str,
    name: &str,
    params: &PatchParams,
    body: &Value,
) -> Result<(), kube::Error> {
    let request = Request::new(path).patch(name, params, &Patch::Merge(body));
    let request = request.map_err(kube::Error::BuildRequest)?;
    connection.client.request::<Value>(request).await.map(drop)
}
