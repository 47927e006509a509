//! Loads objects from the cluster into an index of the core, as far as the caller may read them.

pub mod reservation;

use crate::connect::Connection;
use crate::similar::suggestion;
use anyhow::{Result, anyhow};
use jiff::Timestamp;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use rollcall_api::load::{Loader, is_served_in_lite_mode};
use rollcall_api::resource::Resource;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::{CsiNodeObject, ListOf, NamespaceObject, NodeObject, OwnerObject, PodObject};
use rollcall_core::facts::{OwnerKind, Pod};
use rollcall_core::index::Index;
use rollcall_core::kind::Kind;
use rollcall_core::sequence::spec::Scope;
use serde::de::DeserializeOwned;

/// Number of objects per page; kubectl uses the same number.
const PAGE: u32 = 500;

/// The index for one namespace, and the gaps in it.
pub struct Loaded {
    pub index: Index,
    /// The namespace whose pods are in the index.
    pub namespace: String,
    pub pod_names: Vec<String>,
    /// Objects that could not be read, and the consequence for the answer.
    pub gaps: Vec<String>,
}

impl Loaded {
    /// Returns the pod with this name, or an error that suggests similar names.
    pub fn pod(&self, name: &str) -> Result<&Pod> {
        let namespace = &self.namespace;
        self.index.cluster.pod_named(namespace, name).ok_or_else(|| {
            let names = self.pod_names.iter().map(String::as_str);
            anyhow!("no pod {name} in namespace {namespace}{}", suggestion(name, names))
        })
    }
}

/// The sequences that the caller may read: those of all namespaces, or else those of one namespace.
pub struct Sequences {
    pub objects: Vec<SequenceObject>,
    pub gap: Option<String>,
}

impl Sequences {
    pub async fn load(connection: &Connection, namespace: &str) -> Result<Sequences> {
        match list(connection, &sequences_path(None), &ListParams::default()).await {
            Ok(objects) => Ok(Sequences { objects, gap: None }),
            Err(error) if has_code(&error, 403) => {
                let objects = in_namespace(connection, namespace).await?;
                let gap = format!(
                    "not allowed to list podsequences of all namespaces: sequences of other namespaces that select pods of namespace {namespace} are unknown"
                );
                Ok(Sequences { objects, gap: Some(gap) })
            }
            Err(error) => Err(unlisted(connection, error, "in all namespaces")),
        }
    }

    /// Returns the sequence with this name, or an error that suggests similar names.
    pub fn named(&self, namespace: &str, name: &str) -> Result<&SequenceObject> {
        let here = || self.objects.iter().filter(|object| object.metadata.namespace == namespace);
        here().find(|object| object.metadata.name == name).ok_or_else(|| {
            let names = here().map(|object| object.metadata.name.as_str());
            anyhow!("no podsequence {name} in namespace {namespace}{}", suggestion(name, names))
        })
    }
}

/// Lists the sequences of one namespace.
pub async fn in_namespace(connection: &Connection, namespace: &str) -> Result<Vec<SequenceObject>> {
    let listed = list(connection, &sequences_path(Some(namespace)), &ListParams::default()).await;
    listed.map_err(|error| unlisted(connection, error, &format!("in namespace {namespace}")))
}

/// Lists the sequences of all namespaces; fails if the caller lacks the permission.
pub async fn everywhere(connection: &Connection) -> Result<Vec<SequenceObject>> {
    let listed = list(connection, &sequences_path(None), &ListParams::default()).await;
    listed.map_err(|error| unlisted(connection, error, "in all namespaces"))
}

pub fn sequences_path(namespace: Option<&str>) -> String {
    Resource::from_kind(Kind::Sequence).path(namespace)
}

fn unlisted(connection: &Connection, error: kube::Error, place: &str) -> anyhow::Error {
    if has_code(&error, 404) {
        let install = format!("{} install | kubectl apply -f -", crate::cli::program());
        return anyhow!(
            "PodSequences are not installed in the cluster at {}; run: {install}",
            connection.server
        );
    }
    connection.explained(error, &format!("list podsequences {place}"))
}

/// Loads all objects that the pods of `namespace` may wait for.
pub async fn load(
    connection: &Connection,
    namespace: &str,
    sequences: &Sequences,
    now: Timestamp,
) -> Result<Loaded> {
    let mut gaps: Vec<String> = sequences.gap.iter().cloned().collect();
    let mut loader = Loader::into_index(if is_served_in_lite_mode(&sequences.objects) {
        Index::default()
    } else {
        Index::of_full_mode()
    });
    add_nodes(connection, sequences, &mut loader, &mut gaps).await?;
    let path = Resource::from_kind(Kind::Pod).path(Some(namespace));
    let pods: Vec<PodObject> = list(connection, &path, &ListParams::default())
        .await
        .map_err(|error| connection.explained(error, &format!("list pods in namespace {namespace}")))?;
    let mut forbidden = Vec::new();
    for kind in OwnerKind::ALL.into_iter().filter_map(Kind::of_owner) {
        let Resource { plural, .. } = Resource::from_kind(kind);
        let path = Resource::from_kind(kind).path(Some(namespace));
        match list::<OwnerObject>(connection, &path, &ListParams::default()).await {
            Ok(owners) => loader.add(kind, &owners),
            Err(error) if has_code(&error, 403) => forbidden.push(plural),
            Err(error) => return Err(connection.explained(error, &format!("list {plural}"))),
        }
    }
    if !forbidden.is_empty() {
        let forbidden = forbidden.join(", ");
        gaps.push(format!(
            "not allowed to list {forbidden} in namespace {namespace}: their desired numbers of pods are unknown"
        ));
    }
    add_permissions(connection, namespace, &mut loader, &mut gaps).await?;
    loader.add(Kind::Pod, &pods);
    loader.add(Kind::Sequence, &sequences.objects);
    let pod_names = pods.into_iter().map(|pod| pod.metadata.name).collect();
    Ok(Loaded { index: loader.finish(now), namespace: namespace.to_owned(), pod_names, gaps })
}

