//! Audits a decision independently of the code that made it: it uses neither group evaluations nor stored counts. A violation
//! fails a test. In production, the controller counts it and discards the decision.

use super::{
    Facts,
    evaluate::{later, may_act},
    index::{MEMBERSHIP_KEY, SequenceEntry, Standing},
    keys,
    marks::Marks,
    nodes::carries,
    spec::{Enforcement, Group, Members, NodeGuard, NodeReady, OnTimeout, Scope, Spec, Until, WorkloadRef},
};
use crate::{
    Timestamp, Uid,
    decision::{Action, Decision, NodeMarks, NodePatch, PodPatch, Violation},
    facts::{Job, Owner, OwnerKind, Pod, PodPhase},
    journal::Journal,
    node::{Node, Placement, is_part_of},
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of nodes to check for one pod that is not tied to a node.
const NODES: usize = 64;

/// Returns all violations in a decision about one sequence.
pub fn check(facts: Facts<'_>, uid: Uid, decision: &Decision, now: Timestamp) -> Vec<Violation> {
    let Some(entry) = facts.sequences.get(uid) else { return Vec::new() };
    let mut audit = Audit { facts, entry, now, found: Vec::new(), opened: BTreeSet::new() };
    let mut once = BTreeSet::new();
    for action in &decision.actions {
        match action {
            Action::PatchPod(patch) => {
                if !once.insert(patch.uid) {
                    audit.violation("S7", format!("{} is released twice in one decision", patch.name));
                }
                audit.release(patch);
                audit.check_kept_off_closed_nodes(patch);
            }
            Action::WriteNote { .. } | Action::DropNote { .. } => {}
            Action::PatchNode(patch) => audit.mark(patch),
            Action::WriteBarrier(write) => {
                audit.violation("S6", format!("a sequence must not write ConfigMap {}", write.target.name));
            }
            Action::Create(_) | Action::Delete(_) | Action::WriteTicket(_) | Action::Nominate(_) => {
                audit.violation("S6", "a sequence must not change reservations".to_owned());
            }
        }
    }
    audit.found
}

struct Audit<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    now: Timestamp,
    found: Vec<Violation>,
    /// Groups already checked for this decision. Each group is recounted once; in Node scope, once per node and once for pods
    /// without a node.
    opened: BTreeSet<(Uid, usize, Option<Arc<str>>)>,
}

impl<'a> Audit<'a> {
    fn violation(&mut self, invariant: &'static str, detail: String) {
        self.found.push(Violation { invariant, detail });
    }

    fn release(&mut self, patch: &PodPatch) {
        let PodPatch { uid, namespace, name, drop_gate, .. } = patch;
        let (uid, gate) = (*uid, drop_gate.as_ref().map_or("no gate", |gate| &*gate.name));
        let Some(spec) = self.entry.spec() else {
            return self.violation("S6", format!("{name} is released by a sequence that cannot act"));
        };
        let Some(pod) =
            self.facts.cluster.pod(uid).filter(|pod| pod.name == *name && pod.namespace == *namespace)
        else {
            return self.violation("S7", format!("{namespace}/{name} does not have the uid {uid}"));
        };
        if *spec.gate != *gate || !pod.gates.iter().any(|held| **held == *gate) {
            self.violation(
                "S2",
                format!("{name} does not carry {gate}, or {gate} is not the gate of the sequence"),
            );
        }
        let home = self.entry.sequence.namespace == *namespace;
        let allowed = |there: &crate::facts::Namespace| there.allows(&self.entry.sequence.namespace);
        if !home && !self.facts.cluster.namespace(namespace).is_some_and(allowed) {
            self.violation("S6", format!("{namespace} does not permit {}", self.entry.sequence.namespace));
        }
        if self.facts.cluster.is_writing_pod(uid) {
            self.violation("S7", format!("another write to {name} is already in flight"));
        }
        for (entry, spec) in self.selecting_sequences(pod) {
            self.check_release(entry, spec, pod);
        }
        if !self.entry.ghost && group_of(self.facts, self.entry, spec, pod).is_none() {
            self.violation("S1", format!("{name} belongs to no group"));
        }
    }

