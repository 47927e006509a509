//! The changes of a new pod for each sequence that it belongs to, by name, labels, owner or the pod's own annotations:
//! the sequence's gate, and tolerations for taints that block nodes only for later groups. A pod that wants a ticket
//! gets the ticket gate.

use crate::json::{
    ABoolean, AList, AText, AnObject, Found, Malformed, ObjectList, Text, Texts, object, required, text,
};
use rollcall_api::names::{POD_SEQUENCE_GROUP, POD_SEQUENCE_NAME};
use rollcall_api::patch::json::{Operations, append};
use rollcall_api::patch::toleration;
use rollcall_api::watch;
use rollcall_core::labels::Labels;
use rollcall_core::roster::{NewPod, NewPodParts, PodOwner, Roster};
use rollcall_core::{Uid, gates, reservation};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The annotations that declare the membership of a pod, or the ticket that it wants.
static ANNOTATIONS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let of_sequences = [POD_SEQUENCE_NAME, POD_SEQUENCE_GROUP];
    of_sequences.into_iter().chain(reservation::wanted::ANNOTATIONS).collect()
});

/// The fields of a new pod that are read.
pub struct AdmittedPod<'a, 'w> {
    wanted: &'w NewPodParts<'w>,
    metadata: Found<AdmittedMetadata<'a, 'w>>,
    spec: Found<AdmittedSpec<'a, 'w>>,
}

struct AdmittedMetadata<'a, 'w> {
    wanted: &'w NewPodParts<'w>,
    name: Found<Text<'a>>,
    labels: Found<BTreeMap<&'w str, Text<'a>>>,
    annotations: Found<BTreeMap<&'static str, Text<'a>>>,
    owners: Found<Owners<'a>>,
}

struct AdmittedSpec<'a, 'w> {
    wanted: &'w NewPodParts<'w>,
    node_name: Found<Text<'a>>,
    gates: Found<PresentGates<'w>>,
    tolerations: Found<Tolerations<'w>>,
}

impl<'a, 'w> AdmittedPod<'a, 'w> {
    pub fn looking_for(wanted: &'w NewPodParts<'w>) -> AdmittedPod<'a, 'w> {
        AdmittedPod { wanted, metadata: None, spec: None }
    }

    /// The changes of the pod in this namespace.
    pub fn claimed(self, roster: &Roster, namespace: &str) -> Result<Operations, Malformed> {
        let spec = required(self.spec, "object.spec")?;
        // A pod with a `nodeName` bypasses the scheduler, and Kubernetes rejects a gate on it.
        if !text(&spec.node_name)?.is_empty() {
            return Ok(Operations::new());
        }
        let (present, tolerations) = (spec.gates.transpose()?, spec.tolerations.transpose()?);
        let metadata = required(self.metadata, "object.metadata")?;
        // The name is empty if the API server will generate it.
        let (name, labels, ticket) = (text(&metadata.name)?, metadata.all_labels()?, metadata.ticket()?);
        let owner = metadata.owners.transpose()?.and_then(|owners| owners.controlling);
        let owner = owner.as_ref().map(Owner::pod_owner).transpose()?;
        let (mut wanted, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for sequence in roster.sequences_in(namespace) {
            if let Some(group) = sequence.group_of(NewPod { name, labels: &labels, owner }) {
                wanted.insert(sequence.gate());
                keys.extend(sequence.tolerated(group).map(|key| &**key));
            }
        }
        if roster.orders.hold(namespace, &ticket, &labels) {
            wanted.insert(gates::TICKET);
        }
        let is_present = |gate: &&str| present.as_ref().is_some_and(|gates| gates.present.contains(gate));
        let missing = wanted.into_iter().filter(|gate| !is_present(gate));
        let missing = missing.map(|gate| json!({ "name": gate })).collect();
        let is_tolerated = |key: &&str| tolerations.as_ref().is_some_and(|those| those.include(key));
        let untolerated = keys.into_iter().filter(|key| !is_tolerated(key)).map(toleration).collect();
        let mut patch = append("/spec/schedulingGates", present.is_some(), missing);
        patch.extend(append("/spec/tolerations", tolerations.is_some(), untolerated));
        Ok(patch)
    }
}

impl AdmittedMetadata<'_, '_> {
    fn annotations(&self) -> Result<Option<&BTreeMap<&'static str, Text<'_>>>, Malformed> {
        self.annotations.as_ref().map(Result::as_ref).transpose().map_err(|error| *error)
    }

    /// The ticket that the pod asks for.
    fn ticket(&self) -> Result<reservation::RequestedTicket, Malformed> {
        let annotations = self.annotations()?;
        Ok(reservation::wanted::wanted(|key| annotations.and_then(|all| all.get(key)).map(|text| &**text)))
    }

