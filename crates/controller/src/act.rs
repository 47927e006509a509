//! Sends the decided writes, and makes no decisions of its own. `rollcall_api::patch` builds the bodies.

use crate::client::{self, Failure, Meaning, request};
use crate::watch::{Item, of_order, of_sequence};
use jiff::Timestamp;
use kube::Client;
use rollcall_api::names;
use rollcall_api::patch::{self, Body, Style};
use rollcall_api::reservation::{OrderObject, OrderStatus};
use rollcall_api::resource::Resource;
use rollcall_api::sequence::{KnownSpec, PodSequenceStatus, SequenceObject, note};
use rollcall_api::watch::{KeptLabels, NodeObject, PodObject};
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::decision::{Event, EventKind, NodePatch, PodPatch, Subject};
use rollcall_core::index::Object;
use rollcall_core::kind::Kind;
use rollcall_core::planted::{Bug, planted};
use rollcall_core::sequence::index::Note;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

/// The result of a request: the current object, where the caller needs it.
pub type WriteAnswer = Result<Option<Item>, Failure>;

pub(crate) async fn send_patch<T: DeserializeOwned>(
    client: &Client,
    object: &str,
    body: &Body,
) -> Result<T, Failure> {
    let path = format!("{object}?fieldManager={}", names::FIELD_MANAGER);
    let content = Some(body.style.content_type());
    client::send(client, request("PATCH", &path, content, body.value.to_string().into_bytes())).await
}

pub async fn patch_pod(client: &Client, pod: &PodPatch, labels: &KeptLabels) -> WriteAnswer {
    let path = Resource::path_to(&pod.target());
    let pod: PodObject = send_patch(client, &path, &patch::pod(pod)).await?;
    Ok(Some(Item::plain(Object::Pod(pod.facts_keeping(labels)))))
}

/// Reads the current pod, after a write with an unknown outcome.
pub async fn get_pod(client: &Client, pod: &Target, labels: &KeptLabels) -> WriteAnswer {
    let pod: PodObject = client::get(client, &Resource::path_to(pod)).await?;
    Ok(Some(Item::plain(Object::Pod(pod.facts_keeping(labels)))))
}

pub async fn patch_node(client: &Client, node: &NodePatch) -> WriteAnswer {
    let path = format!("{}/{}", Resource::from_kind(Kind::Node).path(None), node.name);
    let node: NodeObject = send_patch(client, &path, &patch::node(node)).await?;
    Ok(Some(Item::plain(Object::Node(node.facts()))))
}

/// Writes the note of a sequence: replaces it if it is `known`, else creates it. If the assumption is outdated, the other
/// method is tried immediately.
pub async fn write_note(client: &Client, own: &str, wanted: &Note, known: bool) -> WriteAnswer {
    let too_large =
        || Failure { code: Some(413), message: "the note would exceed the size limit of a ConfigMap".into() };
    let content = note::config_map(wanted, own).ok_or_else(too_large)?;
    let (name, manager) = (note::name(wanted.sequence), names::FIELD_MANAGER);
    let create = || {
        let path = format!("/api/v1/namespaces/{own}/configmaps?fieldManager={manager}");
        request("POST", &path, Some(client::JSON), content.to_string().into_bytes())
    };
    let replace = || {
        let path = format!("/api/v1/namespaces/{own}/configmaps/{name}?fieldManager={manager}");
        let body = json!({ "data": content["data"] });
        request("PATCH", &path, Some(Style::Merge.content_type()), body.to_string().into_bytes())
    };
    let (first, other) = if known { (replace(), 404) } else { (create(), 409) };
    let written: note::NoteObject = match client::send(client, first).await {
        Err(failure) if failure.code == Some(other) => {
            client::send(client, if known { create() } else { replace() }).await?
        }
        answer => answer?,
    };
    let note = written.facts();
    let note = note.ok_or(Failure {
        code: None,
        message: "the API server returned a note that cannot be parsed".into(),
    })?;
    Ok(Some(Item::plain(Object::Note(note))))
}

pub async fn drop_note(client: &Client, own: &str, sequence: Uid) -> WriteAnswer {
    if planted(Bug::NotesStay) {
        return Ok(None);
    }
    let path = format!("/api/v1/namespaces/{own}/configmaps/{}", note::name(sequence));
    match client::send::<IgnoredAny>(client, request("DELETE", &path, None, Vec::new())).await {
        Err(failure) if failure.code == Some(404) => Ok(None),
        answer => answer.map(|_| None),
    }
}

/// A status to write.
pub struct StatusWrite {
    pub target: Target,
    pub resource_version: String,
    pub status: NewStatus,
}

pub enum NewStatus {
    Sequence {
        status: Box<PodSequenceStatus>,
        /// The spec that the status was decided for, so that the answer is not parsed for it again.
        spec: KnownSpec,
    },
    Order(Box<OrderStatus>),
}

pub async fn write_status(client: &Client, write: StatusWrite) -> WriteAnswer {
    let StatusWrite { target, resource_version, status } = write;
    let path = format!("{}/status", Resource::path_to(&target));
    let item = match status {
        NewStatus::Sequence { status, spec } => {
            let body = patch::status(target.uid, &resource_version, &status);
            let sequence: SequenceObject = send_patch(client, &path, &body).await?;
            of_sequence(&sequence, sequence.facts_knowing(Some(&spec)))
        }
        NewStatus::Order(status) => {
            let body = patch::status(target.uid, &resource_version, &status);
            of_order(&send_patch::<OrderObject>(client, &path, &body).await?)
        }
    };
    Ok(Some(item))
}

/// An event to write.
#[derive(Clone, Debug)]
pub struct EventWrite {
    pub event: Event,
    /// The version of the object of the event.
    pub version: u64,
    /// The action in one word.
    pub action: &'static str,
    pub at: Timestamp,
    pub instance: String,
}

pub async fn write_event(client: &Client, write: EventWrite) -> WriteAnswer {
    let EventWrite { event, version, action, at, instance } = write;
    let Subject { kind, namespace, name, uid } = event.about;
    let resource = Resource::from_kind(kind);
    let event_type = match event.kind {
        EventKind::Normal => "Normal",
        EventKind::Warning => "Warning",
    };
    // The name contains the time, as in client libraries; an object has at most one event per second.
    let suffix = at.as_millisecond();
    let short: String = name.chars().take(200).collect();
    // Events about cluster-scoped objects belong to this namespace.
    let place = if namespace.is_empty() { "default" } else { &*namespace };
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": format!("{short}.{suffix:x}"), "namespace": place },
        "eventTime": format!("{at:.6}"),
        "type": event_type,
        "reason": event.reason,
        "action": action,
        "note": event.message,
        "reportingController": names::LEASE,
        "reportingInstance": instance,
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": namespace,
            "name": name,
            "uid": uid.to_string(),
            "resourceVersion": version.to_string(),
        },
    });
    let path = format!("/apis/events.k8s.io/v1/namespaces/{place}/events");
    let post = request("POST", &path, Some(client::JSON), body.to_string().into_bytes());
    match client::send::<IgnoredAny>(client, post).await {
        // An earlier attempt wrote the event, but its answer was lost.
        Err(failure) if failure.code == Some(409) && failure.meaning() == Meaning::Moved => Ok(None),
        answer => answer.map(|_| None),
    }
}