    /// The existing sequences with the same gate that select a pod and may act on it.
    fn selecting_sequences(&self, pod: &Pod) -> Vec<(&'a SequenceEntry, &'a Arc<Spec>)> {
        let Some(gate) = self.entry.spec().map(|spec| &spec.gate) else { return Vec::new() };
        let living = self
            .facts
            .memberships_of(pod.uid)
            .filter_map(|membership| self.facts.sequences.get(membership.sequence));
        let living = living.filter(|entry| !entry.ghost && may_act(self.facts, entry));
        living.filter_map(|entry| Some((entry, entry.spec().filter(|spec| spec.gate == *gate)?))).collect()
    }

    fn check_release(&mut self, entry: &'a SequenceEntry, spec: &Spec, pod: &Pod) {
        let Some(position) = group_of(self.facts, entry, spec, pod) else { return };
        if spec.suspend {
            let (name, sequence) = (&pod.name, &entry.sequence.name);
            return self.violation("S1", format!("{name} is released while {sequence} is suspended"));
        }
        match spec.scope {
            Scope::Cluster => self.check_group_open(entry, spec, position),
            Scope::Node => self.check_group_open_on_nodes(entry, spec, pod, position),
        }
    }

    /// S1 in Node scope: checks the node of the pod or, if it has none yet, all nodes that are not blocked for it.
    fn check_group_open_on_nodes(&mut self, entry: &SequenceEntry, spec: &Spec, pod: &Pod, position: usize) {
        let group = &spec.groups[position];
        if entry.sequence.opened_by_hand.contains(&group.title) {
            return;
        }
        let own = self.facts.cluster.node_of(pod);
        if !self.opened.insert((entry.sequence.uid, position, own.clone())) {
            return;
        }
        let closed =
            |node: &Node| carries(node, entry.key(position)) || node.labels.get(keys::UNSEEN).is_some();
        let nodes: Vec<&Node> = match &own {
            Some(own) => self.facts.cluster.node(own).filter(|node| !node.terminating).into_iter().collect(),
            None => self.some_nodes(pod).filter(|node| !closed(node)).collect(),
        };
        for node in nodes {
            if let Err(why) = self.reached(entry, spec, node, position) {
                let (name, title, node) = (&pod.name, &group.title, &node.name);
                self.violation("S1", format!("{name} of \"{title}\" can be scheduled to {node}: {why}"));
            }
        }
    }

    /// Returns at most [`NODES`] nodes, starting at a place that depends on the pod. The limit bounds the cost of one pod; over
    /// several releases, all nodes are checked.
    fn some_nodes(&self, pod: &Pod) -> impl Iterator<Item = &'a Node> + use<'a> {
        self.facts.cluster.nodes_from(pod.uid).take(NODES)
    }

    /// Checks that all earlier groups are complete on a node or, in Bootstrap, that the journal says that they were.
    fn reached(
        &self,
        entry: &SequenceEntry,
        spec: &Spec,
        node: &Node,
        position: usize,
    ) -> Result<(), String> {
        let of_this_start = |journal: &&Journal| journal.begun_again == entry.recorded().begun_again;
        let journal = node.journals.get(&entry.sequence.uid).filter(of_this_start);
        let written = |group: &Group| {
            let view = entry.view_of(&node.name).and_then(|view| {
                let at = spec.groups.iter().position(|known| known.id == group.id)?;
                view.groups[at].completed_at
            });
            view.or_else(|| journal?.groups.get(&group.id)?.completed_at)
        };
        let bootstrap = spec.enforcement == Enforcement::Bootstrap;
        if bootstrap && written(&spec.groups[position]).is_some() {
            return Ok(());
        }
        for earlier in &spec.groups[position].after {
            let group = &spec.groups[*earlier];
            let late = group.timeout.is_some() && group.on_timeout == OnTimeout::Continue;
            let elsewhere = !is_part_of(&group.node_selector, &node.labels);
            if elsewhere || late || bootstrap && written(group).is_some() {
                continue;
            }
            let count = GroupRecount { facts: self.facts, entry, spec, now: self.now, position: *earlier };
            count.arrived_on(group, node).map_err(|why| format!("\"{}\" {why}", group.title))?;
        }
        Ok(())
    }

