//! An independent view of the events that the controller has received, with simple, slow counting.

use crate::support::world::Change;
use rollcall_core::{
    Uid,
    facts::{Owner, OwnerKind, Pod, PodPhase},
    index::Object,
    sequence::{
        Spec,
        spec::{Group, Members, Until},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Random sequences only name or select pods.
const NO_WORKLOADS: &str = "random sequences name no workloads";

#[derive(Clone, Default)]
pub struct View {
    pub pods: BTreeMap<Uid, Pod>,
    pub owners: BTreeMap<Uid, Owner>,
    gone: BTreeSet<Uid>,
}

impl View {
    pub fn take_in(&mut self, change: &Change) {
        match change {
            Change::Applied(Object::Pod(pod)) => self.pod(pod),
            Change::Applied(Object::Owner(owner)) if !self.gone.contains(&owner.uid) => {
                let newer = self.owners.get(&owner.uid).is_none_or(|known| known.version < owner.version);
                if newer {
                    self.owners.insert(owner.uid, owner.clone());
                }
            }
            Change::Deleted(Object::Pod(pod)) => {
                self.pods.remove(&pod.uid);
                self.gone.insert(pod.uid);
            }
            Change::Deleted(Object::Owner(owner)) => {
                self.owners.remove(&owner.uid);
                self.gone.insert(owner.uid);
            }
            _ => {}
        }
    }

    fn pod(&mut self, pod: &Pod) {
        let namesake = |known: &&Pod| known.name == pod.name && known.namespace == pod.namespace;
        if self.gone.contains(&pod.uid)
            || self.pods.values().filter(namesake).any(|known| known.version >= pod.version)
        {
            return;
        }
        let replaced = self.pods.values().filter(namesake).map(|known| known.uid).find(|uid| *uid != pod.uid);
        if let Some(replaced) = replaced {
            self.pods.remove(&replaced);
            self.gone.insert(replaced);
        }
        self.pods.insert(pod.uid, pod.clone());
    }

    /// The group of a sequence that a pod belongs to: the first that covers it.
    pub fn group_of(spec: &Spec, pod: &Pod) -> Option<usize> {
        spec.groups.iter().position(|group| match &group.members {
            Members::Names(names) => names.contains(&pod.name),
            Members::Selector(selector) => selector.matches(&pod.labels),
            Members::Workload(_) | Members::None => unreachable!("{NO_WORKLOADS}"),
        })
    }

    fn counted(&self, spec: &Spec) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| !pod.terminating && pod.namespace == spec.pod_namespace)
    }

    /// Whether the condition of a group holds, as far as the delivered events show.
    pub fn condition(&self, spec: &Spec, position: usize) -> bool {
        let group = &spec.groups[position];
        let members: Vec<&Pod> =
            self.counted(spec).filter(|pod| View::group_of(spec, pod) == Some(position)).collect();
        let arrived = |pod: &&&Pod| arrived(spec, group, pod);
        match &group.members {
            Members::Names(names) => {
                let lost = |pod: &&Pod| {
                    names.contains(&pod.name)
                        && View::group_of(spec, pod).is_some_and(|other| other < position)
                };
                let lost = self.counted(spec).filter(lost).count();
                let expected = (names.len() - lost) as u32;
                let required = group.min_ready.required(expected);
                let required = if lost > 0 { required.min(expected) } else { required };
                members.iter().filter(arrived).count() as u32 >= required
            }
            Members::Workload(_) | Members::None => unreachable!("{NO_WORKLOADS}"),
            Members::Selector(selector) => {
                let mut roots: BTreeMap<Uid, u32> = BTreeMap::new();
                let templates = self.owners.values().filter(|owner| {
                    let itself = owner.parent.is_none();
                    let first = |earlier: &Group| match &earlier.members {
                        Members::Selector(earlier) => earlier.matches(&owner.template_labels),
                        Members::Names(_) => false,
                        Members::Workload(_) | Members::None => unreachable!("{NO_WORKLOADS}"),
                    };
                    itself
                        && selector.matches(&owner.template_labels)
                        && !spec.groups[..position].iter().any(first)
                });
                roots.extend(templates.map(|owner| (owner.uid, 0)));
                let (mut expected, mut total) = (0, 0);
                for pod in &members {
                    let (root, current) = self.root(pod);
                    let counts = u32::from(arrived(&pod) && current);
                    match root {
                        None => (expected, total) = (expected + 1, total + counts),
                        Some(root) => *roots.entry(root).or_default() += counts,
                    }
                }
                for (root, ready) in roots {
                    let Some(owner) = self.owners.get(&root) else { return false };
                    let (wants, has) = wants_and_has(owner, group, ready);
                    let Some(wants) = wants else { return false };
                    (expected, total) = (expected + wants, total + has.min(wants));
                }
                expected > 0 && total >= group.min_ready.required(expected)
            }
        }
    }

    /// Returns the topmost workload of the pod, and whether the pod belongs to its newest revision.
    fn root(&self, pod: &Pod) -> (Option<Uid>, bool) {
        let Some(owner) = pod.owner else { return (None, true) };
        let made_by = self.owners.get(&owner.uid);
        match made_by.and_then(|made_by| made_by.parent) {
            Some(parent) if owner.kind == OwnerKind::ReplicaSet => {
                let deployment = self.owners.get(&parent.uid);
                let newest = deployment.and_then(|deployment| deployment.revision.clone());
                let current =
                    newest.is_some() && newest == made_by.and_then(|made_by| made_by.revision.clone());
                (Some(parent.uid), current)
            }
            _ => (Some(owner.uid), true),
        }
    }
}

fn arrived(spec: &Spec, group: &Group, pod: &Pod) -> bool {
    let over = pod.phase == PodPhase::Succeeded;
    let there = match (group.until, pod.runs_to_completion) {
        (Until::Succeeded, _) | (Until::Auto, true) => over,
        (Until::Ready, _) | (Until::Auto, false) => pod.ready || over,
        (Until::Started, _) => pod.started || over,
    };
    there && !pod.gates.contains(&spec.gate) && pod.phase != PodPhase::Failed
}

fn wants_and_has(owner: &Owner, group: &Group, ready: u32) -> (Option<u32>, u32) {
    match owner.job {
        job if owner.stopped && !job.is_some_and(|job| job.complete) => (None, 0),
        Some(job) if matches!(group.until, Until::Auto | Until::Succeeded) => {
            let wants = job.completions.unwrap_or(1);
            (Some(wants), if job.complete { wants } else { job.succeeded.min(wants - 1) })
        }
        Some(job) if job.complete => (Some(owner.desired.unwrap_or(1).max(1)), u32::MAX),
        _ => (owner.desired, ready),
    }
}
