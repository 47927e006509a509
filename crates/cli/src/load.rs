//! Objects of the cluster → facts in an index of the core, as far as the caller may read them.

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

/// Objects per answer: what kubectl asks for.
const PAGE: u32 = 500;

/// What the facts of one namespace rest on.
pub struct Loaded {
    pub index: Index,
    /// The namespace whose pods are in the index.
    pub namespace: String,
    pub pod_names: Vec<String>,
    /// What could not be read, and what that means for the answer.
    pub gaps: Vec<String>,
}

impl Loaded {
    /// The pod of this name, or an error that says which there are.
    pub fn pod(&self, name: &str) -> Result<&Pod> {
        let namespace = &self.namespace;
        self.index.cluster.pod_named(namespace, name).ok_or_else(|| {
            let names = self.pod_names.iter().map(String::as_str);
            anyhow!("no pod {name} in namespace {namespace}{}", suggestion(name, names))
        })
    }
}

/// The sequences that the caller may see: all, or else those of one namespace.
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
                    "not allowed to list podsequences of all namespaces: sequences elsewhere that claim pods of namespace {namespace} are not seen"
                );
                Ok(Sequences { objects, gap: Some(gap) })
            }
            Err(error) => Err(unlisted(connection, error, "in all namespaces")),
        }
    }

    /// The sequence of this name, or an error that says which there are.
    pub fn named(&self, namespace: &str, name: &str) -> Result<&SequenceObject> {
        let here = || self.objects.iter().filter(|object| object.metadata.namespace == namespace);
        here().find(|object| object.metadata.name == name).ok_or_else(|| {
            let names = here().map(|object| object.metadata.name.as_str());
            anyhow!("no podsequence {name} in namespace {namespace}{}", suggestion(name, names))
        })
    }
}

/// The sequences of one namespace.
pub async fn in_namespace(connection: &Connection, namespace: &str) -> Result<Vec<SequenceObject>> {
    let listed = list(connection, &sequences_path(Some(namespace)), &ListParams::default()).await;
    listed.map_err(|error| unlisted(connection, error, &format!("in namespace {namespace}")))
}

/// The sequences of all namespaces; an error where the caller may not see them.
pub async fn everywhere(connection: &Connection) -> Result<Vec<SequenceObject>> {
    let listed = list(connection, &sequences_path(None), &ListParams::default()).await;
    listed.map_err(|error| unlisted(connection, error, "in all namespaces"))
}

pub fn sequences_path(namespace: Option<&str>) -> String {
    Resource::of(Kind::Sequence).path(namespace)
}

fn unlisted(connection: &Connection, error: kube::Error, place: &str) -> anyhow::Error {
    if has_code(&error, 404) {
        let install = format!("{} install | kubectl apply -f -", crate::cli::program());
        return anyhow!("the cluster at {} does not know PodSequences; {install}", connection.server);
    }
    connection.explained(error, &format!("list podsequences {place}"))
}

/// Everything that the pods of `namespace` can be waiting for.
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
    let path = Resource::of(Kind::Pod).path(Some(namespace));
    let pods: Vec<PodObject> = list(connection, &path, &ListParams::default())
        .await
        .map_err(|error| connection.explained(error, &format!("list pods in namespace {namespace}")))?;
    let mut forbidden = Vec::new();
    for kind in OwnerKind::ALL.into_iter().filter_map(Kind::of_owner) {
        let Resource { plural, .. } = Resource::of(kind);
        let path = Resource::of(kind).path(Some(namespace));
        match list::<OwnerObject>(connection, &path, &ListParams::default()).await {
            Ok(owners) => loader.add(kind, &owners),
            Err(error) if has_code(&error, 403) => forbidden.push(plural),
            Err(error) => return Err(connection.explained(error, &format!("list {plural}"))),
        }
    }
    if !forbidden.is_empty() {
        let forbidden = forbidden.join(", ");
        gaps.push(format!(
            "not allowed to list {forbidden} in namespace {namespace}: how many pods they want is not known"
        ));
    }
    add_permissions(connection, namespace, &mut loader, &mut gaps).await?;
    loader.add(Kind::Pod, &pods);
    loader.add(Kind::Sequence, &sequences.objects);
    let pod_names = pods.into_iter().map(|pod| pod.metadata.name).collect();
    Ok(Loaded { index: loader.finish(now), namespace: namespace.to_owned(), pod_names, gaps })
}

/// Adds what a namespace permits.
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
            "not allowed to get namespace {namespace}: whether it permits sequences from elsewhere is not known, and they are left out"
        )),
        Err(error) => return Err(connection.explained(error, &format!("get namespace {namespace}"))),
    }
    Ok(())
}

/// Adds the nodes and their CSI drivers, if a sequence of Node scope is served.
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
            "not allowed to list nodes: what sequences of scope Node wait for can only be read from their status".into(),
        ),
        Err(error) => return Err(connection.explained(error, "list nodes")),
    }
    match list::<CsiNodeObject>(connection, "/apis/storage.k8s.io/v1/csinodes", &ListParams::default()).await
    {
        Ok(nodes) => loader.add(Kind::CsiNode, &nodes),
        Err(error) if has_code(&error, 403) => {
            gaps.push("not allowed to list csinodes: which CSI drivers are registered is not known".into());
        }
        Err(error) => return Err(connection.explained(error, "list csinodes")),
    }
    Ok(())
}

/// One pod and the sequences that claim it: less to read, and fewer permissions needed, than everything it may wait for.
pub async fn load_pod(connection: &Connection, name: &str, sequences: &Sequences) -> Result<Loaded> {
    let namespace = &connection.namespace;
    let path = Resource::of(Kind::Pod).path(Some(namespace));
    let get = Request::new(&path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    let pods: Vec<PodObject> = match connection.client.request(get).await {
        Ok(pod) => vec![pod],
        // For the names of the pods that exist instead.
        Err(error) if has_code(&error, 404) => {
            list(connection, &path, &ListParams::default()).await.unwrap_or_default()
        }
        Err(error) => {
            return Err(connection.explained(error, &format!("get pod {name} in namespace {namespace}")));
        }
    };
    // Only the claims on the pod matter here, in both scopes.
    let mut loader = Loader::into_index(Index::of_full_mode());
    let mut gaps: Vec<String> = sequences.gap.iter().cloned().collect();
    // A sequence of another namespace claims the pod only where that is permitted.
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

/// All objects of a list, page by page.
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

/// Whether the API server answered with this code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
