//! One `AdmissionReview` in, one out.

use crate::json::{Fields, Malformed};
use crate::{node, pod};
use base64::{Engine, engine::general_purpose::STANDARD};
use rollcall_api::names::OWN_NAMESPACE;
use rollcall_api::patch::json::Operations;
use rollcall_core::roster::Roster;
use serde_json::{Map, Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Namespaces whose pods are never touched, whatever labels they have: the controller must not wait for itself, nor the
/// cluster for us. The configuration of the webhook keeps them away already.
const UNTOUCHED: [&str; 4] = [OWN_NAMESPACE, "kube-system", "kube-public", "kube-node-lease"];

/// A warning is printed for the person who sent the request; the API server cuts longer ones.
const WARNING_LIMIT: usize = 200;

/// Answers a request about a pod or a node.
///
/// Whatever comes in, it is allowed: a pod that starts too early is better than one that cannot be created. What cannot
/// be read stays as it is, and a warning says so.
pub fn review(review: &Value, roster: &Roster) -> Value {
    let mut response = Map::new();
    response.insert("uid".into(), review["request"]["uid"].as_str().unwrap_or_default().into());
    response.insert("allowed".into(), true.into());
    match changes(review, roster) {
        Ok(patch) if patch.is_empty() => {}
        Ok(patch) => {
            response.insert("patchType".into(), "JSONPatch".into());
            response.insert("patch".into(), STANDARD.encode(Value::from(patch).to_string()).into());
        }
        Err(malformed) => {
            let warning: String = format!("rollcall left this as it is: {malformed}");
            let warning: String = warning.chars().take(WARNING_LIMIT).collect();
            response.insert("warnings".into(), json!([warning]));
        }
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
}

fn changes(review: &Value, roster: &Roster) -> Result<Operations, Malformed> {
    let review = Fields::of(review, "the review")?;
    if review.text("apiVersion")? != API_VERSION || review.text("kind")? != KIND {
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
        ("", "pods") if UNTOUCHED.contains(&namespace) => Ok(Operations::new()),
        ("", "pods") => pod::claimed(request.object("object", "object")?, roster.of(namespace)),
        ("", "nodes") => node::mark_unseen(request.object("object", "object")?),
        _ => Ok(Operations::new()),
    }
}
