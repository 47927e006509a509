//! Releases one pod: removes its gates, and records the user and the reason on the pod.

use crate::connect::Connection;
use crate::load::reservation::claimed_by;
use crate::load::{Loaded, Sequences, has_code, load_pod};
use crate::outcome::Outcome;
use crate::{cli, output, shown};
use anyhow::{Result, anyhow, bail};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rollcall_api::names;
use rollcall_core::facts::Pod;
use rollcall_core::reservation::spec::Ticket;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum length of a reason in bytes, chosen for readability; Kubernetes allows 256 KiB of annotations.
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
        output::note(format!("nothing to release: pod {name} has no Rollcall gate; {}", carried(pod)));
        if !pod.gates.is_empty() {
            output::hint(format!("{} release pod/{name} --gate NAME removes another gate", cli::program()));
        }
        return Ok(Outcome::Failed);
    }
    say_handed_over(connection, pod, &gates).await;
    let who = who(connection).await;
    let body = patch(pod, &gates, &who, reason.as_deref());
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(connection.client.clone(), namespace);
    let params = PatchParams { field_manager: Some(names::FIELD_MANAGER.into()), ..Default::default() };
    match pods.patch(name, &params, &Patch::Strategic(body)).await {
        Ok(_) => {}
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => {
            return Err(anyhow!(
                "pod {name} was replaced while this command ran; check the new pod, then run the command again"
            ));
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

/// Prints a note that the pod runs without reserved capacity, or that the hand-over of a ticket to it is in progress.
async fn say_handed_over(connection: &Connection, pod: &Pod, gates: &[Arc<str>]) {
    if !gates.iter().any(|gate| **gate == *names::TICKET_GATE) {
        return;
    }
    match claimed_by(connection, &pod.namespace, pod).await {
        Some(ticket) => output::note(in_between(&ticket)),
        None => output::note(
            "the pod runs without reserved capacity, so other pods may take the free capacity first",
        ),
    }
}

fn in_between(ticket: &Ticket) -> String {
    let on = ticket.record.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    format!(
        "the hand-over of ticket {}{on} is in progress; if released now, the pod may be scheduled elsewhere, and the ticket becomes available again",
        ticket.name
    )
}

/// Returns the gates to remove: the gates on the pod of the sequences that it belongs to, and the default sequence gate. A
/// sequence selects only pods in namespaces where its author may act. Otherwise the author could name any gate and have it
/// removed with the permissions of the user of this command. A pod that no sequence holds and that waits for a ticket
/// loses its ticket gate.
fn ours(loaded: &Loaded, pod: &Pod) -> Vec<Arc<str>> {
    let memberships = loaded.index.facts().memberships_of(pod.uid);
    let specs = memberships.filter_map(|membership| loaded.index.sequences.get(membership.sequence)?.spec());
    let mut gates: BTreeSet<Arc<str>> = specs.map(|spec| spec.gate.clone()).collect();
    gates.insert(names::SEQUENCE_GATE.into());
    let held: Vec<Arc<str>> = pod.gates.iter().filter(|gate| gates.contains(*gate)).cloned().collect();
    match held.is_empty() {
        true => pod.gates.iter().filter(|gate| ***gate == *names::TICKET_GATE).cloned().collect(),
        false => held,
    }
}

/// Builds the patch. The UID guards it: if another pod has taken the name meanwhile, the API server answers with a conflict.
/// Only the named gates are removed; all other gates stay, including those that were added meanwhile.
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

/// Returns the user name that the API server reports for the caller, or else the user of the kubeconfig.
async fn who(connection: &Connection) -> String {
    let reviews = Api::<SelfSubjectReview>::all(connection.client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok();
    let user = review.and_then(|review| review.status?.user_info?.username);
    user.or_else(|| connection.user.clone()).unwrap_or_else(|| "unknown user".into())
}

fn carried(pod: &Pod) -> String {
    match pod.gates.len() {
        0 => "it has no gates".into(),
        _ => format!("it has {}", list(&pod.gates)),
    }
}

fn list(gates: &[Arc<str>]) -> String {
    gates.iter().map(|gate| &**gate).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use rollcall_core::index::{Index, Object};

    /// The gates that `release` removes from a pod with the given gates.
    fn taken(gates: &[&str]) -> Vec<String> {
        let mut pod = testing::held("web");
        pod["spec"]["schedulingGates"] = gates.iter().map(|name| json!({ "name": name })).collect();
        let mut index = Index::of_full_mode();
        index.apply(Object::Sequence(testing::sequence(testing::shop()).facts()));
        index.apply(Object::Pod(testing::pod(pod).facts()));
        let loaded = Loaded { index, namespace: "default".into(), pod_names: Vec::new(), gaps: Vec::new() };
        ours(&loaded, loaded.pod("web").expect("it")).iter().map(|gate| gate.to_string()).collect()
    }

    #[test]
    fn a_claimer_goes_without_its_ticket_when_nothing_else_of_ours_holds_it() {
        let (sequence, ticket, launch) = (names::SEQUENCE_GATE, names::TICKET_GATE, names::LAUNCH_GATE);
        assert_eq!(taken(&[ticket]), [ticket]);
        assert_eq!(taken(&["example.com/quota", ticket, launch]), [ticket]);
        assert_eq!(taken(&[sequence, ticket]), [sequence], "the ticket gate stays until a second release");
        assert!(taken(&[launch]).is_empty());
    }

    #[test]
    fn a_hand_over_is_said() {
        let claimed = testing::tickets().remove(2);
        let ticket: rollcall_api::reservation::TicketObject =
            serde_json::from_value(claimed).expect("a ticket");
        assert_eq!(
            in_between(&ticket.facts()),
            "the hand-over of ticket agents-node-c on node-c is in progress; if released now, the pod may be scheduled elsewhere, and the ticket becomes available again"
        );
    }
}
