//! The critical chain: the pods that determined the end of the run.

use super::timeline::PodLife;
use crate::report::{CriticalStep, GroupReport, SequenceReport};

/// If a pod is created at most this long after another pod arrived, it counts as having waited for it. In milliseconds.
const AT_ONCE: u64 = 1_000;

/// The critical chain, from its first pod to the pod that arrived last.
pub fn critical(lives: &[PodLife], sequences: &[SequenceReport]) -> Vec<CriticalStep> {
    let arrived = |place: &usize| lives[*place].arrived;
    let Some(last) =
        (0..lives.len()).filter(|place| arrived(place).is_some()).max_by_key(|place| arrived(place))
    else {
        return Vec::new();
    };
    let mut chain = Vec::new();
    let mut next = Some(last);
    while let Some(place) = next.filter(|_| chain.len() < lives.len()) {
        let life = &lives[place];
        let (from, to) = (life.released_at(), life.arrived.unwrap_or_default());
        chain.push(CriticalStep { pod: place, from, to });
        next =
            waited_for(place, lives, sequences).filter(|earlier| arrived(earlier).is_some_and(|at| at < to));
    }
    chain.reverse();
    chain
}

/// Pods of the groups that a group waits for. An empty group is replaced by the groups that it waits for itself.
fn populated_before(sequence: &SequenceReport, group: &GroupReport) -> Vec<usize> {
    let mut pods = Vec::new();
    let mut ahead = group.waits_for.clone();
    while let Some(earlier) = ahead.pop() {
        let earlier = &sequence.groups[earlier];
        match earlier.pods.is_empty() {
            true => ahead.extend(&earlier.waits_for),
            false => pods.extend(&earlier.pods),
        }
    }
    pods
}

/// The pod whose arrival allowed this one to start: the last arrival of the preceding groups, or the preceding pod of its
/// workload.
fn waited_for(place: usize, lives: &[PodLife], sequences: &[SequenceReport]) -> Option<usize> {
    let life = &lives[place];
    let last_before = |candidates: &mut dyn Iterator<Item = usize>, limit: u64| {
        candidates
            .filter(|candidate| lives[*candidate].arrived.is_some_and(|at| at <= limit))
            .max_by_key(|candidate| (lives[*candidate].arrived, *candidate))
    };
    let held_by = sequences.iter().filter(|_| life.was_held()).find_map(|sequence| {
        let group = sequence.groups.iter().find(|group| group.pods.contains(&place))?;
        let mut members = populated_before(sequence, group).into_iter();
        last_before(&mut members, life.released_at())
    });
    if held_by.is_some() {
        return held_by;
    }
    let owner = life.owner.as_ref()?;
    let mut siblings = (0..lives.len()).filter(|other| {
        *other != place
            && lives[*other].namespace == life.namespace
            && lives[*other].owner.as_ref() == Some(owner)
    });
    last_before(&mut siblings, life.created)
        .filter(|sibling| lives[*sibling].arrived.is_some_and(|at| life.created - at <= AT_ONCE))
}
