//! What is over, what is stuck, and why: in the words of the core.

use super::chain;
use super::timeline::{Life, Timeline};
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::plan::Plan;
use crate::report::{GroupReport, Never, Outcome, PodReport, Report, SequenceReport, Why};
use crate::store::Stored;
use jiff::Timestamp;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::{NamespaceObject, OwnerObject, PodObject};
use rollcall_core::Uid;
use rollcall_core::facts::OwnerKind;
use rollcall_core::index::{Index, Object, SequenceEntry};
use rollcall_core::sequence::explain::{Line, explain_pod, explain_sequence};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether every sequence is complete and every workload has what it wants.
pub fn has_arrived(cluster: &Cluster) -> bool {
    let all = |kind: Kind, holds: &dyn Fn(&Stored) -> bool| {
        cluster.store.list(kind, None).all(|(_, object)| holds(object))
    };
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let current = |object: &Stored| {
        number(&object["status"]["observedGeneration"]) >= number(&object["metadata"]["generation"])
    };
    let replicas = |object: &Stored| {
        let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
        let status = &object["status"];
        let updated = number(&status["updatedReplicas"]) == wanted;
        current(object)
            && number(&status["readyReplicas"]) == wanted
            && number(&status["replicas"]) == wanted
            && updated
    };
    let condition = |object: &Stored, kind: &str| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|is| is["type"] == kind && is["status"] == "True")
    };
    all(Kind::PodSequence, &|sequence| current(sequence) && sequence["status"]["phase"] == "Completed")
        && all(Kind::Deployment, &replicas)
        && all(Kind::StatefulSet, &replicas)
        && all(Kind::DaemonSet, &|set| {
            let status = &set["status"];
            current(set) && number(&status["numberReady"]) == number(&status["desiredNumberScheduled"])
        })
        && all(Kind::Job, &|job| condition(job, "Complete") || job["spec"]["suspend"] == true)
        && all(Kind::Pod, &|pod| pod["status"]["phase"] == "Succeeded" || condition(pod, "Ready"))
}

pub fn report(
    plan: &Plan,
    cluster: &Cluster,
    timeline: &Timeline,
    outcome: Outcome,
    notes: Vec<String>,
) -> Report {
    let (index, now) = (facts(cluster), cluster.now());
    let lives = timeline.lives();
    let places: BTreeMap<&str, usize> =
        lives.iter().enumerate().map(|(at, life)| (life.uid.as_str(), at)).collect();
    let sequences: Vec<SequenceReport> =
        index.sequences().map(|entry| sequence(&index, entry, cluster, timeline, &places, now)).collect();
    let pods: Vec<PodReport> = lives.iter().map(|life| pod(&index, life, now)).collect();
    let ended = match outcome {
        Outcome::Complete => lives.iter().filter_map(|life| life.arrived).max().unwrap_or_default(),
        Outcome::Stuck => timeline.last_progress().as_millis() as u64,
        Outcome::Unfinished => plan.until.as_millis() as u64,
    };
    let never = if outcome == Outcome::Stuck { never(&pods, &sequences) } else { Vec::new() };
    Report {
        seed: plan.seed,
        nodes: cluster.store.list(Kind::Node, None).count(),
        ended,
        outcome,
        critical: chain::critical(&lives, &sequences),
        sequences,
        pods,
        never,
        notes,
    }
}

/// All that is stored, as the controller sees it.
fn facts(cluster: &Cluster) -> Index {
    let mut index = Index::default();
    fn each<T: DeserializeOwned>(cluster: &Cluster, kind: Kind) -> Vec<T> {
        let all = cluster.store.list(kind, None);
        all.filter_map(|(_, object)| serde_json::from_value(object.value.clone()).ok()).collect()
    }
    for namespace in each::<NamespaceObject>(cluster, Kind::Namespace) {
        index.apply(Object::Namespace(namespace.facts()));
    }
    for (kind, owner) in [
        (Kind::Deployment, OwnerKind::Deployment),
        (Kind::ReplicaSet, OwnerKind::ReplicaSet),
        (Kind::StatefulSet, OwnerKind::StatefulSet),
        (Kind::DaemonSet, OwnerKind::DaemonSet),
        (Kind::Job, OwnerKind::Job),
    ] {
        for object in each::<OwnerObject>(cluster, kind) {
            index.apply(Object::Owner(object.facts(owner)));
        }
    }
    for pod in each::<PodObject>(cluster, Kind::Pod) {
        index.apply(Object::Pod(pod.facts()));
    }
    for sequence in each::<SequenceObject>(cluster, Kind::PodSequence) {
        index.apply(Object::Sequence(sequence.facts()));
    }
    index
}