    /// S1: a released pod without a node must be kept off the nodes that are blocked for it.
    fn check_kept_off_closed_nodes(&mut self, patch: &PodPatch) {
        let PodPatch { uid, avoid, tolerate, .. } = patch;
        let Some(pod) = self.facts.cluster.pod(*uid).filter(|pod| self.facts.cluster.node_of(pod).is_none())
        else {
            return;
        };
        for (entry, spec) in
            self.selecting_sequences(pod).into_iter().filter(|(_, spec)| spec.scope == Scope::Node)
        {
            let Some(position) = group_of(self.facts, entry, spec, pod) else { continue };
            let kept_off = match spec.guard {
                NodeGuard::Labels => avoid.contains(entry.key(position)),
                NodeGuard::Taints => !tolerate.contains(entry.key(position)),
            };
            if !kept_off {
                self.violation("S1", format!("{} is not kept off blocked nodes", pod.name));
            }
        }
    }

    /// S3 and S7: a patch of a node changes only keys of the sequence, on the node with the uid that the decision names.
    fn mark(&mut self, patch: &NodePatch) {
        let NodePatch { node, name, parts, version: _ } = patch;
        let Some(there) = self.facts.cluster.node(name).filter(|there| there.uid == *node) else {
            return self.violation("S7", format!("node {name} does not have the uid {node}"));
        };
        for NodeMarks { sequence, marks } in parts {
            self.check_marks(*sequence, marks, there);
        }
    }

    fn check_marks(&mut self, sequence: Uid, marks: &Marks, there: &Node) {
        let name = &there.name;
        for (place, key) in &marks.taints.remove {
            let ours = there.taints.get(*place).is_some_and(|taint| {
                taint.key == *key && keys::is_key(key) && self.may_change(sequence, key, &taint.value)
            });
            if !ours {
                self.violation("S3", format!("taint {key} on node {name} does not belong to the sequence"));
            }
        }
        for key in marks.labels.keys() {
            let foreign = there.labels.get(key).is_some_and(|value| !self.may_change(sequence, key, value));
            if **key != *keys::UNSEEN && (!keys::is_key(key) || foreign) {
                self.violation("S3", format!("label {key} on node {name} does not belong to the sequence"));
            }
        }
    }

    /// Whether a label or taint with this value belongs to the sequence, or is a leftover of a deleted one with the same name.
    fn may_change(&self, sequence: Uid, key: &Arc<str>, value: &str) -> bool {
        let is_key_of = |sequence| {
            let entry = self.facts.sequences.get(sequence);
            entry.is_some_and(|entry| entry.keys().contains(key))
        };
        *value == *sequence.to_string() || is_key_of(sequence) && self.facts.is_left_by_gone(value)
    }

    /// S1: all groups that a group waits for are complete or, in Bootstrap, have been.
    fn check_group_open(&mut self, entry: &'a SequenceEntry, spec: &Spec, position: usize) {
        if !self.opened.insert((entry.sequence.uid, position, None)) {
            return;
        }
        let group = &spec.groups[position];
        let recorded = entry.recorded().groups.get(&group.id).copied().unwrap_or_default();
        let bootstrapped = spec.enforcement == Enforcement::Bootstrap && recorded.completed_at.is_some();
        if bootstrapped || entry.sequence.opened_by_hand.contains(&group.title) {
            return;
        }
        for earlier in &group.after {
            let count = GroupRecount { facts: self.facts, entry, spec, now: self.now, position: *earlier };
            if let Err(why) = count.condition_held() {
                let (this, that) = (&group.title, &spec.groups[*earlier].title);
                self.violation("S1", format!("\"{this}\" is released before \"{that}\": {why}"));
            }
        }
    }
}

