//! Random worlds: a plan is plain data that proptest generates and shrinks. Running it involves no further randomness.

pub mod chaos;
pub mod converge;
pub mod oracle;

use crate::support::build::{self, GATE, HOME};
use proptest::prelude::*;
use rollcall_core::{
    facts::{Job, Owner, OwnerKind},
    sequence::{
        Sequence, Spec,
        spec::{DeletionPolicy, Enforcement, Group, GroupId, MinReady, OnTimeout, Until},
    },
};
use std::time::Duration;

/// Number of pods. They are named `p0` … and have the label `app=a<number % APPS>`; groups name pods or select an app.
pub const PODS: u8 = 24;
pub const APPS: u8 = 5;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub sequences: Vec<PlannedSequence>,
    pub owners: Vec<PlannedOwner>,
    pub events: Vec<Happening>,
}

#[derive(Clone, Debug)]
pub struct PlannedSequence {
    pub continuous: bool,
    pub other_gate: bool,
    pub hold: bool,
    pub groups: Vec<PlannedGroup>,
}

#[derive(Clone, Debug)]
pub struct PlannedGroup {
    /// Values from 7 mean that the group has no name.
    pub name: u8,
    /// Names of pods. If empty, the group selects `app`.
    pub pods: Vec<u8>,
    pub app: u8,
    pub min_ready: MinReady,
    pub until: Until,
    /// Whether the next groups wait ten seconds after it is complete.
    pub waits: bool,
    /// The action if the group is not complete after twenty seconds; `None`: no timeout.
    pub timeout: Option<OnTimeout>,
    pub after: Vec<u8>,
    pub immediately: bool,
    pub max_starts: Option<u32>,
}

/// The workload that creates the pods of one app, if there is one.
#[derive(Clone, Debug)]
pub struct PlannedOwner {
    pub app: u8,
    pub kind: OwnerKind,
    pub desired: u8,
}

/// A change of a pod. Changes that are impossible in its current state are skipped.
#[derive(Clone, Copy, Debug)]
pub enum PodChange {
    Ready,
    Started,
    NotReady,
    Succeeded,
    Failed,
    Terminating,
    Deleted,
    /// A foreign gate is removed.
    ForeignGateRemoved,
    /// Deleted and re-created under the same name.
    Recreated,
}

impl PodChange {
    /// A third of all changes are `Ready`.
    fn any() -> impl Strategy<Value = PodChange> {
        (0..12u8).prop_map(|number| match number {
            0..=3 => PodChange::Ready,
            4 => PodChange::Started,
            5 => PodChange::NotReady,
            6 => PodChange::Succeeded,
            7 => PodChange::Failed,
            8 => PodChange::Terminating,
            9 => PodChange::Deleted,
            10 => PodChange::ForeignGateRemoved,
            _ => PodChange::Recreated,
        })
    }
}

#[derive(Clone, Debug)]
pub enum Happening {
    CreatePod {
        pod: u8,
        gated: bool,
        exits: bool,
    },
    ChangePod {
        pod: u8,
        change: PodChange,
    },
    Relabel {
        pod: u8,
        app: u8,
    },
    Scale {
        app: u8,
        desired: u8,
    },
    Rollout {
        app: u8,
    },
    /// `rollcall stop`, or its end.
    Stop {
        app: u8,
        stopped: bool,
    },
    EditSequence {
        which: u8,
        to: PlannedSequence,
    },
    Suspend {
        which: u8,
        suspend: bool,
    },
    /// A new start is requested.
    BeginAgain {
        which: u8,
        word: u8,
    },
    OpenByHand {
        which: u8,
        group: u8,
    },
    DeleteSequence {
        which: u8,
    },
    Time {
        seconds: u8,
    },
    Restart,
    Relist,
    /// The controller receives this many of the outstanding changes, and decides.
    Tell {
        changes: u8,
    },
    /// An old view of a pod is delivered again.
    Redeliver {
        pod: u8,
    },
    /// Two adjacent changes of different kinds, or of different pods, swap.
    Swap {
        at: u8,
    },
    Answers {
        lost: bool,
    },
}

