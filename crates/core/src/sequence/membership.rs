//! Which group a pod belongs to: the rule that admission, the simulator and lint share. `index/memberships.rs` indexes the same rule
//! for fast lookups. `check.rs` implements it again on purpose, for an independent audit.

use super::index::{MEMBERSHIP_KEY, membership_value};
use super::spec::{Members, Spec, WorkloadRef};
use crate::cluster::Cluster;
use crate::facts::{Owner, Pod};
use crate::labels::Labels;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod, or the template of a workload.
pub trait MemberCandidate {
    fn namespace(&self) -> &str;

    /// Its labels. Under [`MEMBERSHIP_KEY`] they also contain the group that its annotation names.
    fn labels(&self) -> &Labels;

    /// Whether its name is one of these.
    fn is_listed(&self, names: &BTreeSet<Arc<str>>) -> bool;

    /// Whether a workload owns it, directly or through a ReplicaSet or Job.
    fn is_made_by(&self, workload: &WorkloadRef) -> bool;
}

/// A sequence whose groups are compared with candidates.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub spec: &'a Spec,
}

impl Asking<'_> {
    /// Whether a group selects a candidate, by its name, its labels, its owner, or the annotation that names its group. A
    /// pod belongs to the first group that selects it.
    pub fn includes(self, group: usize, candidate: &impl MemberCandidate) -> bool {
        let Asking { namespace, name, spec } = self;
        if *spec.pod_namespace != *candidate.namespace() {
            return false;
        }
        match &spec.groups[group].members {
            Members::Names(names) => candidate.is_listed(names),
            Members::Selector(selector) => {
                // The annotation can name only sequences in the same namespace.
                let at_home = *namespace == *spec.pod_namespace;
                let named = candidate.labels().get(MEMBERSHIP_KEY).filter(|_| at_home);
                named.is_some_and(|named| *named == membership_value(name, group))
                    || selector.matches(candidate.labels())
            }
            Members::Workload(workload) => candidate.is_made_by(workload),
            Members::None => false,
        }
    }

    /// Returns the group that a candidate belongs to.
    pub fn group_of(self, candidate: &impl MemberCandidate) -> Option<usize> {
        (0..self.spec.groups.len()).find(|group| self.includes(*group, candidate))
    }
}

/// A pod, and the cluster to look up its owners.
#[derive(Clone, Copy, Debug)]
pub struct KnownPod<'a> {
    pub pod: &'a Pod,
    pub cluster: &'a Cluster,
}

impl MemberCandidate for KnownPod<'_> {
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

/// The template of a workload. The names of its pods are unknown.
impl MemberCandidate for Owner {
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