    /// The labels, and the membership that the pod's annotations declare.
    fn all_labels(&self) -> Result<Labels, Malformed> {
        let annotations = self.annotations()?;
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(|text| &**text);
        let labels = self.labels.as_ref().map(Result::as_ref).transpose().map_err(|error| *error)?;
        let labels = labels.into_iter().flatten().map(|(key, value)| (*key, &**value));
        Ok(watch::labels(labels, annotation(POD_SEQUENCE_NAME), annotation(POD_SEQUENCE_GROUP)))
    }
}

object! { AdmittedPod<'a, '_>, "object", |this|
    "metadata" => metadata: AnObject(AdmittedMetadata {
        wanted: this.wanted, name: None, labels: None, annotations: None, owners: None,
    }),
    "spec" => spec: AnObject(AdmittedSpec { wanted: this.wanted, node_name: None, gates: None, tolerations: None }),
}

object! { AdmittedMetadata<'a, '_>, "object.metadata", |this|
    "name" => name: AText,
    "labels" => labels: Texts(&this.wanted.labels),
    "annotations" => annotations: Texts(&ANNOTATIONS),
    "ownerReferences" => owners: AList(Owners::default()),
}

object! { AdmittedSpec<'a, '_>, "object.spec", |this|
    "nodeName" => node_name: AText,
    "schedulingGates" => gates: AList(PresentGates { wanted: this.wanted, present: BTreeSet::new() }),
    "tolerations" => tolerations: AList(Tolerations { wanted: this.wanted, keys: BTreeSet::new(), all: false }),
}

/// The gates of the pod, of those that we might add.
struct PresentGates<'w> {
    wanted: &'w NewPodParts<'w>,
    present: BTreeSet<&'w str>,
}

#[derive(Default)]
pub struct SchedulingGate<'a> {
    pub name: Found<Text<'a>>,
}

impl<'a> ObjectList<'a> for PresentGates<'_> {
    const ITEM: &'static str = "object.spec.schedulingGates[]";
    type Item = SchedulingGate<'a>;

    fn put(&mut self, gate: Result<SchedulingGate<'a>, Malformed>) -> Result<(), Malformed> {
        self.present.extend(self.wanted.gates.get(text(&gate?.name)?));
        Ok(())
    }
}

object! { SchedulingGate<'a>, "object.spec.schedulingGates[]", |this|
    "name" => name: AText,
}

/// The keys that the pod tolerates regardless of their value, of those that we might add.
struct Tolerations<'w> {
    wanted: &'w NewPodParts<'w>,
    keys: BTreeSet<&'w str>,
    /// Whether the pod tolerates every key.
    all: bool,
}

#[derive(Default)]
struct Toleration<'a> {
    key: Found<Text<'a>>,
    operator: Found<Text<'a>>,
    effect: Found<Text<'a>>,
}

impl Tolerations<'_> {
    fn include(&self, key: &str) -> bool {
        self.all || self.keys.contains(key)
    }
}

impl<'a> ObjectList<'a> for Tolerations<'_> {
    const ITEM: &'static str = "object.spec.tolerations[]";
    type Item = Toleration<'a>;

    fn put(&mut self, toleration: Result<Toleration<'a>, Malformed>) -> Result<(), Malformed> {
        let toleration = toleration?;
        let effect = text(&toleration.effect)?;
        if text(&toleration.operator)? == "Exists" && matches!(effect, "" | "NoSchedule") {
            let key = text(&toleration.key)?;
            self.all |= key.is_empty();
            self.keys.extend(self.wanted.taints.get(key));
        }
        Ok(())
    }
}

object! { Toleration<'a>, "object.spec.tolerations[]", |this|
    "key" => key: AText,
    "operator" => operator: AText,
    "effect" => effect: AText,
}

/// The owner with `controller: true`, if any.
#[derive(Default)]
struct Owners<'a> {
    controlling: Option<Owner<'a>>,
}

#[derive(Default)]
struct Owner<'a> {
    api_version: Found<Text<'a>>,
    kind: Found<Text<'a>>,
    name: Found<Text<'a>>,
    uid: Found<Text<'a>>,
    controller: Found<bool>,
}

impl Owner<'_> {
    fn pod_owner(&self) -> Result<PodOwner<'_>, Malformed> {
        let kind = watch::owner_kind(text(&self.api_version)?, text(&self.kind)?);
        Ok(PodOwner { kind, name: text(&self.name)?, uid: Uid::new(text(&self.uid)?) })
    }
}

impl<'a> ObjectList<'a> for Owners<'a> {
    const ITEM: &'static str = "object.metadata.ownerReferences[]";
    type Item = Owner<'a>;

    fn put(&mut self, owner: Result<Owner<'a>, Malformed>) -> Result<(), Malformed> {
        // At most one owner has `controller: true`.
        if self.controlling.is_none() {
            self.controlling = Some(owner?).filter(|owner| owner.controller == Some(Ok(true)));
        }
        Ok(())
    }
}

object! { Owner<'a>, "object.metadata.ownerReferences[]", |this|
    "apiVersion" => api_version: AText,
    "kind" => kind: AText,
    "name" => name: AText,
    "uid" => uid: AText,
    "controller" => controller: ABoolean,
}
