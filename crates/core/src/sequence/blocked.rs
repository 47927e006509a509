//! The reasons why a group is not complete, most severe first, found in its cells.

use super::{
    Facts,
    decide::held_by_another,
    evaluate::{Evaluation, GroupView, is_absent},
    index::{Cell, SequenceEntry, Standing},
    nodes::is_on_gone_node,
    reason::Reason,
    spec::{Members, Spec, Until, WorkloadRef},
    views::NodeSet,
};
use crate::{
    Timestamp, Uid,
    cluster::{Cluster, Refusal},
    facts::{Owner, OwnerKind, Pod, PodPhase, Trouble},
    gates,
};
use std::sync::Arc;

/// A reason, and the time since when it holds, if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub reason: Reason,
    pub since: Option<Timestamp>,
}

impl From<Reason> for Blocker {
    fn from(reason: Reason) -> Self {
        Blocker { reason, since: None }
    }
}

/// Returns at most `most` reasons why an open group is not complete, in this order:
///
/// 1. failed pods, which do not recover by themselves, and stopped workloads
/// 2. missing pods and workloads
/// 3. pods whose release the API server rejects
/// 4. pods held by another sequence
/// 5. starting pods, the longest waiting first, and pods of old ReplicaSets
/// 6. nodes that do not meet `nodeReady` although all their members have arrived
pub fn of_open_group(
    facts: Facts<'_>,
    entry: &SequenceEntry,
    spec: &Spec,
    position: usize,
    evaluation: &Evaluation,
    most: usize,
) -> Vec<Blocker> {
    let (group, cell) = (&spec.groups[position], entry.cell(position));
    let counts = |pod: &&Pod| !is_on_gone_node(facts, spec, pod);
    let failed = cell.members(Standing::Failed).filter_map(|(_, uid)| {
        let pod = facts.cluster.pod(uid).filter(counts)?;
        Some(Blocker { reason: of_failed_pod(pod), since: Some(pod.since) })
    });
    let stopped = cell.owners().filter_map(|uid| facts.cluster.owner(uid)).filter(|owner| owner.is_stopped());
    let stopped = stopped.map(|owner| {
        let workload = WorkloadRef::naming(owner).to_string();
        Blocker::from(Reason::WorkloadStopped { workload })
    });
    // A group can have many workloads, and a stopped one is rare: search only if the sum says that one exists.
    let stopped = stopped.take(if cell.sum().stopped > 0 { most } else { 0 });
    let absent = absent_members(facts, entry, spec, position, &evaluation.groups[position]);
    let lacking = lacking_nodes(spec, position, evaluation);
    let refused = refused(facts, cell);
    let goes = |uid: &Uid| facts.cluster.in_flight.refusal(*uid).is_none();
    let held = cell.members(Standing::Held).filter(move |(_, uid)| goes(uid)).take(most);
    let held = held.filter_map(|(_, uid)| held_by_another(facts, entry, uid, evaluation.now));
    let held = held.map(|(_, reason)| Blocker::from(reason));
    let starting = cell.waiting().filter(|(_, uid)| goes(uid)).filter_map(|(since, uid)| {
        let reason = of_starting_pod(facts.cluster.pod(uid).filter(counts)?, Some(&spec.gate), group.until);
        Some(Blocker { reason, since: Some(since) })
    });
    let outdated = cell
        .members(Standing::Outdated)
        .filter(|(_, uid)| facts.cluster.pod(*uid).is_some_and(|pod| counts(&pod)))
        .map(|(name, _)| Blocker::from(Reason::OldReplicaSet { pod: name.clone() }));
    let all = failed.chain(stopped).chain(absent).chain(refused).chain(held).chain(starting).chain(outdated);
    all.chain(lacking).take(most).collect()
}

/// In Node scope: nodes that do not meet the `nodeReady` of the group although their members have arrived.
fn lacking_nodes<'a>(
    spec: &'a Spec,
    position: usize,
    evaluation: &'a Evaluation<'a>,
) -> impl Iterator<Item = Blocker> + 'a {
    let looked_at = if spec.groups[position].node_ready.is_some() { LOOKED_UP } else { 0 };
    let waiting = evaluation.nodes.nodes_in(NodeSet::Waiting).take(looked_at);
    waiting.filter_map(move |(node, judged)| {
        let view = &judged.view.groups[position];
        let only_lacks = view.open && view.required.is_some_and(|required| view.arrived >= required);
        let what = view.lacks.clone().filter(|_| only_lacks && !view.complete)?;
        Some(Reason::NodeLacks { node: node.clone(), what }.into())
    })
}

/// Members whose release the API server rejects, including those whose release is being retried.
fn refused<'a>(facts: Facts<'a>, cell: &'a Cell) -> impl Iterator<Item = Blocker> + 'a {
    let looked_up = if facts.cluster.in_flight.has_refusals() { LOOKED_UP } else { 0 };
    let members =
        [Standing::Held, Standing::Releasing].into_iter().flat_map(|standing| cell.members(standing));
    members.take(looked_up).filter_map(move |(name, uid)| of_refused_pod(facts, name, uid))
}