/// Recounts one group, pod by pod.
struct GroupRecount<'a> {
    facts: Facts<'a>,
    entry: &'a SequenceEntry,
    spec: &'a Spec,
    now: Timestamp,
    position: usize,
}

impl GroupRecount<'_> {
    fn condition_held(&self) -> Result<(), String> {
        let group = &self.spec.groups[self.position];
        let recorded = self.entry.recorded().groups.get(&group.id).copied().unwrap_or_default();
        if let (Some(timeout), OnTimeout::Continue, Some(opened)) =
            (group.timeout, group.on_timeout, recorded.opened_at)
            && self.now >= later(recorded.opened_here(opened, self.now), timeout)
        {
            return Ok(());
        }
        if let (Enforcement::Bootstrap, Some(completed)) = (self.spec.enforcement, recorded.completed_at) {
            return match self.now >= later(recorded.completed_here(completed, self.now), group.wait) {
                true => Ok(()),
                false => Err("its waitDuration has not elapsed".into()),
            };
        }
        let settles = |at| self.now < later(recorded.completed_here(at, self.now), group.wait);
        if !group.wait.is_zero() && recorded.completed_at.is_none_or(settles) {
            return Err("its waitDuration has not elapsed".into());
        }
        self.is_running(group)?;
        if recorded.finished && self.is_cleaned_up() {
            return Ok(());
        }
        self.recount(group)
    }

    /// A stopped workload has not arrived, whatever its size.
    fn is_running(&self, group: &Group) -> Result<(), String> {
        let owners = self.entry.cell(self.position).owners();
        let mut owners = owners.filter_map(|uid| self.facts.cluster.owner(uid)).filter(|it| !it.terminating);
        match owners.find(|it| it.stopped && !it.job.is_some_and(|job| job.complete)) {
            Some(owner) => Err(format!("{} of \"{}\" is stopped", owner.name, group.title)),
            None => Ok(()),
        }
    }

    /// Whether no remaining member can still arrive, apart from later runs of a CronJob.
    fn is_cleaned_up(&self) -> bool {
        let cell = self.entry.cell(self.position);
        let is_over = |it: &Owner| it.kind == OwnerKind::CronJob || it.job.is_some_and(|job| job.complete);
        cell.present() == cell.number(Standing::Arrived)
            && cell.owners().all(|uid| self.facts.cluster.owner(uid).is_none_or(is_over))
    }

    /// In Node scope: checks that enough members on a node have arrived, including pods that DaemonSets have yet to create there.
    fn arrived_on(&self, group: &Group, node: &Node) -> Result<(), String> {
        let cell = self.entry.cell(self.position);
        self.is_running(group)?;
        let journal = node.journals.get(&self.entry.sequence.uid);
        let written = journal.and_then(|journal| journal.groups.get(&group.id));
        let judged = self.entry.view_of(&node.name).map(|view| view.groups[self.position].finished);
        let finished = written.is_some_and(|it| it.finished) || judged == Some(true);
        if !finished {
            self.check_shown(group, node)?;
        }
        match (cell.is_empty(), &group.members) {
            (_, Members::None) => return Ok(()),
            (true, _) if group.optional || finished => return Ok(()),
            (true, _) => return Err("has no members".into()),
            (false, _) => {}
        }
        // Members that exist are in the cell of the node. Missing pods are counted from the DaemonSets that want one there.
        let there = self.entry.cell_on(&node.name, self.position).into_iter();
        let members =
            there.flat_map(|cell| Standing::ALL.into_iter().flat_map(|standing| cell.members(standing)));
        let here = members.filter_map(|(_, uid)| self.facts.cluster.pod(uid));
        let here: Vec<&Pod> =
            here.filter(|pod| self.facts.cluster.node_of(pod).as_ref() == Some(&node.name)).collect();
        let arrived = here.iter().filter(|pod| self.has_arrived(group, pod)).count() as u32;
        let daemons = cell.owners().filter_map(|uid| self.facts.cluster.owner(uid));
        let wanting = daemons.filter(|owner| !owner.terminating).filter(|owner| {
            let wants = |placement: &Placement| placement.wants_daemon_on(node, keys::is_key);
            owner.placement.as_deref().is_some_and(wants)
                && !here.iter().any(|pod| pod.owner.is_some_and(|by| by.uid == owner.uid))
        });
        let expected = group.expected.unwrap_or(here.len() as u32 + wanting.count() as u32);
        match arrived >= group.min_ready.required(expected) {
            true => Ok(()),
            false => Err(format!("has {arrived} of {expected} pods there")),
        }
    }

    /// Checks that a node meets the `nodeReady` of a group.
    fn check_shown(&self, group: &Group, node: &Node) -> Result<(), String> {
        let (shown, what) = match &group.node_ready {
            None => return Ok(()),
            Some(NodeReady::CsiDriver(driver)) => (self.facts.cluster.has_driver(node, driver), driver),
            Some(NodeReady::Allocatable(resource)) => (node.resources.contains(resource), resource),
            Some(NodeReady::Condition(condition)) => (node.conditions.contains(condition), condition),
        };
        if shown { Ok(()) } else { Err(format!("waits for {what} there")) }
    }

    fn recount(&self, group: &Group) -> Result<(), String> {
        let cell = self.entry.cell(self.position);
        let members = Standing::ALL.into_iter().flat_map(|standing| cell.members(standing));
        let pods: Vec<&Pod> = members.filter_map(|(_, uid)| self.facts.cluster.pod(uid)).collect();
        if group.optional && pods.is_empty() && cell.owners().next().is_none() {
            return Ok(());
        }
        let total = |which: &dyn Fn(&Pod) -> bool| {
            pods.iter().filter(|pod| self.has_arrived(group, pod) && which(pod)).count() as u32
        };
        let (expected, arrived) = match (&group.members, group.expected) {
            (_, Some(expected)) => (expected, total(&|pod| names_replica_set(group) || self.is_current(pod))),
            (Members::Names(names), None) => {
                let lost = self.entry.in_earlier_group(self.position);
                ((names.len() as u32).saturating_sub(lost), total(&|_| true))
            }
            (Members::Selector(_), None) => match self.recount_by_owner(group, &pods)? {
                (0, _) => return Err("it has no members".into()),
                counted => counted,
            },
            (Members::Workload(workload), None) => {
                let WorkloadRef { kind, name } = workload;
                let owner = self.facts.cluster.owner_named(&self.spec.pod_namespace, *kind, name);
                owner.filter(|owner| !owner.terminating).ok_or(format!("{workload} does not exist"))?;
                self.recount_by_owner(group, &pods)?
            }
            (Members::None, None) => return Err("it has no members in Cluster scope".into()),
        };
        let required = match self.entry.in_earlier_group(self.position) {
            0 => group.min_ready.required(expected),
            _ => group.min_ready.required(expected).min(expected),
        };
        match arrived >= required {
            true => Ok(()),
            false => Err(format!("{arrived} of {required} pods arrived")),
        }
    }

    fn recount_by_owner(&self, group: &Group, pods: &[&Pod]) -> Result<(u32, u32), String> {
        let mut ready_of: BTreeMap<Uid, u32> =
            self.entry.cell(self.position).owners().map(|uid| (uid, 0)).collect();
        let (mut expected, mut arrived) = (0, 0);
        for pod in pods {
            let current = names_replica_set(group) || self.is_current(pod);
            let ready = u32::from(self.has_arrived(group, pod) && current);
            match self.top_owner(group, pod) {
                Some(top) => *ready_of.entry(top).or_default() += ready,
                None => (expected, arrived) = (expected + 1, arrived + ready),
            }
        }
        for (top, ready) in ready_of {
            let owner = self.facts.cluster.owner(top).ok_or("an owner is unknown")?;
            let mut runs = self.facts.cluster.children_of(top);
            if owner.terminating || owner.kind == OwnerKind::CronJob && runs.next().is_some() {
                continue;
            }
            let (wants, has) = match owner.job {
                Some(job) => of_job(group, owner, job, ready),
                None => (owner.desired, ready),
            };
            let wants = wants.ok_or(format!("the number of pods of {} is not known yet", owner.name))?;
            (expected, arrived) = (expected + wants, arrived + has.min(wants));
        }
        Ok((expected, arrived))
    }

    fn has_arrived(&self, group: &Group, pod: &Pod) -> bool {
        // Only an in-flight removal of this gate counts; other writes to the pod do not affect its arrival.
        let going = self.facts.cluster.gate_being_dropped(pod.uid) == Some(&self.spec.gate);
        let held = pod.gates.contains(&self.spec.gate) || going;
        !held && pod.phase != PodPhase::Failed && group.until.arrived(pod)
    }

    fn top_owner(&self, group: &Group, pod: &Pod) -> Option<Uid> {
        let direct = pod.owner.filter(|owner| owner.kind != OwnerKind::Other)?.uid;
        if names_replica_set(group) {
            return Some(direct);
        }
        match self.facts.cluster.owner(direct).and_then(|owner| owner.parent) {
            Some(parent) if parent.kind == OwnerKind::Deployment => Some(parent.uid),
            Some(_) | None => Some(direct),
        }
    }

    /// Whether a pod belongs to the newest revision of its Deployment. True for pods of other owners.
    fn is_current(&self, pod: &Pod) -> bool {
        let replica_set = pod.owner.and_then(|owner| self.facts.cluster.owner(owner.uid));
        let parent = replica_set.and_then(|made_by| made_by.parent);
        match parent.filter(|parent| parent.kind == OwnerKind::Deployment) {
            None => true,
            Some(parent) => {
                let newest =
                    self.facts.cluster.owner(parent.uid).and_then(|deployment| deployment.revision.as_ref());
                newest.is_some() && newest == replica_set.and_then(|made_by| made_by.revision.as_ref())
            }
        }
    }
}

