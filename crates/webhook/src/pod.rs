//! The gates of a new pod: of each sequence that claims it, by name, by labels or by the pod's own annotations.

use crate::json::{Fields, Malformed};
use crate::patch::{Patch, add};
use rollcall_api::names::{POD_SEQUENCE_GROUP, POD_SEQUENCE_NAME};
use rollcall_api::watch;
use rollcall_core::labels::Labels;
use rollcall_core::sequence::Sequence;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn add_gates<'s>(
    pod: Fields<'_>,
    namespace: &str,
    sequences: impl IntoIterator<Item = &'s Sequence>,
) -> Result<Patch, Malformed> {
    let spec = pod.object("spec", "object.spec")?;
    // It passes by the scheduler, and Kubernetes refuses it together with a gate.
    if !spec.text("nodeName")?.is_empty() {
        return Ok(Patch::new());
    }
    let gates = spec.list("schedulingGates")?;
    let present = names(gates.unwrap_or_default())?;
    let metadata = pod.object("metadata", "object.metadata")?;
    // Empty while it is to be generated.
    let (name, labels) = (metadata.text("name")?, labels(metadata)?);
    let claims = |sequence: &&Sequence| {
        *sequence.namespace == *namespace && sequence.group_of(namespace, name, &labels).is_some()
    };
    let gate = |sequence: &'s Sequence| sequence.spec.as_ref().ok().map(|spec| &*spec.gate);
    let wanted: BTreeSet<&str> = sequences.into_iter().filter(claims).filter_map(gate).collect();
    let missing =
        wanted.into_iter().filter(|gate| !present.contains(gate)).map(|gate| json!({ "name": gate }));
    Ok(match gates {
        Some(_) => missing.map(|gate| add("/spec/schedulingGates/-", gate)).collect(),
        None => match missing.collect::<Vec<Value>>() {
            none if none.is_empty() => Patch::new(),
            missing => vec![add("/spec/schedulingGates", missing.into())],
        },
    })
}

fn names(gates: &[Value]) -> Result<BTreeSet<&str>, Malformed> {
    gates.iter().map(|gate| Fields::of(gate, "object.spec.schedulingGates[]")?.text("name")).collect()
}

/// The labels of a pod, and where it says itself that it belongs.
fn labels(metadata: Fields<'_>) -> Result<Labels, Malformed> {
    let annotations = metadata.texts("annotations")?.unwrap_or_default();
    let annotation = |wanted: &str| annotations.iter().find(|(key, _)| *key == wanted).map(|(_, text)| *text);
    let labels = metadata.texts("labels")?.unwrap_or_default();
    Ok(watch::labels(labels, annotation(POD_SEQUENCE_NAME), annotation(POD_SEQUENCE_GROUP)))
}
