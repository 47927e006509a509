//! Carries out what was decided, and makes no choices of its own.

use crate::client::{self, Failure, Meaning, request};
use crate::watch::{Item, of_sequence};
use jiff::Timestamp;
use kube::Client;
use rollcall_api::names;
use rollcall_api::sequence::{KnownSpec, PodSequenceStatus, SequenceObject, note};
use rollcall_api::watch::{NodeObject, PodObject, journal_key, journal_text};
use rollcall_core::Uid;
use rollcall_core::facts::{Pod, TermShape, Wishes};
use rollcall_core::index::Note;
use rollcall_core::node::Node;
use rollcall_core::planted::{Bug, is};
use rollcall_core::sequence::nodes::Marks;
use rollcall_core::sequence::{Event, EventKind};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::sync::Arc;

/// A pod whose gate is to go.
#[derive(Clone, Debug)]
pub struct Release {
    pub pod: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub gate: Arc<str>,
    /// Labels of nodes that it must not land on.
    pub avoid: Vec<Arc<str>>,
    /// Taints that it is to tolerate.
    pub tolerate: Vec<Arc<str>>,
    /// What it says itself about its node, as it was seen, and the place of the gate in its list.
    pub wishes: Wishes,
    pub place: Option<usize>,
}

/// Takes one gate from one pod, and in the same patch keeps it off nodes that are closed.
pub async fn release(client: &Client, release: &Release) -> Result<Pod, Failure> {
    let Release { namespace, name, .. } = release;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}?fieldManager={}", names::FIELD_MANAGER);
    // A list that does not merge can only be added to.
    let lists = !release.avoid.is_empty() && !release.wishes.terms.is_empty() || !release.tolerate.is_empty();
    let (style, body) = match release.place.filter(|_| lists) {
        Some(place) => (client::JSON_PATCH, added(release, place)),
        None => (client::STRATEGIC_MERGE, merged(release)),
    };
    let patch = request("PATCH", &path, Some(style), body.to_string().into_bytes());
    let pod: PodObject = client::send(client, patch).await?;
    Ok(pod.facts())
}

/// Needs no resourceVersion: gates merge by name, and the uid in the patch makes the API server refuse it for a namesake. Where
/// there is no node affinity, one may be set while the pod is gated.
fn merged(release: &Release) -> Value {
    let Release { pod, gate, avoid, .. } = release;
    let mut body = json!({
        "metadata": { "uid": pod.to_string() },
        "spec": { "schedulingGates": [{ "$patch": "delete", "name": gate }] },
    });
    if !avoid.is_empty() {
        let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": absent(avoid) }] });
        body["spec"]["affinity"] =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    }
    if is(Bug::NoUidInRelease) {
        body["metadata"] = json!({});
    }
    if is(Bug::AllGatesGo) {
        body["spec"]["schedulingGates"] = json!([{ "$patch": "replace" }]);
    }
    body
}

/// Where there is a node affinity, each of its terms may only get more requirements, at its end.
fn added(release: &Release, place: usize) -> Value {
    let Release { pod, gate, avoid, tolerate, wishes, .. } = release;
    let required =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let gates = format!("/spec/schedulingGates/{place}");
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": pod.to_string() }),
        json!({ "op": "test", "path": format!("{gates}/name"), "value": gate }),
        json!({ "op": "remove", "path": gates }),
    ];
    for (position, term) in wishes.terms.iter().enumerate() {
        let list = format!("{required}/{position}/matchExpressions");
        match term {
            TermShape::Expressions => operations.extend(
                absent(avoid)
                    .into_iter()
                    .map(|item| json!({ "op": "add", "path": format!("{list}/-"), "value": item })),
            ),
            TermShape::FieldsOnly => {
                operations.push(json!({ "op": "add", "path": list, "value": absent(avoid) }));
            }
            // It holds nowhere, and must stay as it is.
            TermShape::Empty => {}
        }
    }
    if wishes.terms.is_empty() && !avoid.is_empty() {
        operations.push(new_affinity(wishes, avoid));
    }
    let toleration = |key: &Arc<str>| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
    operations.extend(appended(
        "/spec/tolerations",
        !wishes.no_tolerations,
        tolerate.iter().filter(|key| !wishes.tolerated.contains(key)).map(toleration).collect(),
    ));
    operations.into()
}

