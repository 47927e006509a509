//! Audits a decision, without using what made it: no evaluation, no kept counts. Tests fail on a violation;
//! in production it is counted and the decision is not acted on.

use super::{
    decide::{Action, Decision},
    evaluate::later,
    spec::{Enforcement, Group, Members, OnTimeout, Spec, Until},
};
use crate::{
    Timestamp, Uid,
    facts::{OwnerKind, Pod, PodPhase},
    index::{Index, SequenceEntry, Standing},
};
use std::collections::{BTreeMap, BTreeSet};

/// An invariant that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `S1`, `S7` …, as the reliability page of the docs numbers them.
    pub invariant: &'static str,
    pub detail: String,
}

/// All violations of a decision about one sequence.
pub fn check(index: &Index, uid: Uid, decision: &Decision, now: Timestamp) -> Vec<Violation> {
    let Some(entry) = index.sequence(uid) else { return Vec::new() };
    let mut audit = Audit { index, entry, now, found: Vec::new(), opened: BTreeSet::new() };
    let mut once = BTreeSet::new();
    for action in &decision.actions {
        match action {
            Action::Release { pod, namespace, name, gate } => {
                if !once.insert(*pod) {
                    audit.violation("S7", format!("{name} is released twice in one decision"));
                }
                audit.release(*pod, namespace, name, gate);
            }
            Action::WriteNote { .. } | Action::DropNote { .. } => {}
        }
    }
    audit.found
}

struct Audit<'a> {
    index: &'a Index,
    entry: &'a SequenceEntry,
    now: Timestamp,
    found: Vec<Violation>,
    /// Groups found rightly open in this decision; the recount is done once per group.
    opened: BTreeSet<usize>,
}

