//! What our own admission does to new pods and nodes, in clusters in which it is installed: `config/admission`, or the
//! webhook, which gives the same. It is the webhook's own review that is asked here, with who claims pods as it is stored
//! at this moment.

use super::patch::{self, Style};
use super::refusal::Refusal;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::launch::asks_for_order;
use rollcall_api::names;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::NamespaceObject;
use rollcall_core::index::{Index, Object};
use rollcall_core::roster::Roster;
use rollcall_webhook::Asked;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Default)]
pub struct Admission {
    pub installed: bool,
    roster: Roster,
    /// What the roster was made of: how many sequences and namespaces, and the newest version of any.
    made_of: (usize, u64),
}

/// Changes a new object as our admission would, or refuses it. `generated`: the API server makes up its name only afterwards.
pub fn review(cluster: &mut Cluster, kind: Kind, object: &mut Value, generated: bool) -> Result<(), Refusal> {
    if !cluster.admission.installed {
        return Ok(());
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    // One after the other, as the API server calls them: in the order of the names of their configurations.
    for asked in [Asked::Launch, Asked::Sequences] {
        let concerned = match (asked, kind) {
            (Asked::Launch, Kind::Pod) => asks_for_order(object),
            (Asked::Sequences, Kind::Pod) => is_enabled(cluster, &namespace),
            (Asked::Sequences, Kind::Node) => true,
            _ => false,
        };
        if concerned {
            ask(cluster, asked, kind, &namespace, object, generated)?;
        }
    }
    Ok(())
}

fn ask(
    cluster: &mut Cluster,
    asked: Asked,
    kind: Kind,
    namespace: &str,
    object: &mut Value,
    generated: bool,
) -> Result<(), Refusal> {
    if kind == Kind::Pod && asked == Asked::Sequences {
        cluster.refresh_roster();
    }
    let mut seen = object.clone();
    // A name that the first one has chosen is there for the second one.
    if let (true, Some(metadata)) = (generated && !is_ordered(object), seen["metadata"].as_object_mut()) {
        metadata.remove("name");
    }
    let request = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": object["metadata"]["uid"], "operation": "CREATE", "namespace": namespace, "object": seen,
            "resource": { "group": kind.info().group, "version": kind.info().version, "resource": kind.info().plural },
        },
    });
    let answer = rollcall_webhook::review(asked, &request, &cluster.admission.roster);
    let response = &answer["response"];
    if response["allowed"] == false {
        let message = response["status"]["message"].as_str().unwrap_or_default();
        return Err(Refusal::denied(names::LAUNCH_WEBHOOK, message));
    }
    if let Some(encoded) = response["patch"].as_str() {
        let patch = STANDARD.decode(encoded).expect("our own answer is base64");
        patch::apply(Style::Json, object, &patch).expect("our own patch fits what it was made for");
    }
    Ok(())
}

/// Whether the order of containers was reviewed.
fn is_ordered(pod: &Value) -> bool {
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates.into_iter().flatten().any(|gate| gate["name"] == names::LAUNCH_GATE)
}

/// As the policies and the webhook are bound: only where somebody asked for it.
fn is_enabled(cluster: &Cluster, namespace: &str) -> bool {
    let there = cluster.store.find(Kind::Namespace, "", namespace);
    there.is_some_and(|there| there["metadata"]["labels"][names::ENABLED_LABEL] == names::ENABLED_VALUE)
}

impl Cluster {
    /// Who claims pods, as of now.
    fn refresh_roster(&mut self) {
        let all =
            || [Kind::Namespace, Kind::PodSequence].into_iter().flat_map(|kind| self.store.list(kind, None));
        let made_of = (all().count(), all().map(|(_, object)| object.version).max().unwrap_or_default());
        if self.admission.made_of == made_of {
            return;
        }
        let (mut index, mut roster) = (Index::of_full_mode(), Roster::default());
        for (_, namespace) in self.store.list(Kind::Namespace, None) {
            if let Ok(namespace) = NamespaceObject::deserialize(&namespace.value) {
                index.apply(Object::Namespace(namespace.facts()));
            }
        }
        for (_, sequence) in self.store.list(Kind::PodSequence, None) {
            if let Ok(sequence) = SequenceObject::deserialize(&sequence.value) {
                let facts = sequence.facts();
                let uid = facts.uid;
                index.apply(Object::Sequence(facts));
                roster.update(index.facts(), uid);
            }
        }
        roster.completed();
        self.admission = Admission { roster, made_of, ..std::mem::take(&mut self.admission) };
    }
}