/// A JSON patch replaces what is there, so only the step of the way is made that is missing; a merge would do so by itself.
fn new_affinity(wishes: &Wishes, avoid: &[Arc<str>]) -> Value {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": absent(avoid) }] });
    let (path, value) = match (wishes.has_affinity, wishes.has_node_affinity) {
        (_, true) => (format!("/spec/affinity/nodeAffinity/{REQUIRED}"), terms),
        (true, false) => ("/spec/affinity/nodeAffinity".into(), json!({ REQUIRED: terms })),
        (false, false) => ("/spec/affinity".into(), json!({ "nodeAffinity": { REQUIRED: terms } })),
    };
    json!({ "op": "add", "path": path, "value": value })
}

fn appended(list: &str, exists: bool, items: Vec<Value>) -> Vec<Value> {
    match exists {
        _ if items.is_empty() => Vec::new(),
        true => {
            let each = items.into_iter();
            each.map(|item| json!({ "op": "add", "path": format!("{list}/-"), "value": item })).collect()
        }
        false => vec![json!({ "op": "add", "path": list, "value": items })],
    }
}

fn absent(keys: &[Arc<str>]) -> Vec<Value> {
    keys.iter().map(|key| json!({ "key": key, "operator": "DoesNotExist" })).collect()
}

/// Writes to a node what a sequence has to say about it. Labels and annotations merge by their keys, and the uid makes the API
/// server refuse it for another node of that name.
pub async fn mark(
    client: &Client,
    sequence: Uid,
    node: Uid,
    name: &str,
    marks: &Marks,
) -> Result<Node, Failure> {
    let mut metadata = json!({ "uid": node.to_string() });
    if !marks.labels.is_empty() {
        metadata["labels"] = json!(marks.labels);
    }
    if let Some(journal) = &marks.journal {
        metadata["annotations"] = json!({ journal_key(sequence): journal.as_ref().map(journal_text) });
    }
    let path = format!("/api/v1/nodes/{name}?fieldManager={}", names::FIELD_MANAGER);
    let (style, body) = match marks.taints.is_nothing() {
        true => (client::MERGE, json!({ "metadata": metadata })),
        false => (client::JSON_PATCH, with_taints(sequence, node, marks)),
    };
    let body = body.to_string().into_bytes();
    let node: NodeObject = client::send(client, request("PATCH", &path, Some(style), body)).await?;
    Ok(node.facts())
}

/// The taints of a node are one list: it has to be as it was seen, and what is not ours is not touched. What is written down goes
/// into the same patch.
fn with_taints(sequence: Uid, node: Uid, marks: &Marks) -> Value {
    let Marks { labels, journal, taints } = marks;
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": node.to_string() }),
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": taints.version.to_string() }),
    ];
    for (place, key) in taints.remove.iter().filter(|_| !is(Bug::TaintsReplaced)) {
        let at = format!("/spec/taints/{place}");
        operations.push(json!({ "op": "test", "path": format!("{at}/key"), "value": key }));
        operations.push(json!({ "op": "remove", "path": at }));
    }
    let new = |key: &Arc<str>| json!({ "key": key, "value": sequence.to_string(), "effect": "NoSchedule" });
    let had_any = taints.had_any && !is(Bug::TaintsReplaced);
    operations.extend(appended("/spec/taints", had_any, taints.add.iter().map(new).collect()));
    let mut set = |path: String, value: Option<Value>| {
        operations.push(match value {
            Some(value) => json!({ "op": "add", "path": path, "value": value }),
            None => json!({ "op": "remove", "path": path }),
        });
    };
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    for (key, value) in labels {
        set(format!("/metadata/labels/{}", escaped(key)), value.as_ref().map(|value| json!(value)));
    }
    if let Some(journal) = journal {
        let (key, text) = (journal_key(sequence), journal.as_ref().map(journal_text));
        match taints.annotated {
            true => set(format!("/metadata/annotations/{}", escaped(&key)), text.map(Value::from)),
            false => set("/metadata/annotations".into(), Some(json!({ key: text }))),
        }
    }
    operations.into()
}

/// How a pod is now, after a release whose outcome is not known.
pub async fn look(client: &Client, namespace: &str, name: &str) -> Result<Pod, Failure> {
    let pod: PodObject = client::get(client, &format!("/api/v1/namespaces/{namespace}/pods/{name}")).await?;
    Ok(pod.facts())
}