impl Audit<'_> {
    fn violation(&mut self, invariant: &'static str, detail: String) {
        self.found.push(Violation { invariant, detail });
    }

    fn release(&mut self, uid: Uid, namespace: &str, name: &str, gate: &str) {
        let Some(spec) = self.entry.spec() else {
            return self.violation("S6", format!("{name} is released by a sequence that cannot act"));
        };
        let Some(pod) = self.index.pod(uid).filter(|pod| *pod.name == *name && *pod.namespace == *namespace)
        else {
            return self.violation("S7", format!("{namespace}/{name} does not have the uid {uid}"));
        };
        if *spec.gate != *gate || !pod.gates.iter().any(|held| **held == *gate) {
            self.violation("S2", format!("{name} does not carry {gate}, or it is not ours"));
        }
        let home = *self.entry.sequence.namespace == *namespace;
        let allowed = |there: &crate::facts::Namespace| there.allows(&self.entry.sequence.namespace);
        if !home && !self.index.namespace(namespace).is_some_and(allowed) {
            self.violation("S6", format!("{namespace} does not permit {}", self.entry.sequence.namespace));
        }
        if self.index.in_flight(uid) {
            self.violation("S7", format!("{name} is in flight already"));
        }
        if self.entry.ghost {
            return;
        }
        match spec.groups.iter().position(|group| claims(group, pod)) {
            None => self.violation("S1", format!("{name} belongs to no group")),
            Some(_) if spec.suspend => self.violation("S1", format!("{name} is released while suspended")),
            Some(position) => self.opened_rightly(spec, position),
        }
    }

    /// S1: the groups a group waits for have, or have had, what they need.
    fn opened_rightly(&mut self, spec: &Spec, position: usize) {
        if !self.opened.insert(position) {
            return;
        }
        let group = &spec.groups[position];
        let recorded = self.entry.recorded().groups.get(&group.id).copied().unwrap_or_default();
        let bootstrapped = spec.enforcement == Enforcement::Bootstrap && recorded.completed_at.is_some();
        if bootstrapped || self.entry.sequence.opened_by_hand.contains(&group.title) {
            return;
        }
        for earlier in &group.after {
            if let Err(why) = self.condition_held(spec, *earlier) {
                let (this, that) = (&group.title, &spec.groups[*earlier].title);
                self.violation("S1", format!("\"{this}\" is released before \"{that}\": {why}"));
            }
        }
    }

    fn condition_held(&self, spec: &Spec, position: usize) -> Result<(), String> {
        let group = &spec.groups[position];
        let recorded = self.entry.recorded().groups.get(&group.id).copied().unwrap_or_default();
        if let (Some(timeout), OnTimeout::Continue, Some(opened)) =
            (group.timeout, group.on_timeout, recorded.opened_at)
            && self.now >= later(opened, timeout)
        {
            return Ok(());
        }
        if let (Enforcement::Bootstrap, Some(completed)) = (spec.enforcement, recorded.completed_at) {
            return match self.now >= later(completed, group.wait) {
                true => Ok(()),
                false => Err("its waitDuration is not over".into()),
            };
        }
        if !group.wait.is_zero() && recorded.completed_at.is_none_or(|at| self.now < later(at, group.wait)) {
            return Err("its waitDuration is not over".into());
        }
        self.recount(position, group)
    }

    /// Counts a group anew, pod by pod.
    fn recount(&self, position: usize, group: &Group) -> Result<(), String> {
        let cell = self.entry.cell(position);
        let members = Standing::ALL.into_iter().flat_map(|standing| cell.members(standing));
        let pods: Vec<&Pod> = members.filter_map(|(_, uid)| self.index.pod(uid)).collect();
        let out_of_gate = |pod: &&&Pod| !pod.gates.contains(&self.entry.spec().expect("judged").gate);
        let arrived = |pod: &&&Pod| group.until.arrived(pod) && pod.phase != PodPhase::Failed;
        let total = pods.iter().filter(out_of_gate).filter(arrived).count() as u32;
        let (expected, arrived) = match (&group.members, group.expected) {
            (_, Some(expected)) => (expected, total),
            (Members::Names(names), None) => {
                (names.len() as u32 - self.entry.lost(position).min(names.len() as u32), total)
            }
            (Members::Selector(_), None) => self.recount_by_owner(position, group, &pods)?,
        };
        let required = group.min_ready.of(expected);
        match arrived >= required {
            true => Ok(()),
            false => Err(format!("{arrived} of {required} arrived")),
        }
    }

    fn recount_by_owner(&self, position: usize, group: &Group, pods: &[&Pod]) -> Result<(u32, u32), String> {
        let mut ready_of: BTreeMap<Uid, u32> =
            self.entry.cell(position).owners().map(|uid| (uid, 0)).collect();
        let (mut expected, mut arrived) = (0, 0);
        for pod in pods {
            let ready = u32::from(group.until.arrived(pod) && pod.phase != PodPhase::Failed);
            match self.top_owner(pod) {
                Some(top) => *ready_of.entry(top).or_default() += ready,
                None => (expected, arrived) = (expected + 1, arrived + ready),
            }
        }
        for (top, ready) in ready_of {
            let owner = self.index.owner(top).ok_or("an owner is not known")?;
            let over = owner.job.is_some_and(|job| job.complete);
            if owner.terminating || over {
                continue;
            }
            let to_completion = owner.job.is_some_and(|job| job.runs_to_completion);
            if owner.job.is_some() && group.until.resolve(to_completion) == Until::Succeeded {
                return Err(format!("Job {} is not complete", owner.name));
            }
            let desired = owner.desired.ok_or(format!("{} is behind", owner.name))?;
            (expected, arrived) = (expected + desired, arrived + ready.min(desired));
        }
        Ok((expected, arrived))
    }

    fn top_owner(&self, pod: &Pod) -> Option<Uid> {
        let direct = pod.owner.filter(|owner| owner.kind != OwnerKind::Other)?.uid;
        match self.index.owner(direct).and_then(|owner| owner.parent) {
            Some(parent) if parent.kind == OwnerKind::Deployment => Some(parent.uid),
            Some(_) | None => Some(direct),
        }
    }
}

fn claims(group: &Group, pod: &Pod) -> bool {
    match &group.members {
        Members::Names(names) => names.contains(&pod.name),
        Members::Selector(selector) => selector.matches(&pod.labels),
    }
}
