//! A second, simple implementation of admission, which parses the whole review into a value. The tests compare the
//! webhook with it.

// Each test file is a crate of its own and uses only a part of this module.
#![allow(dead_code)]

mod json;
mod pod;

use base64::{Engine, engine::general_purpose::STANDARD};
use json::{Fields, Malformed};
use rollcall_api::names::UNSEEN_LABEL;
use rollcall_api::patch::json::{Operations, add, escape};
use rollcall_core::roster::Roster;
use serde_json::{Value, json};

/// The effect of an answer: whether it contains a warning, and its patch.
#[derive(Debug, PartialEq)]
pub struct Decision {
    pub warned: bool,
    pub patch: Option<Value>,
}

/// The expected decision about a review.
pub fn decide(review: &Value, roster: &Roster) -> Decision {
    let changes = changes(review, roster);
    let warned = changes.is_err();
    let patch = changes.ok().filter(|patch| !patch.is_empty()).map(Value::from);
    Decision { warned, patch }
}

/// The decision in an answer.
pub fn decided(answer: &Value) -> Decision {
    let response = &answer["response"];
    let patch = response["patch"].as_str().map(|patch| STANDARD.decode(patch).expect("base64"));
    let patch = patch.map(|patch| serde_json::from_slice(&patch).expect("a patch"));
    Decision { warned: response.get("warnings").is_some(), patch }
}

fn changes(review: &Value, roster: &Roster) -> Result<Operations, Malformed> {
    let review = Fields::new(review, "the review")?;
    if review.text("apiVersion")? != "admission.k8s.io/v1" || review.text("kind")? != "AdmissionReview" {
        let expected = "an AdmissionReview of admission.k8s.io/v1";
        return Err(Malformed { field: "the review".into(), expected });
    }
    let request = review.object("request", "request")?;
    let is_new = request.text("operation")? == "CREATE" && request.text("subResource")?.is_empty();
    let resource = request.object("resource", "request.resource")?;
    let resource = (resource.text("group")?, resource.text("resource")?);
    let namespace = request.text("namespace")?;
    match resource {
        _ if !is_new => Ok(Operations::new()),
        ("", "pods")
            if ["pod-sequence-system", "kube-system", "kube-public", "kube-node-lease"]
                .contains(&namespace) =>
        {
            Ok(Operations::new())
        }
        ("", "pods") => pod::claimed(request.object("object", "object")?, roster, namespace),
        ("", "nodes") => mark_unseen(request.object("object", "object")?),
        _ => Ok(Operations::new()),
    }
}

fn mark_unseen(node: Fields<'_>) -> Result<Operations, Malformed> {
    let labels = node.object("metadata", "object.metadata")?.texts("labels")?;
    Ok(match labels {
        None => vec![add("/metadata/labels", json!({ UNSEEN_LABEL: "true" }))],
        Some(labels) if labels.iter().any(|(key, _)| *key == UNSEEN_LABEL) => Operations::new(),
        Some(_) => vec![add(&format!("/metadata/labels/{}", escape(UNSEEN_LABEL)), json!("true"))],
    })
}
