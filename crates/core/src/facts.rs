//! What is known about the objects of a cluster: only the fields that a decision or a message uses.

use crate::planted::{Bug, planted};
use crate::{
    Timestamp, Uid, labels::Labels, launch::facts::Launch, node::Placement, reservation::spec::Request,
};
use std::sync::Arc;

/// One pod. A pod is its uid: a pod re-created under the same name is another pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `metadata.resourceVersion`: decides which of two views of the same pod is the newer one.
    pub version: u64,
    pub labels: Labels,
    pub owner: Option<OwnerRef>,
    /// Names of all its scheduling gates, ours and foreign ones.
    pub gates: Vec<Arc<str>>,
    /// The node it is bound to: the scheduler has let it through.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`: the node on which the scheduler keeps capacity for it.
    pub nominated: Option<Arc<str>>,
    /// What it says itself about its node; hardly any pod does, but for those of DaemonSets.
    pub constraints: Option<Box<NodeConstraints>>,
    pub phase: PodPhase,
    pub ready: bool,
    /// Running, and every container has started.
    pub started: bool,
    /// restartPolicy Never or OnFailure and no readiness probe: its Ready says nothing about its work.
    pub runs_to_completion: bool,
    pub terminating: bool,
    /// Somebody took its gate away with `rollcall release pod/…`.
    pub released_by_hand: bool,
    pub created: Timestamp,
    /// Since when it is in the condition it is in.
    pub since: Timestamp,
    /// What keeps it from being ready, as far as its status tells.
    pub trouble: Option<Trouble>,
    /// The order of its containers; hardly any pod has one.
    pub launch: Option<Box<Launch>>,
    /// The ticket that it wants; hardly any pod wants one.
    pub request: Option<Box<Request>>,
}

impl Pod {
    pub fn is_bound(&self) -> bool {
        self.node.is_some()
    }

    pub fn pin(&self) -> Option<&Pin> {
        self.constraints.as_ref()?.pin.as_ref()
    }
}

/// On which nodes a pod wants to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConstraints {
    /// The only node it can run on.
    pub pin: Option<Pin>,
    /// The terms of its required node affinity: only what is needed to add to them.
    pub terms: Box<[TermShape]>,
    /// It has no list of tolerations to which one could be added. Nearly every pod has one: Kubernetes adds two itself.
    pub no_tolerations: bool,
    /// Taints of ours that it tolerates already.
    pub tolerated: Box<[Arc<str>]>,
    /// It has an affinity of any kind, and one to nodes among them: what is there must not be replaced.
    pub has_affinity: bool,
    pub has_node_affinity: bool,
}

impl NodeConstraints {
    /// To be kept, or nothing if there are none.
    pub fn kept(self) -> Option<Box<NodeConstraints>> {
        (self != NodeConstraints::default()).then(|| Box::new(self))
    }
}

/// How a pod names the one node it can run on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// As the pods of a DaemonSet do: by the field `metadata.name`.
    Name(Arc<str>),
    /// By the label `kubernetes.io/hostname`.
    Hostname(Arc<str>),
}

/// What a term of a node affinity has. Kubernetes allows to add requirements to a term while a pod is gated, but to no empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermShape {
    Expressions,
    FieldsOnly,
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// The first thing wrong with a pod that has not arrived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// The container it concerns, if it concerns one.
    pub container: Option<Arc<str>>,
    /// Kubernetes' own word for it (`CrashLoopBackOff`, `Unschedulable`), or ours where it has none.
    pub what: Arc<str>,
}

/// The controlling owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerRef {
    pub kind: OwnerKind,
    pub uid: Uid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    /// A kind that is not watched (an operator's): its pods count as themselves.
    Other,
}

impl OwnerKind {
    pub const ALL: [OwnerKind; 7] = [
        OwnerKind::Deployment,
        OwnerKind::ReplicaSet,
        OwnerKind::StatefulSet,
        OwnerKind::DaemonSet,
        OwnerKind::Job,
        OwnerKind::CronJob,
        OwnerKind::Other,
    ];

    /// The kind of this name, however it is written: `deployment`, `DaemonSet`.
    pub fn of_word(word: &str) -> Option<OwnerKind> {
        OwnerKind::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            OwnerKind::Deployment => "Deployment",
            OwnerKind::ReplicaSet => "ReplicaSet",
            OwnerKind::StatefulSet => "StatefulSet",
            OwnerKind::DaemonSet => "DaemonSet",
            OwnerKind::Job => "Job",
            OwnerKind::CronJob => "CronJob",
            OwnerKind::Other => "owner",
        }
    }
}

/// A workload: something that makes pods, or makes what makes pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: Uid,
    pub kind: OwnerKind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: u64,
    pub parent: Option<OwnerRef>,
    pub created: Timestamp,
    pub template_labels: Labels,
    /// How many pods it wants. `None` while its controller has not seen its newest generation: then the number
    /// is unknown, which is never the same as 0.
    pub desired: Option<u32>,
    /// `deployment.kubernetes.io/revision`: the ReplicaSet whose revision is its Deployment's is the current one.
    pub revision: Option<Arc<str>>,
    pub job: Option<Job>,
    /// Of DaemonSets: where they want their pods.
    pub placement: Option<Box<Placement>>,
    /// `rollcall stop` has stopped it: its size, or that it is suspended, is not what its author wants in the end.
    pub stopped: bool,
    pub terminating: bool,
}

impl Owner {
    /// Whether it is stopped, and has work left to do.
    pub fn is_stopped(&self) -> bool {
        self.stopped && !self.terminating && !self.job.is_some_and(|job| job.complete)
    }
}

/// What only Jobs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub completions: Option<u32>,
    pub succeeded: u32,
    pub complete: bool,
    pub failed: bool,
    pub suspended: bool,
    pub runs_to_completion: bool,
}

/// A namespace, for the permission it gives to sequences elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub name: Arc<str>,
    pub version: u64,
    /// `podsequence.example.com/allow-from`, as written.
    pub allow_from: Option<Arc<str>>,
    /// `podsequence.example.com/allow-node-taints: "true"`.
    pub allow_node_taints: bool,
}

impl Namespace {
    /// Whether sequences of namespace `from` may act here.
    pub fn allows(&self, from: &str) -> bool {
        if planted(Bug::PermissionIgnored) {
            return true;
        }
        let list = self.allow_from.as_deref().unwrap_or("");
        list.split(',').map(str::trim).any(|entry| entry == from || entry == "*")
    }
}

#[cfg(test)]
mod tests {
    use super::Namespace;

    #[test]
    fn permission_is_a_list_or_a_star() {
        let namespace = |allow: Option<&str>| Namespace {
            name: "shop".into(),
            version: 1,
            allow_from: allow.map(Into::into),
            allow_node_taints: false,
        };
        for (annotation, expected) in [
            (None, false),
            (Some(""), false),
            (Some("ops"), true),
            (Some("dev, ops"), true),
            (Some("ops2"), false),
            (Some("*"), true),
            (Some("dev,*"), true),
        ] {
            assert_eq!(namespace(annotation).allows("ops"), expected, "{annotation:?}");
        }
    }
}