impl Plan {
    pub fn any() -> impl Strategy<Value = Plan> {
        let sequences = prop::collection::vec(sequence(), 1..=4);
        let owners = prop::collection::vec(owner(), 0..=3);
        let events = prop::collection::vec(happening(), 0..60);
        (any::<u64>(), sequences, owners, events).prop_map(|(seed, sequences, owners, events)| Plan {
            seed,
            sequences,
            owners,
            events,
        })
    }
}

fn sequence() -> impl Strategy<Value = PlannedSequence> {
    let groups = prop::collection::vec(group(), 1..=6);
    (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2), groups).prop_map(
        |(continuous, other_gate, hold, groups)| PlannedSequence { continuous, other_gate, hold, groups },
    )
}

fn group() -> impl Strategy<Value = PlannedGroup> {
    let pods = prop::collection::vec(0..PODS, 0..4);
    let min_ready = (0..8u8).prop_map(|number| match number {
        0 => MinReady::Count(1),
        1 => MinReady::Percent(50),
        _ => MinReady::Percent(100),
    });
    let until = (0..8u8).prop_map(|number| match number {
        0 => Until::Started,
        1 => Until::Ready,
        _ => Until::Auto,
    });
    let waits = (0..6u8).prop_map(|number| number == 0);
    let timeout = (0..6u8).prop_map(|number| match number {
        0 => Some(OnTimeout::Fail),
        1 => Some(OnTimeout::Continue),
        _ => None,
    });
    let max_starts = (0..4u8).prop_map(|number| (number == 0).then_some(1));
    let limits = (min_ready, until, waits, timeout, max_starts);
    let after = prop::collection::vec(0..6u8, 0..3);
    (0..10u8, pods, 0..APPS, limits, after, prop::bool::weighted(0.15)).prop_map(
        |(name, pods, app, (min_ready, until, waits, timeout, max_starts), after, immediately)| {
            PlannedGroup { name, pods, app, min_ready, until, waits, timeout, after, immediately, max_starts }
        },
    )
}

fn owner() -> impl Strategy<Value = PlannedOwner> {
    let kind = (0..5u8).prop_map(|number| match number {
        0 => OwnerKind::Deployment,
        1 => OwnerKind::StatefulSet,
        2 => OwnerKind::DaemonSet,
        3 => OwnerKind::ReplicaSet,
        _ => OwnerKind::Job,
    });
    (0..APPS, kind, 1..6u8).prop_map(|(app, kind, desired)| PlannedOwner { app, kind, desired })
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    prop_oneof![
        6 => (0..PODS, prop::bool::weighted(0.85), prop::bool::weighted(0.2))
            .prop_map(|(pod, gated, exits)| CreatePod { pod, gated, exits }),
        10 => (0..PODS, PodChange::any()).prop_map(|(pod, change)| ChangePod { pod, change }),
        1 => (0..PODS, 0..APPS).prop_map(|(pod, app)| Relabel { pod, app }),
        2 => (0..APPS, 0..6u8).prop_map(|(app, desired)| Scale { app, desired }),
        1 => (0..APPS).prop_map(|app| Rollout { app }),
        1 => (0..APPS, any::<bool>()).prop_map(|(app, stopped)| Stop { app, stopped }),
        1 => (0..4u8, 0..3u8).prop_map(|(which, word)| BeginAgain { which, word }),
        2 => (0..4u8, sequence()).prop_map(|(which, to)| EditSequence { which, to }),
        1 => (0..4u8, any::<bool>()).prop_map(|(which, suspend)| Suspend { which, suspend }),
        1 => (0..4u8, 0..6u8).prop_map(|(which, group)| OpenByHand { which, group }),
        1 => (0..4u8).prop_map(|which| DeleteSequence { which }),
        3 => (0..40u8).prop_map(|seconds| Time { seconds }),
        1 => Just(Restart),
        1 => Just(Relist),
        8 => (0..6u8).prop_map(|changes| Tell { changes }),
        2 => (0..PODS).prop_map(|pod| Redeliver { pod }),
        2 => (0..20u8).prop_map(|at| Swap { at }),
        1 => any::<bool>().prop_map(|lost| Answers { lost }),
    ]
}

