//! A cell counts the members of one group in one place: in the cluster or on one node.
//!
//! ```text
//! Cell ─┬─ sets:  one ordered set of (name, uid) per standing
//!       ├─ units: per owner, the number of its pods and its contribution to the sum
//!       └─ sum:   expected, arrived and unknown, updated on each change
//! ```

use crate::{
    Timestamp, Uid,
    facts::{Owner, OwnerKind, Pod, PodPhase},
    planted::{Bug, planted},
    sequence::spec::Until,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The state of a member, from held by its gate to arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The pod carries the gate of the sequence.
    Held,
    /// The removal of the gate is in flight.
    Releasing,
    /// Released, but not arrived.
    Starting,
    Arrived,
    /// Ready, but belongs to an old ReplicaSet of its Deployment.
    Outdated,
    Failed,
}

impl Standing {
    pub const ALL: [Standing; 6] = [
        Standing::Held,
        Standing::Releasing,
        Standing::Starting,
        Standing::Arrived,
        Standing::Outdated,
        Standing::Failed,
    ];

    /// The standing of `pod` for a gate and an `until` rule.
    pub fn from_pod(pod: &Pod, gate: &str, until: Until, releasing: bool, current: bool) -> Standing {
        if releasing && planted(Bug::InFlightIsDone) {
            return Standing::Arrived;
        }
        if releasing {
            return Standing::Releasing;
        }
        if pod.gates.iter().any(|held| &**held == gate) {
            return Standing::Held;
        }
        if pod.phase == PodPhase::Failed {
            return Standing::Failed;
        }
        match (until.arrived(pod), current) {
            (true, true) => Standing::Arrived,
            (true, false) => Standing::Outdated,
            (false, _) => Standing::Starting,
        }
    }
}

/// The parts of a member pod that a cell needs.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: Arc<str>,
    pub uid: Uid,
    pub standing: Standing,
    pub since: Timestamp,
    /// The top-level workload that owns it; `None` if the pod counts by itself.
    pub root: Option<Uid>,
}

type Names = BTreeSet<(Arc<str>, Uid)>;

#[derive(Debug, Default)]
pub struct Cell {
    sets: [Names; 6],
    /// Members that are released but have not arrived, the longest waiting first.
    waiting: BTreeSet<(Timestamp, Uid)>,
    units: BTreeMap<Uid, Unit>,
    sum: Sum,
}

/// The pods of one workload in one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unit {
    present: u32,
    arrived: u32,
    /// The group selects the workload itself, by its template or name, so it counts even before it has pods.
    by_template: bool,
    /// For a CronJob: it has a run, which counts instead of the CronJob.
    has_runs: bool,
    contribution: Sum,
}

/// Numbers of expected and arrived pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub expected: u32,
    pub arrived: u32,
    /// Workloads whose desired number of pods is unknown.
    pub unknown: u32,
    /// The workloads among them that `rollcall stop` has stopped.
    pub stopped: u32,
}

impl Cell {
    pub fn insert(&mut self, member: &Member, owner: Option<&Owner>, until: Until) {
        let Member { name, uid, standing, since, root } = member;
        let added = self.sets[*standing as usize].insert((name.clone(), *uid));
        debug_assert!(added, "{name} placed twice");
        if waits(*standing) {
            self.waiting.insert((*since, *uid));
        }
        self.count(*root, *standing, owner, until, true);
    }

    pub fn remove(&mut self, member: &Member, owner: Option<&Owner>, until: Until) {
        let Member { name, uid, standing, since, root } = member;
        let removed = self.sets[*standing as usize].remove(&(name.clone(), *uid));
        debug_assert!(removed, "{name} was not placed as {standing:?}");
        if waits(*standing) {
            self.waiting.remove(&(*since, *uid));
        }
        self.count(*root, *standing, owner, until, false);
    }

    fn count(
        &mut self,
        root: Option<Uid>,
        standing: Standing,
        owner: Option<&Owner>,
        until: Until,
        add: bool,
    ) {
        let arrived = u32::from(standing == Standing::Arrived);
        let step = |number: &mut u32, by: u32| if add { *number += by } else { *number -= by };
        match root {
            None => {
                step(&mut self.sum.expected, 1);
                step(&mut self.sum.arrived, arrived);
            }
            Some(root) => {
                let unit = self.units.entry(root).or_default();
                step(&mut unit.present, 1);
                step(&mut unit.arrived, arrived);
                self.recount(root, owner, until);
            }
        }
    }

    /// Records whether the group selects a workload by its template or name. `has_runs` says whether a CronJob has run.
    pub fn by_template(
        &mut self,
        root: Uid,
        found: bool,
        owner: Option<&Owner>,
        until: Until,
        has_runs: bool,
    ) {
        let unit = self.units.entry(root).or_default();
        (unit.by_template, unit.has_runs) = (found, has_runs);
        self.recount(root, owner, until);
    }