/// Writes the note of a sequence, over the one that is there if it is `known`. Should that not be so any more, the other way
/// is tried at once.
pub async fn write_note(client: &Client, own: &str, wanted: &Note, known: bool) -> Result<Note, Failure> {
    let too_large =
        || Failure { code: Some(413), message: "the note would be larger than a ConfigMap".into() };
    let content = note::config_map(wanted, own).ok_or_else(too_large)?;
    let (name, manager) = (note::name(wanted.sequence), names::FIELD_MANAGER);
    let create = || {
        let path = format!("/api/v1/namespaces/{own}/configmaps?fieldManager={manager}");
        request("POST", &path, Some(client::JSON), content.to_string().into_bytes())
    };
    let replace = || {
        let path = format!("/api/v1/namespaces/{own}/configmaps/{name}?fieldManager={manager}");
        let body = json!({ "data": content["data"] });
        request("PATCH", &path, Some(client::MERGE), body.to_string().into_bytes())
    };
    let (first, other) = if known { (replace(), 404) } else { (create(), 409) };
    let written: note::NoteObject = match client::send(client, first).await {
        Err(failure) if failure.code == Some(other) => {
            client::send(client, if known { create() } else { replace() }).await?
        }
        answer => answer?,
    };
    written.facts().ok_or(Failure { code: None, message: "the note cannot be read back".into() })
}

pub async fn drop_note(client: &Client, own: &str, sequence: Uid) -> Result<(), Failure> {
    if is(Bug::NotesStay) {
        return Ok(());
    }
    let path = format!("/api/v1/namespaces/{own}/configmaps/{}", note::name(sequence));
    match client::send::<IgnoredAny>(client, request("DELETE", &path, None, Vec::new())).await {
        Err(failure) if failure.code == Some(404) => Ok(()),
        answer => answer.map(drop),
    }
}

/// A status to be written: to this uid, and only if the object is still as it was when this was decided.
#[derive(Clone, Debug)]
pub struct StatusWrite {
    pub uid: Uid,
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
    pub status: PodSequenceStatus,
    /// What it was decided for; the answer need not be read for it again.
    pub spec: KnownSpec,
}

pub async fn write_status(client: &Client, write: StatusWrite) -> Result<Item, Failure> {
    let StatusWrite { uid, namespace, name, resource_version, status, spec } = write;
    let body = json!([
        { "op": "test", "path": "/metadata/uid", "value": uid.to_string() },
        { "op": "test", "path": "/metadata/resourceVersion", "value": resource_version },
        { "op": "add", "path": "/status", "value": status },
    ]);
    let body = if is(Bug::NoTestInStatus) { json!([body[2]]) } else { body };
    let path = format!(
        "/apis/{}/namespaces/{namespace}/{}/{name}/status?fieldManager={}",
        names::SEQUENCE_API_VERSION,
        names::SEQUENCE_PLURAL,
        names::FIELD_MANAGER
    );
    let patch = request("PATCH", &path, Some(client::JSON_PATCH), body.to_string().into_bytes());
    let sequence: SequenceObject = client::send(client, patch).await?;
    Ok(of_sequence(&sequence, sequence.facts_knowing(Some(&spec))))
}

/// An event about a sequence.
#[derive(Clone, Debug)]
pub struct EventWrite {
    pub uid: Uid,
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
    pub event: Event,
    pub at: Timestamp,
    pub instance: String,
}

