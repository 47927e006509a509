//! The enum fields of a `PodSequence`.

use crate::words::words;
use rollcall_core::facts::OwnerKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

words! {
    /// Whether the groups follow each other in the whole cluster or on each node independently.
    #[derive(Default)]
    Scope { #[default] Cluster, Node }
}

words! {
    /// The state that a member must reach to count as arrived.
    #[derive(Default)]
    Until { #[default] Auto, Ready, Started, Succeeded }
}

words! {
    /// What happens when a group takes longer than its timeout.
    #[derive(Default)]
    OnTimeout { #[default] Fail, Continue }
}

words! {
    /// When a group opens.
    #[derive(Default)]
    Start { #[default] AfterDependencies, Immediately }
}

words! {
    /// Whether the start order applies only to the first start, or at every moment.
    #[derive(Default)]
    Enforcement { #[default] Bootstrap, Continuous }
}

words! {
    /// How nodes are blocked.
    #[derive(Default)]
    NodeGuard { #[default] Labels, Taints }
}

words! {
    /// What happens to held pods when their sequence is deleted.
    #[derive(Default)]
    DeletionPolicy { #[default] Release, Hold }
}

words! {
    /// The kinds of workload whose pods can be members.
    WorkloadKind { Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob }
}

impl WorkloadKind {
    pub fn owner(self) -> OwnerKind {
        match self {
            WorkloadKind::Deployment => OwnerKind::Deployment,
            WorkloadKind::StatefulSet => OwnerKind::StatefulSet,
            WorkloadKind::DaemonSet => OwnerKind::DaemonSet,
            WorkloadKind::ReplicaSet => OwnerKind::ReplicaSet,
            WorkloadKind::Job => OwnerKind::Job,
            WorkloadKind::CronJob => OwnerKind::CronJob,
        }
    }

    /// The `apiVersion` of this kind.
    pub fn api_version(self) -> WorkloadApiVersion {
        match self {
            WorkloadKind::Deployment
            | WorkloadKind::StatefulSet
            | WorkloadKind::DaemonSet
            | WorkloadKind::ReplicaSet => WorkloadApiVersion::AppsV1,
            WorkloadKind::Job | WorkloadKind::CronJob => WorkloadApiVersion::BatchV1,
        }
    }
}

/// The API versions of [`WorkloadKind`].
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadApiVersion {
    #[serde(rename = "apps/v1")]
    AppsV1,
    #[serde(rename = "batch/v1")]
    BatchV1,
}

impl WorkloadApiVersion {
    pub fn as_str(self) -> &'static str {
        match self {
            WorkloadApiVersion::AppsV1 => "apps/v1",
            WorkloadApiVersion::BatchV1 => "batch/v1",
        }
    }
}

impl fmt::Display for WorkloadApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

words! {
    /// Progress of a sequence, or of a node in it.
    #[derive(Default)]
    Phase {
        /// Nothing has been released.
        #[default]
        Pending,
        /// Some groups are open or complete, but not all are complete.
        InProgress,
        /// Every group is complete. The controller still handles pods that are created later.
        Completed,
        /// The sequence cannot continue; the condition `Stalled` has the reason.
        Failed,
    }
}

words! {
    /// Progress of a group.
    #[derive(Default)]
    GroupState {
        /// Its members are held.
        #[default]
        Waiting,
        /// Its members are released and have not all arrived.
        Open,
        /// Enough of its members have arrived.
        Complete,
        /// It exceeded its timeout.
        TimedOut,
    }
}