/// Returns why the API server rejects the release of a pod, if it does.
pub fn of_refused_pod(facts: Facts<'_>, name: &Arc<str>, uid: Uid) -> Option<Blocker> {
    let Refusal { forbidden, message, since, .. } = facts.cluster.in_flight.refusal(uid)?.clone();
    let pod = name.clone();
    let reason = match forbidden {
        true => Reason::ReleaseForbidden { pod, message },
        false => Reason::ReleaseRefused { pod, message },
    };
    Some(Blocker { reason, since: Some(since) })
}

/// Maximum number of names or nodes to search for blockers, so that a decision never visits every pod or node.
const LOOKED_UP: usize = 300;

fn absent_members<'a>(
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    position: usize,
    view: &GroupView,
) -> Box<dyn Iterator<Item = Blocker> + 'a> {
    let (group, cell) = (&spec.groups[position], entry.cell(position));
    let present = view.present;
    let too_few = |required: u32| Blocker::from(Reason::TooFewMembers { present, required });
    if view.required == Some(0) && is_absent(entry, group, position) {
        return Box::new(std::iter::empty());
    }
    // `minReady` requires more members than are expected.
    let wanting = match (view.required, view.expected) {
        (Some(required), Some(expected)) if required > expected => Some(too_few(required)),
        (_, _) => None,
    };
    match (&group.members, group.expected) {
        (Members::Names(names), None) => {
            let missing = (names.len() as u32).saturating_sub(present + entry.in_earlier_group(position));
            let exists = |name: &&Arc<str>| {
                facts.cluster.pod_named(&spec.pod_namespace, name).is_some_and(|pod| !pod.terminating)
            };
            let looked_up = names.iter().take(if missing > 0 { LOOKED_UP } else { 0 });
            let absent = looked_up.filter(move |name| !exists(name)).take(missing as usize);
            let elsewhere = (missing > 0 && names.len() > LOOKED_UP).then(|| too_few(names.len() as u32));
            let absent = absent.map(|name| Reason::NotCreated { pod: name.clone() }.into());
            Box::new(wanting.into_iter().chain(absent).chain(elsewhere))
        }
        (Members::Workload(workload), _) if !cell.has_workload() => {
            let similar = similar(facts.cluster, &spec.pod_namespace, workload);
            let missing = Reason::WorkloadMissing { workload: workload.to_string(), similar };
            Box::new(std::iter::once(missing.into()))
        }
        (Members::None, _) => Box::new(std::iter::empty()),
        (Members::Names(_) | Members::Selector(_) | Members::Workload(_), Some(expected)) => {
            let required = group.min_ready.required(expected);
            Box::new((present < required).then(|| too_few(required)).into_iter())
        }
        (Members::Workload(_), None) => {
            let owners = cell.owners().filter_map(move |uid| of_owner(facts, uid, cell, group.until));
            Box::new(wanting.into_iter().chain(owners.map(Blocker::from)))
        }
        (Members::Selector(selector), None) => {
            let nothing =
                cell.is_empty().then(|| Reason::NothingMatches { selector: selector.to_string() }.into());
            // Workloads match, but none of them wants any pods: a group without members is never complete.
            let sum = cell.sum();
            let idle = present == 0 && !cell.is_empty() && sum.expected == 0 && sum.unknown == 0;
            let idle = idle.then(|| too_few(1));
            let owners = cell.owners().filter_map(move |uid| of_owner(facts, uid, cell, group.until));
            let first = nothing.into_iter().chain(idle).chain(wanting);
            Box::new(first.chain(owners.map(Blocker::from)))
        }
    }
}

fn of_owner(facts: Facts<'_>, uid: Uid, cell: &Cell, until: Until) -> Option<Reason> {
    let Some(owner) = facts.cluster.owner(uid) else {
        return Some(Reason::NumberUnknown { owner: format!("the owner {uid}") });
    };
    // `of_open_group` already reports stopped workloads.
    if owner.is_stopped() {
        return None;
    }
    if let Some(job) = owner.job.filter(|job| until.resolve(job.runs_to_completion) == Until::Succeeded) {
        let (name, completions) = (owner.name.clone(), job.completions.unwrap_or(1));
        return match (job.complete, job.failed, job.suspended) {
            (true, _, _) => None,
            (false, true, _) => Some(Reason::JobFailed { job: name }),
            (false, false, true) => Some(Reason::JobSuspended { job: name }),
            (false, false, false) => {
                Some(Reason::JobNotComplete { job: name, succeeded: job.succeeded, completions })
            }
        };
    }
    if owner.kind == OwnerKind::CronJob {
        let has_run = facts.cluster.latest_run(uid).is_some();
        return (!has_run).then(|| Reason::NoRunYet { cron_job: owner.name.clone() });
    }
    let (title, present) = (title(owner), cell.pods_of(uid));
    let suspended = owner.job.is_some_and(|job| job.suspended);
    match owner.desired {
        None => Some(Reason::NumberUnknown { owner: title }),
        Some(expected) if present < expected && suspended => {
            Some(Reason::JobSuspended { job: owner.name.clone() })
        }
        Some(expected) if present < expected => Some(Reason::TooFewPods { owner: title, present, expected }),
        Some(_) => None,
    }
}

