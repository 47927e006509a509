//! The internal form of a `PodSequence`: parsed and validated, with all defaults applied.

use crate::journal::begun_again;
pub use crate::journal::{GroupId, RecordedGroup};
use crate::planted::{Bug, planted};
use crate::{
    Timestamp, Uid,
    facts::{Owner, OwnerKind, Pod},
    hash::fnv1a64,
    labels::Labels,
    selector::Selector,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One `PodSequence` object.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub uid: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: u64,
    pub generation: i64,
    pub created: Timestamp,
    /// The parsed spec, or the reason why it is invalid.
    pub spec: Result<Arc<Spec>, InvalidField>,
    /// Groups opened by hand: the names in the annotation `podsequence.example.com/open-groups`.
    pub opened_by_hand: BTreeSet<Arc<str>>,
    /// The latest requested start (annotation `podsequence.example.com/begin-again`): an opaque value that is only compared.
    pub begin_again: Option<Arc<str>>,
    /// The contents of its status, as last seen.
    pub recorded: Recorded,
}

impl Sequence {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Its name as shown in `namespace`: `name` if the sequence is in that namespace, else `namespace/name`.
    pub fn name_in(&self, namespace: &str) -> String {
        if *self.namespace == *namespace { self.name.to_string() } else { self.full_name() }
    }
}

/// Why a spec is invalid: `field: problem`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    pub field: String,
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The namespace of its member pods.
    pub pod_namespace: Arc<str>,
    pub gate: Arc<str>,
    pub scope: Scope,
    pub enforcement: Enforcement,
    pub suspend: bool,
    pub deletion_policy: DeletionPolicy,
    pub guard: NodeGuard,
    pub groups: Vec<Group>,
}

/// In Node scope: how a node is blocked for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeGuard {
    /// By a label on the node, which members avoid through their node affinity.
    #[default]
    Labels,
    /// By a taint on the node, which repels all pods without a toleration.
    Taints,
}

/// A condition of `nodeReady` that a node must meet, besides having ready pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReady {
    /// A CSI driver that is registered in the CSINode of the node.
    CsiDriver(Arc<str>),
    /// An allocatable resource of the node.
    Allocatable(Arc<str>),
    /// A condition of the node that is True.
    Condition(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The start order holds only while the sequence starts: a group that was complete once no longer blocks later groups.
    Bootstrap,
    /// The start order holds at all times: a group that is not complete now blocks later groups.
    Continuous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPolicy {
    Release,
    Hold,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub id: GroupId,
    /// Its name, or `Group N`.
    pub title: Arc<str>,
    pub members: Members,
    /// The group counts as complete if it has no members when it opens.
    pub optional: bool,
    pub expected: Option<u32>,
    pub min_ready: MinReady,
    pub until: Until,
    pub wait: Duration,
    pub timeout: Option<Duration>,
    pub on_timeout: OnTimeout,
    /// Positions of the groups that it waits for. All of them are earlier in the list.
    pub after: Vec<usize>,
    pub max_concurrent_starts: Option<u32>,
    /// In Node scope: the labels of the nodes that this group applies to.
    pub node_selector: Labels,
    /// In Node scope: a condition that a node must meet, besides its pods, before the group is complete there.
    pub node_ready: Option<NodeReady>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Members {
    Names(BTreeSet<Arc<str>>),
    Selector(Selector),
    /// The pods that a workload owns, at any depth.
    Workload(WorkloadRef),
    /// No members: in Node scope, a group that waits only for its `node_ready`.
    None,
}

/// A workload in the namespace of the member pods, by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRef {
    pub kind: OwnerKind,
    pub name: Arc<str>,
}

impl WorkloadRef {
    /// Returns the reference to a workload, as a group would write it.
    pub fn naming(owner: &Owner) -> WorkloadRef {
        WorkloadRef { kind: owner.kind, name: owner.name.clone() }
    }

    /// Whether the reference names this workload.
    pub fn names(&self, owner: &Owner) -> bool {
        self.kind == owner.kind && self.name == owner.name
    }
}

/// In the notation of kubectl: `deployment/web`.
impl fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str().to_lowercase(), self.name)
    }
}