    /// Updates the contribution of a workload after a change of its pods or of the workload.
    pub fn recount(&mut self, root: Uid, owner: Option<&Owner>, until: Until) {
        let Some(unit) = self.units.get_mut(&root) else { return };
        let old = unit.contribution;
        let gone = unit.present == 0 && !unit.by_template;
        let stopped = owner.is_some_and(Owner::is_stopped);
        unit.contribution = match (gone, stopped, unit.has_runs) {
            (true, _, _) => Sum::default(),
            (false, true, _) => Sum { unknown: 1, stopped: 1, ..Sum::default() },
            (false, false, true) => Sum::default(),
            (false, false, false) => contribution(unit.arrived, owner, until),
        };
        if planted(Bug::OwnersNotAsked) {
            unit.contribution = Sum { expected: unit.present, arrived: unit.arrived, ..Sum::default() };
        }
        let new = unit.contribution;
        self.sum.expected = self.sum.expected - old.expected + new.expected;
        self.sum.arrived = self.sum.arrived - old.arrived + new.arrived;
        self.sum.unknown = self.sum.unknown - old.unknown + new.unknown;
        self.sum.stopped = self.sum.stopped - old.stopped + new.stopped;
        if gone {
            self.units.remove(&root);
        }
    }

    pub fn number(&self, standing: Standing) -> u32 {
        self.sets[standing as usize].len() as u32
    }

    pub fn members(&self, standing: Standing) -> impl Iterator<Item = (&Arc<str>, Uid)> {
        self.sets[standing as usize].iter().map(|(name, uid)| (name, *uid))
    }

    /// Members that are released but have not arrived, the longest waiting first.
    pub fn waiting(&self) -> impl Iterator<Item = (Timestamp, Uid)> {
        self.waiting.iter().copied()
    }

    pub fn present(&self) -> u32 {
        self.sets.iter().map(|set| set.len() as u32).sum()
    }

    /// The workloads that have members here, or that the group selects.
    pub fn owners(&self) -> impl Iterator<Item = Uid> {
        self.units.keys().copied()
    }

    /// Whether the group selects a workload by its template or name, with or without pods.
    pub fn has_workload(&self) -> bool {
        self.units.values().any(|unit| unit.by_template)
    }

    /// Whether a workload has members here, or the group selects it.
    pub fn is_of(&self, root: Uid) -> bool {
        self.units.contains_key(&root)
    }

    pub fn pods_of(&self, root: Uid) -> u32 {
        self.units.get(&root).map_or(0, |unit| unit.present)
    }

    /// Whether all members belong to workloads that satisfy `which`, and at least one such workload exists.
    pub fn is_all_of(&self, which: impl Fn(Uid) -> bool) -> bool {
        let of_workloads = || self.units.values().map(|unit| unit.present).sum::<u32>();
        !self.units.is_empty() && self.units.keys().all(|uid| which(*uid)) && of_workloads() == self.present()
    }

    pub fn sum(&self) -> Sum {
        self.sum
    }

    pub fn is_empty(&self) -> bool {
        self.units.is_empty() && self.sets.iter().all(BTreeSet::is_empty)
    }
}

fn waits(standing: Standing) -> bool {
    match standing {
        Standing::Releasing | Standing::Starting => true,
        Standing::Held | Standing::Arrived | Standing::Outdated | Standing::Failed => false,
    }
}

/// The contribution of a workload to its group. Arrived pods are capped by the desired number, so that surplus pods of one
/// workload do not hide missing pods of another.
fn contribution(arrived: u32, owner: Option<&Owner>, until: Until) -> Sum {
    let unknown = Sum { unknown: 1, ..Sum::default() };
    let Some(owner) = owner else { return unknown };
    if owner.terminating {
        return Sum::default();
    }
    if let (OwnerKind::Job, Some(job)) = (owner.kind, owner.job) {
        if until.resolve(job.runs_to_completion) == Until::Succeeded {
            let expected = job.completions.unwrap_or(1).max(1);
            // Until the Job reports that it is complete, its last success does not count.
            let arrived = if job.complete { expected } else { job.succeeded.min(expected - 1) };
            return Sum { expected, arrived, ..Sum::default() };
        }
        if job.complete {
            let expected = owner.desired.unwrap_or(1).max(1);
            return Sum { expected, arrived: expected, ..Sum::default() };
        }
    }
    match owner.desired {
        None => unknown,
        Some(desired) => Sum { expected: desired, arrived: arrived.min(desired), ..Sum::default() },
    }
}
