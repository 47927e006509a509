//! Which group a pod belongs to: the one rule for admission, the simulator and lint. `index/claims.rs` files the same rule for a
//! quick look-up of thousands of pods. `check.rs` has it a second time on purpose.

use super::index::{MEMBERSHIP_KEY, membership_value};
use super::spec::{Members, Spec, WorkloadRef};
use crate::cluster::Cluster;
use crate::facts::{Owner, Pod};
use crate::labels::Labels;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod, or a template that pods are made from.
pub trait Candidate {
    fn namespace(&self) -> &str;

    /// Its labels, with the group that it names itself under [`MEMBERSHIP_KEY`].
    fn labels(&self) -> &Labels;

    /// Whether it has, or can have, one of these names.
    fn is_listed(&self, names: &BTreeSet<Arc<str>>) -> bool;

    /// Whether a workload makes it, itself or through a ReplicaSet or Job.
    fn is_made_by(&self, workload: &WorkloadRef) -> bool;
}

/// The sequence that asks for members.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub spec: &'a Spec,
}

impl Asking<'_> {
    /// Whether a group includes a candidate, by its name, its labels, its owner, or because the candidate names the group itself. A
    /// pod belongs to the first group that includes it.
    pub fn includes(self, group: usize, candidate: &impl Candidate) -> bool {
        let Asking { namespace, name, spec } = self;
        if *spec.pod_namespace != *candidate.namespace() {
            return false;
        }
        match &spec.groups[group].members {
            Members::Names(names) => candidate.is_listed(names),
            Members::Selector(selector) => {
                // Only a sequence of the same namespace can be named.
                let at_home = *namespace == *spec.pod_namespace;
                let named = candidate.labels().get(MEMBERSHIP_KEY).filter(|_| at_home);
                named.is_some_and(|named| *named == membership_value(name, group))
                    || selector.matches(candidate.labels())
            }
            Members::Workload(workload) => candidate.is_made_by(workload),
            Members::None => false,
        }
    }

    /// The group that a candidate belongs to.
    pub fn group_of(self, candidate: &impl Candidate) -> Option<usize> {
        (0..self.spec.groups.len()).find(|group| self.includes(*group, candidate))
    }
}

/// A pod together with the cluster that knows its owners.
#[derive(Clone, Copy, Debug)]
pub struct KnownPod<'a> {
    pub pod: &'a Pod,
    pub cluster: &'a Cluster,
}

impl Candidate for KnownPod<'_> {
    fn namespace(&self) -> &str {
        &self.pod.namespace
    }

    fn labels(&self) -> &Labels {
        &self.pod.labels
    }

    fn is_listed(&self, names: &BTreeSet<Arc<str>>) -> bool {
        names.contains(&self.pod.name)
    }

    fn is_made_by(&self, workload: &WorkloadRef) -> bool {
        self.cluster.workloads_of(self.pod).any(|owner| workload.names(owner))
    }
}

/// The template of a workload. The names of its pods are not known.
impl Candidate for Owner {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn labels(&self) -> &Labels {
        &self.template_labels
    }

    fn is_listed(&self, _: &BTreeSet<Arc<str>>) -> bool {
        false
    }

    fn is_made_by(&self, workload: &WorkloadRef) -> bool {
        workload.names(self)
    }
}