/// Adds the permissions that a namespace grants to sequences of other namespaces.
async fn add_permissions(
    connection: &Connection,
    namespace: &str,
    loader: &mut Loader,
    gaps: &mut Vec<String>,
) -> Result<()> {
    let get = Request::new("/api/v1/namespaces").get(namespace, &GetParams::default());
    match connection.client.request::<NamespaceObject>(get.map_err(kube::Error::BuildRequest)?).await {
        Ok(object) => loader.add(Kind::Namespace, &[object]),
        Err(error) if has_code(&error, 403) => gaps.push(format!(
            "not allowed to get namespace {namespace}: it is unknown whether it permits sequences of other namespaces, so these are ignored"
        )),
        Err(error) => return Err(connection.explained(error, &format!("get namespace {namespace}"))),
    }
    Ok(())
}

/// Adds the nodes and their CSI drivers, if a sequence of scope Node is served.
async fn add_nodes(
    connection: &Connection,
    sequences: &Sequences,
    loader: &mut Loader,
    gaps: &mut Vec<String>,
) -> Result<()> {
    let by_node = |object: &SequenceObject| object.facts().spec.is_ok_and(|spec| spec.scope == Scope::Node);
    if is_served_in_lite_mode(&sequences.objects) || !sequences.objects.iter().any(by_node) {
        return Ok(());
    }
    match list::<NodeObject>(connection, "/api/v1/nodes", &ListParams::default()).await {
        Ok(nodes) => loader.add(Kind::Node, &nodes),
        Err(error) if has_code(&error, 403) => gaps.push(
            "not allowed to list nodes: the waits of sequences of scope Node come only from their statuses"
                .into(),
        ),
        Err(error) => return Err(connection.explained(error, "list nodes")),
    }
    match list::<CsiNodeObject>(connection, "/apis/storage.k8s.io/v1/csinodes", &ListParams::default()).await
    {
        Ok(nodes) => loader.add(Kind::CsiNode, &nodes),
        Err(error) if has_code(&error, 403) => {
            gaps.push("not allowed to list csinodes: the registered CSI drivers are unknown".into());
        }
        Err(error) => return Err(connection.explained(error, "list csinodes")),
    }
    Ok(())
}

/// Loads one pod and the sequences that it belongs to. This reads less, and needs fewer permissions, than [`load`].
pub async fn load_pod(connection: &Connection, name: &str, sequences: &Sequences) -> Result<Loaded> {
    let namespace = &connection.namespace;
    let path = Resource::from_kind(Kind::Pod).path(Some(namespace));
    let get = Request::new(&path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    let pods: Vec<PodObject> = match connection.client.request(get).await {
        Ok(pod) => vec![pod],
        // The error message suggests names of existing pods.
        Err(error) if has_code(&error, 404) => {
            list(connection, &path, &ListParams::default()).await.unwrap_or_default()
        }
        Err(error) => {
            return Err(connection.explained(error, &format!("get pod {name} in namespace {namespace}")));
        }
    };
    // Only membership of the pod matters here, so sequences of both scopes are loaded.
    let mut loader = Loader::into_index(Index::of_full_mode());
    let mut gaps: Vec<String> = sequences.gap.iter().cloned().collect();
    // A sequence of another namespace selects the pod only if the pod's namespace permits that.
    let is_guest = |object: &SequenceObject| {
        let facts = object.facts();
        *facts.namespace != **namespace && facts.spec.is_ok_and(|spec| *spec.pod_namespace == **namespace)
    };
    if sequences.objects.iter().any(is_guest) {
        add_permissions(connection, namespace, &mut loader, &mut gaps).await?;
    }
    loader.add(Kind::Pod, &pods);
    loader.add(Kind::Sequence, &sequences.objects);
    let pod_names = pods.into_iter().map(|pod| pod.metadata.name).collect();
    Ok(Loaded { index: loader.index, namespace: namespace.clone(), pod_names, gaps })
}

/// Lists all objects of a path, page by page.
pub async fn list<T: DeserializeOwned + Clone>(
    connection: &Connection,
    path: &str,
    params: &ListParams,
) -> Result<Vec<T>, kube::Error> {
    let mut params = params.clone().limit(PAGE);
    let mut items = Vec::new();
    loop {
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        let page: ListOf<T> = connection.client.request(request).await?;
        items.extend(page.items);
        match page.metadata.continue_token.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// Whether the API server answered with this status code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
