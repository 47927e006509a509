//! The gates of a new pod: of each sequence that claims it, by name, by labels or by the pod's own annotations.

use crate::json::{Fields, Malformed};
use crate::patch::{Patch, add};
use rollcall_api::names::{POD_SEQUENCE_GROUP, POD_SEQUENCE_NAME};
use rollcall_core::{
    labels::Labels,
    sequence::{
        Sequence,
        spec::{Members, Spec},
    },
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What decides who claims a pod.
struct Pod<'a> {
    namespace: &'a str,
    /// Empty while it is to be generated.
    name: &'a str,
    labels: Labels,
    /// The sequence and the group that it names itself.
    belongs: Option<(&'a str, usize)>,
}

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
    let pod = Pod::read(pod, namespace)?;
    let wanted: BTreeSet<&str> = sequences.into_iter().filter_map(|sequence| pod.gate(sequence)).collect();
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

impl<'a> Pod<'a> {
    fn read(pod: Fields<'a>, namespace: &'a str) -> Result<Pod<'a>, Malformed> {
        let metadata = pod.object("metadata", "object.metadata")?;
        let annotations = metadata.texts("annotations")?.unwrap_or_default();
        let annotation =
            |wanted: &str| annotations.iter().find(|(key, _)| *key == wanted).map(|(_, text)| *text);
        Ok(Pod {
            namespace,
            name: metadata.text("name")?,
            labels: metadata.texts("labels")?.unwrap_or_default().into_iter().collect(),
            belongs: annotation(POD_SEQUENCE_NAME).zip(annotation(POD_SEQUENCE_GROUP).and_then(index)),
        })
    }

    /// The gate that a sequence wants on it.
    fn gate<'s>(&self, sequence: &'s Sequence) -> Option<&'s str> {
        let spec = sequence.spec.as_ref().ok()?;
        let here = *sequence.namespace == *self.namespace && *spec.target == *self.namespace;
        (here && (self.is_member(spec) || self.says_so(sequence, spec))).then_some(&*spec.gate)
    }

    fn is_member(&self, spec: &Spec) -> bool {
        spec.groups.iter().any(|group| match &group.members {
            Members::Names(names) => names.contains(self.name),
            Members::Selector(selector) => selector.matches(&self.labels),
        })
    }

    fn says_so(&self, sequence: &Sequence, spec: &Spec) -> bool {
        self.belongs.is_some_and(|(name, group)| *sequence.name == *name && group < spec.groups.len())
    }
}

/// The index of a group as it is written in one way only: `0`, `1`, `2` …, not `+1`, `01` or ` 1`.
fn index(text: &str) -> Option<usize> {
    text.parse().ok().filter(|index: &usize| index.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::index;

    #[test]
    fn an_index_is_written_in_one_way() {
        for (text, expected) in [("0", Some(0)), ("7", Some(7)), ("999", Some(999))] {
            assert_eq!(index(text), expected, "{text:?}");
        }
        for text in ["", "-1", "+1", "01", " 1", "1 ", "1.0", "1e0", "one", "99999999999999999999999"] {
            assert_eq!(index(text), None, "{text:?}");
        }
    }
}