impl PlannedSequence {
    pub fn spec(&self) -> Spec {
        let mut groups: Vec<Group> = Vec::new();
        for (position, planned) in self.groups.iter().enumerate() {
            let group = planned.group(position, &groups);
            groups.push(group);
        }
        let mut spec = build::spec(groups);
        spec.gate = if self.other_gate { "second".into() } else { GATE.into() };
        spec.enforcement = if self.continuous { Enforcement::Continuous } else { Enforcement::Bootstrap };
        spec.deletion_policy = if self.hold { DeletionPolicy::Hold } else { DeletionPolicy::Release };
        spec
    }

    pub fn sequence(&self, number: usize) -> Sequence {
        build::sequence(HOME, &format!("s{number}"), self.spec())
    }
}

impl PlannedGroup {
    fn group(&self, position: usize, earlier: &[Group]) -> Group {
        let names: Vec<String> = self.pods.iter().map(|pod| format!("p{pod}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let members = match names.is_empty() {
            true => rollcall_core::sequence::spec::Members::Selector(build::selector(&format!(
                "app=a{}",
                self.app
            ))),
            false => build::names(&names),
        };
        let name = format!("g{}", self.name);
        let taken = earlier.iter().any(|group| *group.title == *name);
        let mut group = build::group(position, (!taken && self.name < 7).then_some(name.as_str()), members);
        let again = earlier.iter().filter(|other| other.id.as_str().starts_with(group.id.as_str())).count();
        if again > 0 {
            group.id = GroupId::from_text(&format!("{}-{}", group.id, again + 1));
        }
        let after: Vec<usize> =
            self.after.iter().map(|at| *at as usize).filter(|at| *at < position).collect();
        if !after.is_empty() {
            group.after = after;
        }
        if self.immediately {
            group.after.clear();
        }
        group.min_ready = self.min_ready;
        group.until = self.until;
        group.wait = Duration::from_secs(if self.waits { 10 } else { 0 });
        (group.timeout, group.on_timeout) = match self.timeout {
            Some(on_timeout) => (Some(Duration::from_secs(20)), on_timeout),
            None => (None, OnTimeout::Fail),
        };
        group.max_concurrent_starts = self.max_starts;
        group
    }
}

impl PlannedOwner {
    /// Returns the workload and, for a Deployment, its first ReplicaSet.
    pub fn owners(&self) -> Vec<Owner> {
        let labels = format!("app=a{}", self.app);
        let name = format!("w{}", self.app);
        let of_kind = |kind| build::owner(kind, HOME, &name, &labels, u32::from(self.desired));
        match self.kind {
            OwnerKind::Deployment => {
                let deployment = Owner { revision: Some("1".into()), ..of_kind(OwnerKind::Deployment) };
                let parent = Some(build::owner_ref(OwnerKind::Deployment, HOME, &name));
                let first = build::owner(OwnerKind::ReplicaSet, HOME, &format!("{name}-1"), &labels, 1);
                vec![deployment, Owner { parent, revision: Some("1".into()), ..first }]
            }
            OwnerKind::StatefulSet
            | OwnerKind::DaemonSet
            | OwnerKind::ReplicaSet
            | OwnerKind::CronJob
            | OwnerKind::Other => {
                vec![of_kind(self.kind)]
            }
            OwnerKind::Job => {
                let job = Job {
                    completions: Some(2),
                    succeeded: 0,
                    complete: false,
                    failed: false,
                    suspended: false,
                    runs_to_completion: true,
                };
                vec![Owner { job: Some(job), ..of_kind(OwnerKind::Job) }]
            }
        }
    }
}
