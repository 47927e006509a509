//! Admission requests as the API server sends them, and the results of the answers.

// Each test file is a crate of its own and uses only a part of this module.
#![allow(dead_code)]

use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::sequence::SequenceObject;
use rollcall_core::Uid;
use rollcall_core::roster::{Roster, SelectingSequence};
use rollcall_core::sequence::{Sequence, keys::PREFIX};
use serde_json::{Value, json};

pub fn facts(objects: &[Value]) -> Vec<Sequence> {
    let read = |object: &Value| {
        serde_json::from_value::<SequenceObject>(object.clone()).expect("a sequence").facts()
    };
    objects.iter().map(read).collect()
}

/// Sequences in namespaces that allow taints.
pub fn roster(sequences: &[Sequence]) -> Roster {
    let mut roster = Roster::default();
    for (number, sequence) in sequences.iter().enumerate() {
        let selecting = SelectingSequence::from_sequence(sequence, true, PREFIX);
        let at_home = sequence.spec.as_ref().is_ok_and(|spec| spec.pod_namespace == sequence.namespace);
        roster.set(Uid::digest(&number.to_string()), selecting.filter(|_| at_home));
    }
    roster
}

pub fn review_of(request: Value) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
}

/// The review of the creation of an object.
pub fn request(resource: &str, namespace: &str, object: Value) -> Value {
    review_of(json!({
        "uid": "the-uid",
        "kind": { "group": "", "version": "v1", "kind": object["kind"] },
        "resource": { "group": "", "version": "v1", "resource": resource },
        "namespace": namespace,
        "operation": "CREATE",
        "object": object,
        "oldObject": null,
        "dryRun": false,
    }))
}

/// The object after the API server has applied the patch in the answer.
pub fn after(object: &Value, answer: &Value) -> Value {
    let response = &answer["response"];
    assert_eq!(response["allowed"], true);
    assert_eq!(response.get("patch").is_some(), response.get("patchType").is_some());
    let mut object = object.clone();
    if let Some(patch) = response["patch"].as_str() {
        let patch = STANDARD.decode(patch).expect("base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a JSON patch");
        json_patch::patch(&mut object, &patch).expect("a patch that fits");
    }
    object
}