pub async fn write_event(client: &Client, write: EventWrite) -> Result<(), Failure> {
    let EventWrite { uid, namespace, name, resource_version, event, at, instance } = write;
    let kind = match event.kind {
        EventKind::Normal => "Normal",
        EventKind::Warning => "Warning",
    };
    // The time in the name, as client libraries do it; sequences have at most one event a second.
    let suffix = at.as_millisecond();
    let short: String = name.chars().take(200).collect();
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": format!("{short}.{suffix:x}"), "namespace": namespace },
        "eventTime": format!("{at:.6}"),
        "type": kind,
        "reason": event.reason,
        "action": "Sequence",
        "note": event.message,
        "reportingController": names::LEASE,
        "reportingInstance": instance,
        "regarding": {
            "apiVersion": names::SEQUENCE_API_VERSION,
            "kind": names::SEQUENCE_KIND,
            "namespace": namespace,
            "name": name,
            "uid": uid.to_string(),
            "resourceVersion": resource_version,
        },
    });
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let post = request("POST", &path, Some(client::JSON), body.to_string().into_bytes());
    match client::send::<IgnoredAny>(client, post).await {
        // Written already, by an attempt whose answer was lost.
        Err(failure) if failure.code == Some(409) && failure.meaning() == Meaning::Moved => Ok(()),
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::sequence::nodes::Taints;

    fn release(wishes: Wishes) -> Release {
        let (avoid, tolerate) = (vec!["avoid".into()], vec!["taint".into()]);
        let (pod, place) = (Uid::digest("p"), Some(1));
        Release {
            pod,
            namespace: "n".into(),
            name: "p".into(),
            gate: "g".into(),
            avoid,
            tolerate,
            wishes,
            place,
        }
    }

    /// A pod with its gates and what it asks of its node, after the patch.
    fn released(mut spec: Value, wishes: Wishes) -> Value {
        spec["schedulingGates"] = json!([{ "name": "other" }, { "name": "g" }]);
        let mut pod = json!({ "metadata": { "uid": Uid::digest("p").to_string() }, "spec": spec });
        let patch: json_patch::Patch =
            serde_json::from_value(added(&release(wishes), 1)).expect("a JSON patch");
        json_patch::patch(&mut pod, &patch).expect("it fits");
        assert_eq!(pod["spec"]["schedulingGates"], json!([{ "name": "other" }]));
        pod["spec"].take()
    }

    #[test]
    fn what_a_pod_asks_of_its_node_is_added_to_and_never_replaced() {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        let (ours, theirs) =
            (json!({ "key": "avoid", "operator": "DoesNotExist" }), json!({ "key": "zone" }));
        let terms = |terms: Value| json!({ "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": terms } } });
        let new = terms(json!([{ "matchExpressions": [ours] }]));
        let toleration = json!({ "key": "taint", "operator": "Exists", "effect": "NoSchedule" });

        let bare = Wishes { no_tolerations: true, ..Wishes::default() };
        let after = released(json!({}), bare);
        assert_eq!((&after["affinity"], &after["tolerations"]), (&new, &json!([toleration])));

        let apart = json!({ "podAntiAffinity": { "x": 1 } });
        let spec = json!({ "affinity": apart, "tolerations": [{ "key": "own" }] });
        let after = released(spec, Wishes { has_affinity: true, ..Wishes::default() });
        assert_eq!(after["affinity"]["podAntiAffinity"], apart["podAntiAffinity"]);
        assert_eq!(after["affinity"]["nodeAffinity"], new["nodeAffinity"]);
        assert_eq!(after["tolerations"], json!([{ "key": "own" }, toleration]));

        // The webhook was first.
        let tolerated = Wishes { tolerated: ["taint".into()].into(), ..Wishes::default() };
        let after = released(json!({ "tolerations": [toleration] }), tolerated);
        assert_eq!(after["tolerations"], json!([toleration]));

        let given = json!([{ "matchExpressions": [theirs] }, { "matchFields": [theirs] }, {}]);
        let shapes = [TermShape::Expressions, TermShape::FieldsOnly, TermShape::Empty].into();
        let wishes = Wishes {
            terms: shapes,
            has_affinity: true,
            has_node_affinity: true,
            no_tolerations: true,
            tolerated: Box::default(),
            pin: None,
        };
        let expected = json!([
            { "matchExpressions": [theirs, ours] }, { "matchFields": [theirs], "matchExpressions": [ours] }, {},
        ]);
        assert_eq!(released(json!({ "affinity": terms(given) }), wishes)["affinity"], terms(expected));
    }

    #[test]
    fn taints_of_others_stay_where_they_are() {
        let (sequence, uid) = (Uid::digest("s"), Uid::digest("n"));
        let journal = Some(Some(Default::default()));
        for annotated in [true, false] {
            let taints = Taints {
                version: 7,
                had_any: true,
                annotated,
                remove: vec![(1, "old".into())],
                add: vec!["new".into()],
            };
            let marks = Marks { labels: [("l/1".into(), None)].into(), journal: journal.clone(), taints };
            let mut node = json!({
                "metadata": { "uid": uid.to_string(), "resourceVersion": "7", "labels": { "l/1": "x", "k": "v" } },
                "spec": { "taints": [{ "key": "a", "timeAdded": "t" }, { "key": "old" }, { "key": "b" }] },
            });
            if annotated {
                node["metadata"]["annotations"] = json!({ "theirs": "1" });
            }
            let patch = with_taints(sequence, uid, &marks);
            let patch: json_patch::Patch = serde_json::from_value(patch).expect("a JSON patch");
            json_patch::patch(&mut node, &patch).expect("it fits");
            let new = json!({ "key": "new", "value": sequence.to_string(), "effect": "NoSchedule" });
            let expected = json!([{ "key": "a", "timeAdded": "t" }, { "key": "b" }, new]);
            assert_eq!(node["spec"]["taints"], expected);
            assert_eq!(node["metadata"]["labels"], json!({ "k": "v" }));
            let annotations = node["metadata"]["annotations"].as_object().expect("there are some");
            assert!(annotations.contains_key(&journal_key(sequence)));
            assert_eq!(annotations.contains_key("theirs"), annotated);
        }
    }
}