/// Returns the expected and the arrived pods of a Job: its completions if the group waits for them, else its pods.
fn of_job(group: &Group, owner: &Owner, job: Job, ready: u32) -> (Option<u32>, u32) {
    let to_the_end = group.until.resolve(job.runs_to_completion) == Until::Succeeded;
    let completions = job.completions.unwrap_or(1).max(1);
    match (to_the_end, job.complete) {
        (true, true) => (Some(completions), completions),
        (true, false) => (Some(completions), job.succeeded.min(completions - 1)),
        (false, true) => (Some(owner.desired.unwrap_or(1).max(1)), u32::MAX),
        (false, false) => (owner.desired, ready),
    }
}

/// Returns the first group that selects a pod: by its name, its labels, its owner, or the pod's own annotation.
fn group_of(facts: Facts<'_>, entry: &SequenceEntry, spec: &Spec, pod: &Pod) -> Option<usize> {
    let at_home = spec.pod_namespace == entry.sequence.namespace;
    let word = pod.labels.get(MEMBERSHIP_KEY).filter(|_| at_home).and_then(|word| word.rsplit_once('/'));
    let own =
        word.filter(|(name, _)| *name == &*entry.sequence.name).and_then(|(_, group)| group.parse().ok());
    spec.groups.iter().enumerate().position(|(position, group)| match &group.members {
        Members::Names(names) => names.contains(&pod.name),
        Members::Selector(selector) => own == Some(position) || selector.matches(&pod.labels),
        Members::Workload(workload) => is_owned_by(facts, pod, workload),
        Members::None => false,
    })
}

/// Whether a workload of this name owns a pod, directly or through a ReplicaSet or Job.
fn is_owned_by(facts: Facts<'_>, pod: &Pod, workload: &WorkloadRef) -> bool {
    let is_named = |owner: &&Owner| owner.kind == workload.kind && owner.name == workload.name;
    let direct = pod.owner.and_then(|owner| facts.cluster.owner(owner.uid));
    let above = direct.and_then(|direct| facts.cluster.owner(direct.parent?.uid));
    direct.filter(is_named).or(above.filter(is_named)).is_some()
}

fn names_replica_set(group: &Group) -> bool {
    matches!(&group.members, Members::Workload(workload) if workload.kind == OwnerKind::ReplicaSet)
}