/// Maximum number of workload names to compare with a missing one.
const COMPARED: usize = 200;
/// Maximum number of similar names to suggest.
const PROPOSED: usize = 3;

/// Suggestions for a workload that does not exist: workloads with the same name but another kind, or with a similar name.
fn similar(cluster: &Cluster, namespace: &Arc<str>, wanted: &WorkloadRef) -> Vec<String> {
    let text = |owner: &Owner| WorkloadRef::naming(owner).to_string();
    let namesakes = OwnerKind::ALL.into_iter().filter(|kind| *kind != wanted.kind);
    let namesakes = namesakes.filter_map(|kind| cluster.owner_named(namespace, kind, &wanted.name));
    let near = cluster.owners_in(namespace, wanted.kind).take(COMPARED);
    let near = near.filter(|owner| is_near(&owner.name, &wanted.name));
    let there = namesakes.chain(near).filter(|owner| !owner.terminating);
    there.take(PROPOSED).map(text).collect()
}

/// Whether two names differ by at most two edits, and by at most a third of the length of `other`.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let most = 2.min(other.len().div_ceil(3));
    if one.len().abs_diff(other.len()) > most {
        return false;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()] <= most
}

/// The reason for a failed pod that is not restarted.
pub fn of_failed_pod(pod: &Pod) -> Reason {
    Reason::PodFailed { pod: pod.name.clone(), trouble: pod.trouble.as_ref().map(Trouble::to_string) }
}

/// The reason for a pod that another gate holds: a gate of Rollcall or a foreign one.
pub fn of_gate(pod: Arc<str>, gate: &Arc<str>) -> Reason {
    match gates::feature(gate) {
        Some(feature) => Reason::OwnGate { pod, gate: gate.clone(), feature },
        None => Reason::ForeignGate { pod, gate: gate.clone() },
    }
}

/// Returns why a released pod has not arrived.
///
/// `ours` is the gate of the sequence. The pod still has it while its removal is in flight.
pub fn of_starting_pod(pod: &Pod, ours: Option<&Arc<str>>, until: Until) -> Reason {
    let name = pod.name.clone();
    let foreign = pod.gates.iter().find(|gate| Some(*gate) != ours);
    if let (Some(gate), false) = (foreign, pod.is_bound()) {
        return of_gate(name, gate);
    }
    let trouble = pod.trouble.as_ref().map(Trouble::to_string);
    match until.resolve(pod.runs_to_completion) {
        Until::Succeeded => Reason::NotSucceeded { pod: name, trouble },
        Until::Started => Reason::NotStarted { pod: name, trouble },
        Until::Ready | Until::Auto => match pod.phase {
            PodPhase::Pending => Reason::NotStarted { pod: name, trouble },
            PodPhase::Running | PodPhase::Succeeded | PodPhase::Failed | PodPhase::Unknown => {
                Reason::NotReady { pod: name, trouble }
            }
        },
    }
}

/// Returns at most `most` members that lack the gate of the sequence and were not released by hand. Rollcall cannot hold them;
/// the user must add the gate to their template.
pub fn unheld<'a>(
    facts: Facts<'a>,
    cell: &'a Cell,
    spec: &'a Spec,
    most: usize,
) -> impl Iterator<Item = &'a Pod> {
    // Pods that have certainly been running come first.
    let standings = [Standing::Arrived, Standing::Outdated, Standing::Failed, Standing::Starting];
    let members = standings.into_iter().flat_map(move |standing| cell.members(standing));
    let pods = members.filter_map(move |(_, uid)| facts.cluster.pod(uid));
    pods.filter(move |pod| !pod.released_by_hand && !pod.gates.contains(&spec.gate)).take(most)
}

/// Whether a pod without the gate has already been scheduled.
pub fn runs(pod: &Pod) -> bool {
    pod.is_bound() || pod.phase != PodPhase::Pending
}

pub fn title(owner: &Owner) -> String {
    match owner.kind {
        OwnerKind::Other => format!("{}", owner.name),
        OwnerKind::Deployment
        | OwnerKind::ReplicaSet
        | OwnerKind::StatefulSet
        | OwnerKind::DaemonSet
        | OwnerKind::Job
        | OwnerKind::CronJob => format!("{} {}", owner.kind.as_str(), owner.name),
    }
}
