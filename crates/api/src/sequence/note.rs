//! Notes: what the controller must still do if a sequence is deleted while the controller is down. Each sequence has
//! one ConfigMap in the controller's namespace. A finalizer would do the same, but would block deletions once the
//! controller is uninstalled.

use crate::selector::{LabelSelector, selector_facts};
use crate::{names, watch::Meta};
use rollcall_core::{
    Uid,
    facts::OwnerKind,
    selector::{Operator, Selector},
    sequence::index::Note,
    sequence::spec::{self as core, DeletionPolicy, Enforcement, Members, NodeGuard, Scope, Spec},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of a note. A ConfigMap holds at most 1 MiB; a larger note is not written.
pub const MAX_BYTES: usize = 900 * 1024;

/// The key in the ConfigMap's data.
const KEY: &str = "note";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    uid: String,
    namespace: String,
    name: String,
    #[serde(default)]
    generation: i64,
    pod_namespace: String,
    gate: String,
    policy: String,
    members: Vec<Member>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Member {
    Pods(Vec<String>),
    PodSelector(LabelSelector),
    Workload(String),
}

/// A ConfigMap that may be a note.
#[derive(Clone, Debug, Deserialize)]
pub struct NoteObject {
    pub metadata: Meta,
    #[serde(default)]
    data: std::collections::BTreeMap<String, String>,
}

impl NoteObject {
    /// The note; `None` if it cannot be parsed, or if the ConfigMap does not have the name that belongs to the sequence
    /// in the note. A note acts with the permissions of its sequence, so a ConfigMap of any other name does not count.
    pub fn facts(&self) -> Option<Note> {
        let content: Content = serde_json::from_str(self.data.get(KEY)?).ok()?;
        let sequence = Uid::new(&content.uid);
        if self.metadata.name != name(sequence) {
            return None;
        }
        let members = content.members.iter().map(|member| match member {
            // The encoding of a group without members. It is kept, because pods refer to their group by its index.
            Member::Pods(names) if names.is_empty() => Some(Members::None),
            Member::Pods(names) => {
                Some(Members::Names(names.iter().map(|name| name.as_str().into()).collect()))
            }
            Member::PodSelector(selector) => Some(Members::Selector(selector_facts(selector))),
            Member::Workload(workload) => {
                let (kind, name) = workload.split_once('/')?;
                let kind = OwnerKind::of_word(kind)?;
                Some(Members::Workload(core::WorkloadRef { kind, name: name.into() }))
            }
        });
        let members = members.collect::<Option<Vec<Members>>>()?;
        Some(Note {
            sequence,
            version: self.metadata.version(),
            namespace: content.namespace.as_str().into(),
            name: content.name.as_str().into(),
            generation: content.generation,
            spec: Arc::new(bare_spec(&content.pod_namespace, &content.gate, members)),
        })
    }
}

/// A spec that contains only the members: all that is needed for a deleted sequence.
fn bare_spec(target: &str, gate: &str, members: Vec<Members>) -> Spec {
    let group = |(position, members): (usize, Members)| core::Group {
        id: core::unnamed_id(&members, None),
        title: format!("Group {}", position + 1).into(),
        members,
        optional: false,
        expected: None,
        min_ready: core::MinReady::Percent(100),
        until: core::Until::Auto,
        wait: Duration::ZERO,
        timeout: None,
        on_timeout: core::OnTimeout::Fail,
        after: Vec::new(),
        max_concurrent_starts: None,
        node_selector: Default::default(),
        node_ready: None,
    };
    Spec {
        pod_namespace: target.into(),
        gate: gate.into(),
        scope: Scope::Cluster,
        enforcement: Enforcement::Bootstrap,
        suspend: false,
        deletion_policy: DeletionPolicy::Release,
        guard: NodeGuard::Labels,
        groups: members.into_iter().enumerate().map(group).collect(),
    }
}

/// The name of the note of a sequence.
pub fn name(sequence: Uid) -> String {
    format!("{}{sequence}", names::NOTE_PREFIX)
}

/// The note as a ConfigMap of `namespace`; `None` if it would be too large.
pub fn config_map(note: &Note, namespace: &str) -> Option<Value> {
    let spec = &note.spec;
    let members = spec.groups.iter().map(|group| match &group.members {
        Members::Names(names) => Member::Pods(names.iter().map(|name| name.to_string()).collect()),
        Members::Selector(selector) => Member::PodSelector(label_selector(selector)),
        Members::Workload(workload) => Member::Workload(workload.to_string()),
        Members::None => Member::Pods(Vec::new()),
    });
    let content = Content {
        uid: note.sequence.to_string(),
        namespace: note.namespace.to_string(),
        name: note.name.to_string(),
        generation: note.generation,
        pod_namespace: spec.pod_namespace.to_string(),
        gate: spec.gate.to_string(),
        policy: "Release".into(),
        members: members.collect(),
    };
    let text = serde_json::to_string(&content).expect("plain data is always JSON");
    (text.len() <= MAX_BYTES).then(|| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name(note.sequence),
                "namespace": namespace,
                "labels": { names::NOTE_LABEL: names::NOTE_LABEL_VALUE },
            },
            "data": { KEY: text },
        })
    })
}

fn label_selector(selector: &Selector) -> LabelSelector {
    use crate::selector::{Requirement, SelectorOperator};
    let expressions = selector.requirements.iter().map(|requirement| {
        let owned = |values: &[Arc<str>]| values.iter().map(|value| value.to_string()).collect();
        let (operator, values) = match &requirement.operator {
            Operator::In(values) => (SelectorOperator::In, owned(values)),
            Operator::NotIn(values) => (SelectorOperator::NotIn, owned(values)),
            Operator::Exists => (SelectorOperator::Exists, Vec::new()),
            Operator::DoesNotExist => (SelectorOperator::DoesNotExist, Vec::new()),
        };
        Requirement { key: requirement.key.to_string(), operator, values }
    });
    LabelSelector { match_labels: Default::default(), match_expressions: expressions.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_only_under_the_name_of_its_sequence() {
        let sequence = Uid::digest("shop");
        let spec = bare_spec("shop", "gate", vec![Members::None, Members::Names(["db".into()].into())]);
        let note = Note {
            sequence,
            version: 7,
            namespace: "shop".into(),
            name: "shop".into(),
            generation: 1,
            spec: Arc::new(spec),
        };
        let mut object = config_map(&note, "own").expect("it is small");
        object["metadata"]["resourceVersion"] = "7".into();
        let read =
            |object: &Value| serde_json::from_value::<NoteObject>(object.clone()).expect("it is one").facts();
        assert_eq!(read(&object), Some(note));
        for other in [name(Uid::digest("another")), "podsequence-note-mine".into(), String::new()] {
            object["metadata"]["name"] = other.into();
            assert_eq!(read(&object), None);
        }
    }
}