/// The id of an unnamed group: a hash of its members or, without members, of its `nodeReady`.
pub fn unnamed_id(members: &Members, node_ready: Option<&NodeReady>) -> GroupId {
    let text = match members {
        Members::Names(names) => names.iter().fold(String::from("names"), |text, name| text + "\u{0}" + name),
        Members::Selector(selector) => format!("selector\u{0}{selector}"),
        Members::Workload(workload) => format!("workload\u{0}{workload}"),
        Members::None => match node_ready {
            Some(NodeReady::CsiDriver(driver)) => format!("csiDriver\u{0}{driver}"),
            Some(NodeReady::Allocatable(resource)) => format!("allocatable\u{0}{resource}"),
            Some(NodeReady::Condition(condition)) => format!("condition\u{0}{condition}"),
            None => String::from("none"),
        },
    };
    GroupId::hashed(fnv1a64(text.as_bytes()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinReady {
    Count(u32),
    Percent(u8),
}

impl MinReady {
    /// Returns how many of `expected` pods must have arrived. Fractions are rounded up.
    pub fn required(self, expected: u32) -> u32 {
        match self {
            // Not capped by `expected`: for pods without an owner, `expected` is the number that exists, and one existing pod
            // must not satisfy "at least 3".
            MinReady::Count(count) => count,
            MinReady::Percent(percent) => (u64::from(expected) * u64::from(percent)).div_ceil(100) as u32,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Auto,
    Ready,
    Started,
    Succeeded,
}

impl Until {
    /// Replaces `Auto` by the rule that applies to a pod or Job that does, or does not, run to completion.
    pub fn resolve(self, runs_to_completion: bool) -> Until {
        match self {
            Until::Auto if runs_to_completion => Until::Succeeded,
            Until::Auto => Until::Ready,
            Until::Ready | Until::Started | Until::Succeeded => self,
        }
    }

    /// Whether `pod`, once released, has arrived.
    pub fn arrived(self, pod: &Pod) -> bool {
        use crate::facts::PodPhase::Succeeded;
        match self.resolve(pod.runs_to_completion) {
            Until::Auto => unreachable!("resolve never returns Auto"),
            Until::Ready => {
                pod.ready || pod.phase == Succeeded || planted(Bug::StartedIsReady) && pod.started
            }
            Until::Started => pod.started || pod.phase == Succeeded,
            Until::Succeeded => pod.phase == Succeeded,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    Fail,
    Continue,
}

/// Contents of the status when it was last seen. Decisions use only the times. The other fields prevent duplicate events after
/// a restart of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    pub phase: Option<super::status::Phase>,
    pub groups: BTreeMap<GroupId, RecordedGroup>,
    pub resumed_at: Option<Timestamp>,
    /// The start (see [`Sequence::begin_again`]) that the times belong to. They are discarded when the user requests another one.
    pub begun_again: Option<Arc<str>>,
    pub suspended: bool,
    pub out_of_order: bool,
    pub duplicates: bool,
    pub stalled: Option<Arc<str>>,
}

impl Recorded {
    /// The record at the beginning of a new start: only groups of finished Jobs keep their results.
    pub fn begun_again(&self, start: &Arc<str>) -> Recorded {
        Recorded { groups: begun_again(&self.groups), begun_again: Some(start.clone()), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_a_pod_is_a_pod() {
        for (min_ready, expected, required) in [
            (MinReady::Percent(100), 3, 3),
            (MinReady::Percent(50), 3, 2),
            (MinReady::Percent(1), 3, 1),
            (MinReady::Percent(0), 3, 0),
            (MinReady::Percent(100), 0, 0),
            (MinReady::Count(2), 3, 2),
            (MinReady::Count(5), 3, 5),
            (MinReady::Percent(33), 100, 33),
            (MinReady::Percent(67), 4_000_000_000, 2_680_000_000),
        ] {
            assert_eq!(min_ready.required(expected), required, "{min_ready:?} of {expected}");
        }
    }

    #[test]
    fn unnamed_groups_are_known_by_what_they_select() {
        let names =
            |list: &[&str]| unnamed_id(&Members::Names(list.iter().map(|n| Arc::from(*n)).collect()), None);
        assert_eq!(names(&["a", "b"]), names(&["b", "a"]));
        assert_ne!(names(&["a", "b"]), names(&["ab"]));
        assert!(!names(&["a"]).is_named());
        assert!(GroupId::named("#1").is_named());
    }

    /// The ids are stored on nodes and in statuses, so they must not change between versions.
    #[test]
    fn ids_of_unnamed_groups_never_change() {
        let driver = NodeReady::CsiDriver("csi.example.com".into());
        let resource = NodeReady::Allocatable("csi.example.com".into());
        let workload = WorkloadRef { kind: OwnerKind::Deployment, name: "web".into() };
        for (members, node_ready, id) in [
            (Members::Names(["db-0".into(), "db-1".into()].into()), None, "#e854e037eb759502"),
            (Members::Names(["db-0".into(), "db-1".into()].into()), Some(&driver), "#e854e037eb759502"),
            (Members::Workload(workload), None, "#b7f4257515c669da"),
            (Members::None, Some(&driver), "#3f2457f26f213842"),
            (Members::None, Some(&resource), "#002368d700416875"),
        ] {
            assert_eq!(unnamed_id(&members, node_ready).as_str(), id, "{members:?} {node_ready:?}");
        }
    }
}