fn sequence(
    index: &Index,
    entry: &SequenceEntry,
    cluster: &Cluster,
    timeline: &Timeline,
    places: &BTreeMap<&str, usize>,
    now: Timestamp,
) -> SequenceReport {
    let (namespace, name) = (entry.sequence.namespace.to_string(), entry.sequence.name.to_string());
    let stored = cluster.store.find(Kind::PodSequence, &namespace, &name);
    let status = stored.map(|stored| &stored["status"]).unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lines = explain_sequence(index, entry, now).below;
    let moment = |value: &Value| {
        let at: Timestamp = value.as_str()?.parse().ok()?;
        Some(timeline.since_beginning(at))
    };
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (uid, place) in places {
        let claim = index.claims_on(Uid::new(uid)).find(|claim| claim.sequence == entry.sequence.uid);
        if let Some(claim) = claim {
            members.entry(claim.group as usize).or_default().push(*place);
        }
    }
    let groups =
        entry.spec().map(|spec| spec.groups.iter().enumerate().collect::<Vec<_>>()).unwrap_or_default();
    let group = |(at, group): (usize, &rollcall_core::sequence::Group)| {
        let shown = &status["groups"][at];
        let line = lines.iter().find(|line| line.text.starts_with(&format!("group {} ", at + 1)));
        let mut pods = members.remove(&at).unwrap_or_default();
        pods.sort_unstable();
        GroupReport {
            name: group.title.to_string(),
            waits_for: group.after.to_vec(),
            state: shown["state"].as_str().unwrap_or("Waiting").to_owned(),
            expected: shown["expected"].as_u64().map(|number| number as u32),
            arrived: shown["arrived"].as_u64().unwrap_or_default() as u32,
            opened: moment(&shown["openedAt"]),
            completed: moment(&shown["completedAt"]),
            pods,
            reason: line.filter(|_| shown["state"] != "Complete").and_then(first_reason),
        }
    };
    let groups = groups.into_iter().map(group).collect();
    SequenceReport {
        phase: text(&status["phase"]),
        message: text(&status["message"]),
        namespace,
        name,
        groups,
    }
}

fn pod(index: &Index, life: &Life, now: Timestamp) -> PodReport {
    let known = index.pod_named(&life.namespace, &life.name).filter(|pod| pod.uid.to_string() == life.uid);
    let reason = match (life.arrived, known) {
        (None, Some(pod)) => first_reason(&explain_pod(index, pod, now)),
        _ => None,
    };
    PodReport {
        namespace: life.namespace.clone(),
        name: life.name.clone(),
        workload: life.owner.as_ref().map(|(kind, name)| format!("{kind}/{name}")),
        node: life.node.clone(),
        spans: life.spans.clone(),
        deleted: life.deleted,
        arrived: life.arrived,
        reason,
    }
}

/// The first line that is a reason, from the top.
fn first_reason(line: &Line) -> Option<Why> {
    let own = line.code.map(|code| Why {
        code: code.to_owned(),
        sentence: line.text.clone(),
        hint: line.hint.clone().filter(|hint| !hint.is_empty()),
    });
    own.or_else(|| line.below.iter().find_map(first_reason))
}

/// Causes first; what only waits for another group follows from them.
fn never(pods: &[PodReport], sequences: &[SequenceReport]) -> Vec<Never> {
    let of_groups = sequences.iter().flat_map(|sequence| {
        let incomplete = sequence.groups.iter().filter(|group| group.state != "Complete");
        let empty = incomplete.filter(|group| group.pods.is_empty());
        empty.filter_map(|group| {
            let what = format!("podseq/{} group \"{}\"", sequence.name, group.name);
            Some(Never { what, why: group.reason.clone()? })
        })
    });
    let of_pods = pods.iter().filter(|pod| pod.arrived.is_none() && pod.deleted.is_none()).map(|pod| Never {
        what: format!("pod/{}", pod.name),
        why: pod.reason.clone().unwrap_or_else(|| from_spans(pod)),
    });
    let mut all: Vec<Never> = of_groups.chain(of_pods).collect();
    all.sort_by_key(|never| never.why.code == "WaitsForGroup");
    all
}

/// What is known of a pod that no sequence has anything to say about.
fn from_spans(pod: &PodReport) -> Why {
    let last = pod.spans.last();
    let sentence = last.and_then(|span| span.why.clone()).unwrap_or_else(|| "it did not become ready".into());
    Why { code: last.map_or("Unknown".into(), |span| format!("{:?}", span.state)), sentence, hint: None }
}
