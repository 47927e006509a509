//! One pod: its gate goes, and it says who took it and why.

use crate::connect::Connection;
use crate::load::{Loaded, Sequences, has_code, load_pod};
use crate::outcome::Outcome;
use crate::{cli, output, shown};
use anyhow::{Result, anyhow, bail};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rollcall_api::names;
use rollcall_core::facts::Pod;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an annotation is worth reading; Kubernetes would take 256 KiB of them.
const REASON_LENGTH: usize = 1024;

pub async fn release(
    connection: &Connection,
    name: &str,
    gate: Option<String>,
    reason: Option<String>,
) -> Result<Outcome> {
    if reason.as_ref().is_some_and(|reason| reason.len() > REASON_LENGTH) {
        bail!("--reason: at most {REASON_LENGTH} bytes");
    }
    let namespace = &connection.namespace;
    let sequences = match gate {
        Some(_) => Sequences { objects: Vec::new(), gap: None },
        None => Sequences::load(connection, namespace).await?,
    };
    let loaded = load_pod(connection, name, &sequences).await?;
    loaded.gaps.iter().for_each(output::note);
    let pod = loaded.pod(name)?;
    let gates = match gate {
        Some(gate) if pod.gates.iter().any(|carried| **carried == *gate) => vec![Arc::from(gate)],
        Some(gate) => bail!("--gate: pod {name} does not carry {gate}; {}", carried(pod)),
        None => ours(&loaded, pod),
    };
    if gates.is_empty() {
        output::note(format!("nothing to release: pod {name} carries no gate of ours; {}", carried(pod)));
        if !pod.gates.is_empty() {
            output::hint(format!("{} release pod/{name} --gate NAME removes another one", cli::program()));
        }
        return Ok(Outcome::Failed);
    }
    let who = who(connection).await;
    let body = patch(pod, &gates, &who, reason.as_deref());
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(connection.client.clone(), namespace);
    let params = PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..Default::default() };
    match pods.patch(name, &params, &Patch::Strategic(body)).await {
        Ok(_) => {}
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => {
            return Err(anyhow!("pod {name} was replaced while we looked at it; look again and repeat"));
        }
        Err(error) => {
            return Err(connection.explained(error, &format!("patch pod {name} in namespace {namespace}")));
        }
    }
    output::data(&shown!("pod/{} released by {} ({})\n", name, who, list(&gates)))?;
    let left: Vec<Arc<str>> = pod.gates.iter().filter(|gate| !gates.contains(gate)).cloned().collect();
    if !left.is_empty() {
        output::note(format!("other gates still hold it: {}", list(&left)));
    }
    Ok(Outcome::Done)
}

/// The gates of the sequences that claim it, as far as it carries them; of a pod that none claims, the usual one. Who may not act
/// in its namespace claims nothing: he could name any gate, and have it removed with the rights of whoever asks.
fn ours(loaded: &Loaded, pod: &Pod) -> Vec<Arc<str>> {
    let claims = loaded.index.facts().claims_on(pod.uid);
    let specs = claims.filter_map(|claim| loaded.index.sequences.get(claim.sequence)?.spec());
    let mut gates: BTreeSet<Arc<str>> = specs.map(|spec| spec.gate.clone()).collect();
    gates.insert(names::SEQUENCE_GATE.into());
    pod.gates.iter().filter(|gate| gates.contains(*gate)).cloned().collect()
}

/// Guarded by the uid: a pod of the same name that came meanwhile answers with a conflict. Only what is named goes;
/// other gates, also those that came meanwhile, stay.
fn patch(pod: &Pod, gates: &[Arc<str>], who: &str, reason: Option<&str>) -> Value {
    let mut annotations = json!({ (names::RELEASED_BY): who });
    if let Some(reason) = reason {
        annotations[names::RELEASED_REASON] = reason.into();
    }
    let gone: Vec<Value> = gates.iter().map(|gate| json!({"$patch": "delete", "name": gate})).collect();
    json!({
        "metadata": {"uid": pod.uid.to_string(), "annotations": annotations},
        "spec": {"schedulingGates": gone},
    })
}

/// Who the API server says we are, else what the kubeconfig calls us.
async fn who(connection: &Connection) -> String {
    let reviews = Api::<SelfSubjectReview>::all(connection.client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok();
    let user = review.and_then(|review| review.status?.user_info?.username);
    user.or_else(|| connection.user.clone()).unwrap_or_else(|| "somebody".into())
}

fn carried(pod: &Pod) -> String {
    match pod.gates.len() {
        0 => "it carries none at all".into(),
        _ => format!("it carries {}", list(&pod.gates)),
    }
}

fn list(gates: &[Arc<str>]) -> String {
    gates.iter().map(|gate| &**gate).collect::<Vec<_>>().join(", ")
}
