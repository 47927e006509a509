//! Changes of a pod: removes a gate and, in the same patch, adds affinity that keeps the pod off blocked nodes.

use super::json::{add, append, remove, test};
use super::{Body, Style};
use rollcall_core::decision::{DropGate, PodPatch};
use rollcall_core::facts::{NodeConstraints, TermShape};
use rollcall_core::planted::{Bug, planted};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn pod(patch: &PodPatch) -> Body {
    // These lists do not merge, so a JSON patch must append to them.
    let lists = !patch.avoid.is_empty() && !patch.constraints.terms.is_empty() || !patch.tolerate.is_empty();
    match &patch.drop_gate {
        Some(DropGate { name, place: Some(place) }) if lists => {
            Body { style: Style::Json, value: operations(patch, name, *place) }
        }
        Some(_) | None => Body { style: Style::StrategicMerge, value: merged(patch) },
    }
}

/// The toleration of a taint that blocks a node.
pub fn toleration(key: &str) -> Value {
    json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" })
}

/// Builds a strategic merge patch. It needs no resourceVersion: gates merge by name, and with the uid the API server
/// rejects the patch for another pod of the same name. If a gated pod has no node affinity, one may be set.
fn merged(patch: &PodPatch) -> Value {
    let PodPatch { uid, drop_gate, avoid, annotations, .. } = patch;
    let mut body = json!({ "metadata": { "uid": uid.to_string() }, "spec": {} });
    for (key, value) in annotations {
        body["metadata"]["annotations"][*key] = value.as_str().into();
    }
    if let Some(gate) = drop_gate {
        body["spec"]["schedulingGates"] = json!([{ "$patch": "delete", "name": gate.name }]);
    }
    if !avoid.is_empty() {
        let required = json!({ "nodeSelectorTerms": [{ "matchExpressions": absent(avoid) }] });
        body["spec"]["affinity"] =
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
    }
    if planted(Bug::NoUidInRelease) {
        body["metadata"] = json!({});
    }
    if planted(Bug::AllGatesGo) {
        body["spec"]["schedulingGates"] = json!([{ "$patch": "replace" }]);
    }
    body
}

/// Builds JSON patch operations. If a gated pod has a node affinity, requirements may only be appended to each of its
/// terms.
fn operations(patch: &PodPatch, gate: &Arc<str>, place: usize) -> Value {
    let PodPatch { uid, avoid, tolerate, constraints, .. } = patch;
    let required =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let gates = format!("/spec/schedulingGates/{place}");
    let mut operations =
        vec![test("/metadata/uid", uid.to_string()), test(&format!("{gates}/name"), &**gate), remove(&gates)];
    for (position, term) in constraints.terms.iter().enumerate() {
        let list = format!("{required}/{position}/matchExpressions");
        match term {
            TermShape::Expressions => operations.extend(append(&list, true, absent(avoid))),
            TermShape::FieldsOnly => operations.push(add(&list, absent(avoid))),
            // An empty term matches no node and must stay unchanged.
            TermShape::Empty => {}
        }
    }
    if constraints.terms.is_empty() && !avoid.is_empty() {
        operations.push(new_affinity(constraints, avoid));
    }
    let lacking = tolerate.iter().filter(|key| !constraints.tolerated.contains(key));
    let tolerations = lacking.map(|key| toleration(key)).collect();
    operations.extend(append("/spec/tolerations", !constraints.no_tolerations, tolerations));
    operations.into()
}

/// Adds node affinity at the first level that is missing, because a JSON patch replaces an existing value at its path.
fn new_affinity(constraints: &NodeConstraints, avoid: &[Arc<str>]) -> Value {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": absent(avoid) }] });
    let (path, value) = match (constraints.has_affinity, constraints.has_node_affinity) {
        (_, true) => (format!("/spec/affinity/nodeAffinity/{REQUIRED}"), terms),
        (true, false) => ("/spec/affinity/nodeAffinity".into(), json!({ REQUIRED: terms })),
        (false, false) => ("/spec/affinity".into(), json!({ "nodeAffinity": { REQUIRED: terms } })),
    };
    add(&path, value)
}

fn absent(keys: &[Arc<str>]) -> Vec<Value> {
    keys.iter().map(|key| json!({ "key": key, "operator": "DoesNotExist" })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_core::Uid;

    fn release(constraints: NodeConstraints) -> PodPatch {
        PodPatch {
            uid: Uid::digest("p"),
            namespace: "n".into(),
            name: "p".into(),
            drop_gate: Some(DropGate { name: "g".into(), place: Some(1) }),
            avoid: vec!["avoid".into()],
            tolerate: vec!["taint".into()],
            constraints,
            annotations: Vec::new(),
        }
    }

    /// The pod's gates and node constraints after the patch.
    fn released(mut spec: Value, constraints: NodeConstraints) -> Value {
        spec["schedulingGates"] = json!([{ "name": "other" }, { "name": "g" }]);
        let mut before = json!({ "metadata": { "uid": Uid::digest("p").to_string() }, "spec": spec });
        let patch: json_patch::Patch =
            serde_json::from_value(pod(&release(constraints)).value).expect("a JSON patch");
        json_patch::patch(&mut before, &patch).expect("it fits");
        assert_eq!(before["spec"]["schedulingGates"], json!([{ "name": "other" }]));
        before["spec"].take()
    }

    #[test]
    fn what_a_pod_asks_of_its_node_is_added_to_and_never_replaced() {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        let (ours, theirs) =
            (json!({ "key": "avoid", "operator": "DoesNotExist" }), json!({ "key": "zone" }));
        let terms = |terms: Value| json!({ "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": terms } } });
        let new = terms(json!([{ "matchExpressions": [ours] }]));
        let toleration = json!({ "key": "taint", "operator": "Exists", "effect": "NoSchedule" });

        let bare = NodeConstraints { no_tolerations: true, ..NodeConstraints::default() };
        let after = released(json!({}), bare);
        assert_eq!((&after["affinity"], &after["tolerations"]), (&new, &json!([toleration])));

        let apart = json!({ "podAntiAffinity": { "x": 1 } });
        let spec = json!({ "affinity": apart, "tolerations": [{ "key": "own" }] });
        let after = released(spec, NodeConstraints { has_affinity: true, ..NodeConstraints::default() });
        assert_eq!(after["affinity"]["podAntiAffinity"], apart["podAntiAffinity"]);
        assert_eq!(after["affinity"]["nodeAffinity"], new["nodeAffinity"]);
        assert_eq!(after["tolerations"], json!([{ "key": "own" }, toleration]));

        // The webhook has already added the toleration.
        let tolerated = NodeConstraints { tolerated: ["taint".into()].into(), ..NodeConstraints::default() };
        let after = released(json!({ "tolerations": [toleration] }), tolerated);
        assert_eq!(after["tolerations"], json!([toleration]));

        let given = json!([{ "matchExpressions": [theirs] }, { "matchFields": [theirs] }, {}]);
        let shapes = [TermShape::Expressions, TermShape::FieldsOnly, TermShape::Empty].into();
        let constraints = NodeConstraints {
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
        assert_eq!(released(json!({ "affinity": terms(given) }), constraints)["affinity"], terms(expected));
    }
}
