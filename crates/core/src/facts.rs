//! Facts about the objects of a cluster: only the fields that a decision or a message uses.

use crate::planted::{Bug, planted};
use crate::{
    Timestamp, Uid, labels::Labels, launch::facts::Launch, node::Placement, reservation::spec::Request,
};
use std::fmt;
use std::sync::Arc;

/// One pod, identified by its uid: a pod re-created under the same name is a different pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `metadata.resourceVersion`: determines which of two views of the same pod is newer.
    pub version: u64,
    pub labels: Labels,
    pub owner: Option<OwnerRef>,
    /// Names of all its scheduling gates, ours and foreign ones.
    pub gates: Vec<Arc<str>>,
    /// The node that the scheduler has bound it to.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`: the node where the scheduler reserves capacity for it.
    pub nominated: Option<Arc<str>>,
    /// Its constraints on nodes. Most pods have none, except those of DaemonSets.
    pub constraints: Option<Box<NodeConstraints>>,
    pub phase: PodPhase,
    pub ready: bool,
    /// Running, and every container has started.
    pub started: bool,
    /// restartPolicy Never or OnFailure and no readiness probe: its Ready condition says nothing about its work.
    pub runs_to_completion: bool,
    pub terminating: bool,
    /// A user removed its gate with `rollcall release pod/…`.
    pub released_by_hand: bool,
    pub created: Timestamp,
    /// Start of its current condition.
    pub since: Timestamp,
    /// The reason why it is not ready, as far as its status shows it.
    pub trouble: Option<Trouble>,
    /// The start order of its containers. Few pods have one.
    pub launch: Option<Box<Launch>>,
    /// The ticket that it requests. Few pods request one.
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

/// Constraints of a pod on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConstraints {
    /// The only node that it can run on.
    pub pin: Option<Pin>,
    /// The terms of its required node affinity, reduced to the shape that decides whether requirements can be added.
    pub terms: Box<[TermShape]>,
    /// It has no list of tolerations to append to. Rare: Kubernetes adds two tolerations to nearly every pod.
    pub no_tolerations: bool,
    /// Taints of ours that it already tolerates.
    pub tolerated: Box<[Arc<str>]>,
    /// It has an affinity of any kind (`has_node_affinity`: to nodes). An existing affinity must not be replaced.
    pub has_affinity: bool,
    pub has_node_affinity: bool,
}

impl NodeConstraints {
    /// Returns the constraints boxed, or `None` if there are none.
    pub fn kept(self) -> Option<Box<NodeConstraints>> {
        (self != NodeConstraints::default()).then(|| Box::new(self))
    }
}

/// The way a pod names the only node that it can run on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// By the field `metadata.name`, as the pods of a DaemonSet do.
    Name(Arc<str>),
    /// By the label `kubernetes.io/hostname`.
    Hostname(Arc<str>),
}

/// The parts of a node affinity term. While a pod is gated, Kubernetes allows new requirements in a term, but not in an empty
/// one.
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

/// The first problem of a pod that is not ready yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// The affected container, if the problem concerns one.
    pub container: Option<Arc<str>>,
    /// Kubernetes' own word for it (`CrashLoopBackOff`, `Unschedulable`), or ours where Kubernetes has none.
    pub what: Arc<str>,
}

impl Trouble {
    /// Whether a container has exited with an error, so that its log shows the cause.
    pub fn is_crash(&self) -> bool {
        *self.what == *"CrashLoopBackOff" || self.what.contains("exit code")
    }
}

/// Prints a message such as `container server: CrashLoopBackOff`.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(container) = &self.container {
            write!(f, "container {container}: ")?;
        }
        f.write_str(&self.what)
    }
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
    /// A kind that is not watched (such as an operator's): its pods count individually.
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

    /// Parses the name of a kind in any case: `deployment`, `DaemonSet`.
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

/// A workload: an object that creates pods, or that creates other workloads.
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
    /// Desired number of pods. `None` while its controller has not observed its newest generation: then the number is unknown,
    /// which is not the same as 0.
    pub desired: Option<u32>,
    /// `deployment.kubernetes.io/revision`: a ReplicaSet is current if its revision equals that of its Deployment.
    pub revision: Option<Arc<str>>,
    pub job: Option<Job>,
    /// Node constraints of the pod template. Set for DaemonSets only.
    pub placement: Option<Box<Placement>>,
    /// `rollcall stop` has stopped it: its replica count or suspension is temporary.
    pub stopped: bool,
    pub terminating: bool,
}

impl Owner {
    /// Whether it is stopped and still has work to do.
    pub fn is_stopped(&self) -> bool {
        self.stopped && !self.terminating && !self.job.is_some_and(|job| job.complete)
    }
}

/// Fields of Jobs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub completions: Option<u32>,
    pub succeeded: u32,
    pub complete: bool,
    pub failed: bool,
    pub suspended: bool,
    pub runs_to_completion: bool,
}

/// A namespace, with the permissions that it grants to sequences.
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
    /// Whether sequences of namespace `from` may act in this namespace.
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
    use super::{Namespace, Trouble};

    #[test]
    fn a_log_shows_the_cause_of_a_crash_only() {
        let trouble = |container: Option<&str>, what: &str| Trouble {
            container: container.map(Into::into),
            what: what.into(),
        };
        for (what, expected) in [
            ("CrashLoopBackOff", true),
            ("OOMKilled (exit code 137)", true),
            ("exit code 1", true),
            ("ImagePullBackOff", false),
            ("running but not ready", false),
        ] {
            assert_eq!(trouble(Some("server"), what).is_crash(), expected, "{what}");
        }
        assert_eq!(trouble(Some("server"), "exit code 1").to_string(), "container server: exit code 1");
        assert_eq!(trouble(None, "Unschedulable").to_string(), "Unschedulable");
    }

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
