//! One pod: its gate goes, and it says who took it and why.

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
    say_handed_over(connection, pod, &gates).await;
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

/// Says so where the room of a ticket is being given to the pod right now.
async fn say_handed_over(connection: &Connection, pod: &Pod, gates: &[Arc<str>]) {
    if !gates.iter().any(|gate| **gate == *names::TICKET_GATE) {
        return;
    }
    match claimed_by(connection, &pod.namespace, pod).await {
        Some(ticket) => output::note(in_between(&ticket)),
        None => output::note("it runs without reserved room: whatever else wants to run may be there first"),
    }
}

fn in_between(ticket: &Ticket) -> String {
    let on = ticket.record.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    format!(
        "it is being given the room of ticket {}{on}: let go now, it may run elsewhere, and then the room is kept again",
        ticket.name
    )
}

/// The gates of the sequences that claim it, as far as it carries them; of a pod that none claims, the usual one. Who may not act
/// in its namespace claims nothing: he could name any gate, and have it removed with the rights of whoever asks. A pod that no
/// sequence holds, and that waits for the room of a ticket, is let go without it.
fn ours(loaded: &Loaded, pod: &Pod) -> Vec<Arc<str>> {
    let claims = loaded.index.facts().claims_on(pod.uid);
    let specs = claims.filter_map(|claim| loaded.index.sequences.get(claim.sequence)?.spec());
    let mut gates: BTreeSet<Arc<str>> = specs.map(|spec| spec.gate.clone()).collect();
    gates.insert(names::SEQUENCE_GATE.into());
    let held: Vec<Arc<str>> = pod.gates.iter().filter(|gate| gates.contains(*gate)).cloned().collect();
    match held.is_empty() {
        true => pod.gates.iter().filter(|gate| ***gate == *names::TICKET_GATE).cloned().collect(),
        false => held,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use rollcall_core::index::{Index, Object};

    /// The gates that go from a pod with these.
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
        assert_eq!(taken(&[sequence, ticket]), [sequence], "then its turn comes");
        assert!(taken(&[launch]).is_empty());
    }

    #[test]
    fn a_hand_over_is_said() {
        let claimed = testing::tickets().remove(2);
        let ticket: rollcall_api::reservation::TicketObject =
            serde_json::from_value(claimed).expect("a ticket");
        assert_eq!(
            in_between(&ticket.facts()),
            "it is being given the room of ticket agents-node-c on node-c: let go now, it may run elsewhere, and then the room is kept again"
        );
    }
}
