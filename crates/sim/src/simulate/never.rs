//! Lists what can never start: causes first, then the entries that only wait for them.

use crate::report::{Never, PodReport, PodState, SequenceReport, Why};
use std::collections::BTreeMap;

/// A workload that has fewer pods than it wants.
pub struct LackingWorkload {
    pub namespace: String,
    /// Such as `Deployment/web`.
    pub workload: String,
    pub why: Why,
}

/// Whether the reason is a cause of its own, rather than waiting for another group.
fn is_cause(why: &Why) -> bool {
    why.code != "WaitsForGroup"
}

pub fn never(
    pods: &[PodReport],
    sequences: &[SequenceReport],
    stalls: Vec<Never>,
    lacking: Vec<LackingWorkload>,
) -> Vec<Never> {
    let mut all = stalls;
    all.extend(of_groups(pods, sequences));
    all.extend(of_pods(pods, &lacking));
    for LackingWorkload { namespace, workload, why } in lacking {
        let is_its = |pod: &PodReport| pod.namespace == namespace && pod.workload.as_ref() == Some(&workload);
        let title = workload.replace('/', " ");
        let said = |other: &Never| {
            other.why.sentence.contains(&title) || other.pods.iter().any(|place| is_its(&pods[*place]))
        };
        if !all.iter().any(said) {
            all.push(Never { what: workload, pods: Vec::new(), why });
        }
    }
    all.sort_by_key(|never| !is_cause(&never.why));
    all
}

/// Groups that are incomplete for a reason of their own, not because of one of their pods.
fn of_groups<'a>(pods: &'a [PodReport], sequences: &'a [SequenceReport]) -> impl Iterator<Item = Never> + 'a {
    let blames_pods = |places: &[usize]| {
        let missing = places.iter().map(|place| &pods[*place]).filter(|pod| is_missing(pod));
        missing.filter_map(|pod| pod.reason.as_ref()).any(is_cause)
    };
    sequences.iter().flat_map(move |sequence| {
        let incomplete = sequence.groups.iter().filter(|group| group.state != "Complete");
        let own = incomplete.filter(move |group| !blames_pods(&group.pods));
        own.filter_map(move |group| {
            let why = group.reason.clone().filter(|why| is_cause(why) || group.pods.is_empty())?;
            let what = format!("podseq/{} group \"{}\"", sequence.name, group.name);
            Some(Never { what, pods: Vec::new(), why })
        })
    })
}

fn is_missing(pod: &PodReport) -> bool {
    pod.arrived.is_none() && pod.deleted.is_none()
}

/// Pods that have not arrived. Pods of one workload with the same reason are one entry.
fn of_pods(pods: &[PodReport], lacking: &[LackingWorkload]) -> Vec<Never> {
    let mut all: Vec<Never> = Vec::new();
    let mut known: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let is_lacking = |pod: &PodReport| {
        let its = |one: &LackingWorkload| {
            one.namespace == pod.namespace && Some(&one.workload) == pod.workload.as_ref()
        };
        lacking.iter().any(its)
    };
    // A failed pod that its workload has replaced does not matter.
    let replaced = |pod: &PodReport| {
        let failed = pod.spans.last().is_some_and(|span| span.state == PodState::Failed);
        failed && pod.workload.is_some() && !is_lacking(pod)
    };
    let missing = pods.iter().enumerate().filter(|(_, pod)| is_missing(pod) && !replaced(pod));
    for (place, pod) in missing {
        let why = pod.reason.clone().unwrap_or_else(|| from_spans(pod));
        let (Some(workload), Some(reason)) = (&pod.workload, &pod.reason) else {
            all.push(Never { what: format!("pod/{}", pod.name), pods: vec![place], why });
            continue;
        };
        let same = (pod.namespace.as_str(), workload.as_str(), reason.code.as_str());
        match known.get(&same) {
            Some(at) => {
                let never = &mut all[*at];
                never.pods.push(place);
                never.what = format!("{} pods of {workload}", never.pods.len());
            }
            None => {
                known.insert(same, all.len());
                all.push(Never { what: format!("pod/{}", pod.name), pods: vec![place], why });
            }
        }
    }
    all
}

/// A reason derived from the last state of the pod, if the core gives none.
fn from_spans(pod: &PodReport) -> Why {
    let last = pod.spans.last();
    let sentence = last.and_then(|span| span.why.clone()).unwrap_or_else(|| "it did not become ready".into());
    Why { code: last.map_or("Unknown".into(), |span| format!("{:?}", span.state)), sentence, hint: None }
}
