//! The changes of a new pod for each sequence that it belongs to: the sequence's gate, and tolerations for taints that
//! block nodes only for later groups.

use super::json::{Fields, Malformed};
use rollcall_api::names::{POD_SEQUENCE_GROUP, POD_SEQUENCE_NAME};
use rollcall_api::patch::json::{Operations, append};
use rollcall_api::patch::toleration;
use rollcall_api::watch;
use rollcall_core::labels::Labels;
use rollcall_core::roster::{NewPod, PodOwner, Roster};
use rollcall_core::{Uid, gates, reservation};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn claimed(pod: Fields<'_>, roster: &Roster, namespace: &str) -> Result<Operations, Malformed> {
    let spec = pod.object("spec", "object.spec")?;
    // A pod with a `nodeName` bypasses the scheduler, and Kubernetes rejects a gate on it.
    if !spec.text("nodeName")?.is_empty() {
        return Ok(Operations::new());
    }
    let (sent, tolerations) = (spec.list("schedulingGates")?, spec.list("tolerations")?);
    let (present, tolerated) =
        (names(sent.unwrap_or_default())?, tolerated(tolerations.unwrap_or_default())?);
    let metadata = pod.object("metadata", "object.metadata")?;
    // The name is empty if the API server will generate it.
    let (name, labels, owner) = (metadata.text("name")?, labels(metadata)?, owner(metadata)?);
    let (mut wanted, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for sequence in roster.sequences_in(namespace) {
        if let Some(group) = sequence.group_of(NewPod { name, labels: &labels, owner }) {
            wanted.insert(sequence.gate());
            keys.extend(sequence.tolerated(group).map(|key| &**key));
        }
    }
    let annotations = metadata.texts("annotations")?.unwrap_or_default();
    let annotation = |wanted: &str| annotations.iter().find(|(key, _)| *key == wanted).map(|(_, text)| *text);
    if roster.orders.hold(namespace, &reservation::wanted::wanted(annotation), &labels) {
        wanted.insert(gates::TICKET);
    }
    let missing = wanted.into_iter().filter(|gate| !present.contains(gate));
    let missing = missing.map(|gate| json!({ "name": gate })).collect();
    let lacking = |key: &&str| !tolerated.contains(key) && !tolerated.contains("");
    let untolerated = keys.into_iter().filter(lacking).map(toleration).collect();
    let mut patch = append("/spec/schedulingGates", sent.is_some(), missing);
    patch.extend(append("/spec/tolerations", tolerations.is_some(), untolerated));
    Ok(patch)
}

fn names(gates: &[Value]) -> Result<BTreeSet<&str>, Malformed> {
    gates.iter().map(|gate| Fields::new(gate, "object.spec.schedulingGates[]")?.text("name")).collect()
}

/// The keys that are tolerated regardless of their value, in the form that we would add; an empty key stands for all.
fn tolerated(tolerations: &[Value]) -> Result<BTreeSet<&str>, Malformed> {
    let mut keys = BTreeSet::new();
    for toleration in tolerations {
        let toleration = Fields::new(toleration, "object.spec.tolerations[]")?;
        let effect = toleration.text("effect")?;
        if toleration.text("operator")? == "Exists" && matches!(effect, "" | "NoSchedule") {
            keys.insert(toleration.text("key")?);
        }
    }
    Ok(keys)
}

/// The owner with `controller: true`, if any.
fn owner(metadata: Fields<'_>) -> Result<Option<PodOwner<'_>>, Malformed> {
    for owner in metadata.list("ownerReferences")?.unwrap_or_default() {
        let controls = owner["controller"] == true;
        let owner = Fields::new(owner, "object.metadata.ownerReferences[]")?;
        if controls {
            let kind = watch::owner_kind(owner.text("apiVersion")?, owner.text("kind")?);
            let (name, uid) = (owner.text("name")?, Uid::new(owner.text("uid")?));
            return Ok(Some(PodOwner { kind, name, uid }));
        }
    }
    Ok(None)
}

/// The labels of a pod, and the membership that its annotations declare.
fn labels(metadata: Fields<'_>) -> Result<Labels, Malformed> {
    let annotations = metadata.texts("annotations")?.unwrap_or_default();
    let annotation = |wanted: &str| annotations.iter().find(|(key, _)| *key == wanted).map(|(_, text)| *text);
    let labels = metadata.texts("labels")?.unwrap_or_default();
    Ok(watch::labels(labels, annotation(POD_SEQUENCE_NAME), annotation(POD_SEQUENCE_GROUP)))
}
