//! A `PodSequence` as the core sees it: parsed, resolved, with every default applied.

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
    /// What it asks for, or why that cannot be understood.
    pub spec: Result<Arc<Spec>, Invalid>,
    /// Groups opened by hand (`podsequence.example.com/open-groups`), as written there.
    pub opened_by_hand: BTreeSet<Arc<str>>,
    /// The last start that was asked for (`podsequence.example.com/begin-again`): a word that is only compared.
    pub begin_again: Option<Arc<str>>,
    /// What its status recorded last.
    pub recorded: Recorded,
}

impl Sequence {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// As it is called in a namespace: one from elsewhere by its full name, or it would be taken for one from there.
    pub fn name_in(&self, namespace: &str) -> String {
        if *self.namespace == *namespace { self.name.to_string() } else { self.full_name() }
    }
}

/// Why a spec cannot be acted on: `field: what is wrong with it`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    pub field: String,
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The namespace of its pods.
    pub pod_namespace: Arc<str>,
    pub gate: Arc<str>,
    pub scope: Scope,
    pub enforcement: Enforcement,
    pub suspend: bool,
    pub deletion_policy: DeletionPolicy,
    pub guard: NodeGuard,
    pub groups: Vec<Group>,
}

/// In Node scope: what keeps a node closed for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeGuard {
    /// A label that members avoid.
    #[default]
    Labels,
    /// A taint that keeps everybody away.
    Taints,
}

/// What a node must show besides pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReady {
    /// A driver registered in its CSINode.
    CsiDriver(Arc<str>),
    /// A resource that it offers.
    Allocatable(Arc<str>),
    /// A condition that is True.
    Condition(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Order is for coming up: a group that has been complete stays passed.
    Bootstrap,
    /// Order holds at every moment: what is not complete right now holds later pods back.
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
    /// It is passed if nobody belongs to it when its turn comes.
    pub optional: bool,
    pub expected: Option<u32>,
    pub min_ready: MinReady,
    pub until: Until,
    pub wait: Duration,
    pub timeout: Option<Duration>,
    pub on_timeout: OnTimeout,
    /// The groups it waits for, by position; all of them are earlier in the list.
    pub after: Vec<usize>,
    pub max_concurrent_starts: Option<u32>,
    /// In Node scope: the labels of the nodes that take part for this group.
    pub node_selector: Labels,
    /// In Node scope: what a node must show, besides its pods, before the group is complete there.
    pub node_ready: Option<NodeReady>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Members {
    Names(BTreeSet<Arc<str>>),
    Selector(Selector),
    /// The pods that a workload owns, at any depth.
    Workload(WorkloadRef),
    /// None: in Node scope, a group that waits only for its `node_ready`.
    None,
}

/// A workload in the namespace of the pods, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRef {
    pub kind: OwnerKind,
    pub name: Arc<str>,
}

impl WorkloadRef {
    /// The reference by which a group would name a workload.
    pub fn naming(owner: &Owner) -> WorkloadRef {
        WorkloadRef { kind: owner.kind, name: owner.name.clone() }
    }

    /// Whether it names this workload.
    pub fn names(&self, owner: &Owner) -> bool {
        self.kind == owner.kind && self.name == owner.name
    }
}

/// As kubectl takes it: `deployment/web`.
impl fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str().to_lowercase(), self.name)
    }
}

/// What an unnamed group is recognised by: what it selects or, without members, what a node must show.
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
    /// How many of `expected` must have arrived; a fraction of a pod is a pod.
    pub fn of(self, expected: u32) -> u32 {
        match self {
            // Not capped by `expected`: of pods without an owner as many are expected as there are, and
            // "at least 3" must not be met by the only one that exists.
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
    /// The rule that applies to something that does or does not run to completion.
    pub fn resolve(self, runs_to_completion: bool) -> Until {
        match self {
            Until::Auto if runs_to_completion => Until::Succeeded,
            Until::Auto => Until::Ready,
            Until::Ready | Until::Started | Until::Succeeded => self,
        }
    }

    /// Whether `pod`, out of its gate, has arrived.
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

/// What the status said when it was last seen. Only the times are input to a decision; the rest keeps a
/// restart from announcing again what was announced before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    pub phase: Option<super::status::Phase>,
    pub groups: BTreeMap<GroupId, RecordedGroup>,
    pub resumed_at: Option<Timestamp>,
    /// The start that the times are of. When another one is asked for, they are forgotten.
    pub begun_again: Option<Arc<str>>,
    pub suspended: bool,
    pub out_of_order: bool,
    pub duplicates: bool,
    pub stalled: Option<Arc<str>>,
}

impl Recorded {
    /// What is left of it when everybody starts again.
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
            assert_eq!(min_ready.of(expected), required, "{min_ready:?} of {expected}");
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

    /// They are written on nodes and into statuses, so they are the same in every version.
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
