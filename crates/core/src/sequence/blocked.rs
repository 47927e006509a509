//! What a group waits for, found in its cell: the first few reasons, the worst first.

use super::{
    evaluate::GroupView,
    reason::Reason,
    spec::{Group, Members, Spec, Until},
};
use crate::{
    Timestamp, Uid,
    facts::{Owner, OwnerKind, Pod, PodPhase, Trouble},
    index::{Cell, Index, SequenceEntry, Standing},
};

/// A reason and since when it holds, where that is known.
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

/// Why an open group is not complete, at most `most` reasons. Failed pods come first: nothing un-blocks them
/// by itself; then what does not exist; then what is starting, the longest waiting first.
pub fn of_open_group(
    index: &Index,
    entry: &SequenceEntry,
    spec: &Spec,
    position: usize,
    view: &GroupView,
    most: usize,
) -> Vec<Blocker> {
    let (group, cell) = (&spec.groups[position], entry.cell(position));
    let failed = cell.members(Standing::Failed).filter_map(|(_, uid)| {
        let pod = index.pod(uid)?;
        let reason = Reason::PodFailed { pod: pod.name.clone(), trouble: pod.trouble.as_ref().map(spoken) };
        Some(Blocker { reason, since: Some(pod.since) })
    });
    let absent = absent_members(index, group, spec, cell, view);
    let starting = cell.waiting().filter_map(|(since, uid)| {
        let reason = of_starting_pod(index.pod(uid)?, group.until);
        Some(Blocker { reason, since: Some(since) })
    });
    let outdated = cell
        .members(Standing::Outdated)
        .map(|(name, _)| Blocker::from(Reason::OldReplicaSet { pod: name.clone() }));
    failed.chain(absent).chain(starting).chain(outdated).take(most).collect()
}

fn absent_members<'a>(
    index: &'a Index,
    group: &'a Group,
    spec: &'a Spec,
    cell: &'a Cell,
    view: &GroupView,
) -> Box<dyn Iterator<Item = Blocker> + 'a> {
    match (&group.members, group.expected) {
        (Members::Names(names), None) => {
            let missing = names
                .iter()
                .filter(|name| index.pod_named(&spec.target, name).is_none_or(|pod| pod.terminating));
            Box::new(missing.map(|name| Reason::NotCreated { pod: name.clone() }.into()))
        }
        (Members::Names(_) | Members::Selector(_), Some(expected)) => {
            let required = group.min_ready.of(expected);
            let short = (view.present < required)
                .then(|| Reason::TooFewMembers { present: view.present, required }.into());
            Box::new(short.into_iter())
        }
        (Members::Selector(selector), None) => {
            let nothing =
                cell.is_empty().then(|| Reason::NothingMatches { selector: selector.to_string() }.into());
            let few = match view.required {
                Some(required) if view.present < required && cell.owners().next().is_none() => {
                    Some(Reason::TooFewMembers { present: view.present, required }.into())
                }
                Some(_) | None => None,
            };
            let owners = cell.owners().filter_map(|uid| of_owner(index, uid, cell, group.until));
            Box::new(nothing.into_iter().chain(few).chain(owners.map(Blocker::from)))
        }
    }
}

fn of_owner(index: &Index, uid: Uid, cell: &Cell, until: Until) -> Option<Reason> {
    let Some(owner) = index.owner(uid) else {
        return Some(Reason::NumberUnknown { owner: format!("the owner {uid}") });
    };
    let title = title(owner);
    if let Some(job) = owner.job.filter(|job| until.resolve(job.runs_to_completion) == Until::Succeeded) {
        let (job_title, completions) = (title, job.completions.unwrap_or(1));
        return match (job.complete, job.failed) {
            (true, _) => None,
            (false, true) => Some(Reason::JobFailed { job: job_title }),
            (false, false) => {
                Some(Reason::JobNotComplete { job: job_title, succeeded: job.succeeded, completions })
            }
        };
    }
    let present = cell.pods_of(uid);
    match owner.desired {
        None => Some(Reason::NumberUnknown { owner: title }),
        Some(expected) if present < expected => Some(Reason::TooFewPods { owner: title, present, expected }),
        Some(_) => None,
    }
}

/// Why a pod that is out of our gate has not arrived.
pub fn of_starting_pod(pod: &Pod, until: Until) -> Reason {
    let name = pod.name.clone();
    if let (Some(gate), false) = (pod.gates.first(), pod.bound) {
        return Reason::ForeignGate { pod: name, gate: gate.clone() };
    }
    let trouble = pod.trouble.as_ref().map(spoken);
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

/// Members of a closed group that nothing of ours holds: at most `most`. Nobody but the pod's author can help.
pub fn unheld<'a>(
    index: &'a Index,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    position: usize,
    most: usize,
) -> impl Iterator<Item = &'a Pod> {
    let cell = entry.cell(position);
    let standings = [Standing::Starting, Standing::Arrived, Standing::Outdated, Standing::Failed];
    let members = standings.into_iter().flat_map(move |standing| cell.members(standing));
    let pods = members.filter_map(move |(_, uid)| index.pod(uid));
    pods.filter(move |pod| !pod.released_by_hand && !pod.gates.contains(&spec.gate)).take(most)
}

/// Whether an unheld pod has already got past the scheduler.
pub fn runs(pod: &Pod) -> bool {
    pod.bound || pod.phase != PodPhase::Pending
}

pub fn title(owner: &Owner) -> String {
    match owner.kind {
        OwnerKind::Other => format!("{}", owner.name),
        OwnerKind::Deployment
        | OwnerKind::ReplicaSet
        | OwnerKind::StatefulSet
        | OwnerKind::DaemonSet
        | OwnerKind::Job => format!("{} {}", owner.kind.as_str(), owner.name),
    }
}

fn spoken(trouble: &Trouble) -> String {
    match &trouble.container {
        Some(container) => format!("container {container}: {}", trouble.what),
        None => trouble.what.to_string(),
    }
}
