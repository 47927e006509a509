//! The end of a run: everything that is expected exists and becomes ready, and the sequence completes.

use super::{
    APPS,
    chaos::{Run, edit_spec},
    oracle::View,
};
use crate::support::build::{self, HOME};
use jiff::SignedDuration;
use rollcall_core::{
    Uid,
    facts::{Owner, OwnerKind, Pod, PodPhase},
    index::{Index, Object},
    kind::Kind,
    sequence::{GroupState, Sequence, decide, evaluate, spec::Members},
};
use std::collections::{BTreeMap, BTreeSet};

impl Run {
    /// Deletes all sequences but one, then creates its pods and makes them ready until it is complete.
    pub fn converge(&mut self) {
        let keep = self.sequence(0).map(|sequence| sequence.uid);
        let others: Vec<Sequence> = self.world.truth.sequences.values().cloned().collect();
        for other in others.into_iter().filter(|other| Some(other.uid) != keep) {
            self.world.delete(Object::Sequence(other));
        }
        self.edit(0, |sequence| {
            edit_spec(sequence, |spec| {
                spec.suspend = false;
                let mut seen = BTreeSet::new();
                for position in 0..spec.groups.len() {
                    // If two groups have the same selector, all pods belong to the first, and the second would wait
                    // indefinitely.
                    let text = format!("{:?}", spec.groups[position].members);
                    if matches!(spec.groups[position].members, Members::Selector(_)) && !seen.insert(text) {
                        spec.groups[position].members = build::names(&["p0"]);
                    }
                }
            });
        });
        // A step may need three rounds (pods exist, are released, settle), and a sequence has at most six steps.
        for _ in 0..40 {
            self.tell(usize::MAX);
            if self.unfinished().is_none() && self.world.now > build::at(1) {
                break;
            }
            self.make_progress();
            self.world.now += SignedDuration::from_secs(30);
        }
        self.tell(usize::MAX);
    }

    /// Deletes failed and outdated pods, makes released pods ready, and creates missing ones.
    fn make_progress(&mut self) {
        let pods: Vec<Pod> = self.world.truth.pods.values().cloned().collect();
        let spec = self.sequence(0).and_then(|sequence| sequence.spec.ok());
        let gate = spec.as_ref().map(|spec| spec.gate.clone());
        for mut pod in pods {
            if pod.terminating || pod.phase == PodPhase::Failed || self.is_outdated(&pod) {
                self.world.delete(Object::Pod(pod));
                continue;
            }
            let before = pod.clone();
            pod.gates.retain(|held| Some(held) == gate.as_ref());
            if pod.gates.is_empty() && pod.phase != PodPhase::Succeeded {
                (pod.phase, pod.started, pod.ready) = (PodPhase::Running, true, true);
                pod.node = Some("node-1".into());
                if pod.runs_to_completion {
                    (pod.phase, pod.ready) = (PodPhase::Succeeded, false);
                }
            }
            if pod != before {
                self.apply_pod(pod);
            }
        }
        for group in spec.iter().flat_map(|spec| &spec.groups) {
            match &group.members {
                Members::Workload(_) | Members::None => unreachable!("random sequences name pods"),
                Members::Names(names) => {
                    for name in names
                        .iter()
                        .filter(|name| self.world.pod_named(HOME, name).is_none())
                        .cloned()
                        .collect::<Vec<_>>()
                    {
                        self.create_named(&name, 0, None, true, false);
                    }
                }
                Members::Selector(selector) => {
                    let app = (0..APPS).find(|app| selector.matches(&build::labels(&format!("app=a{app}"))));
                    self.create_missing_pods(app.expect("groups select apps"));
                }
            }
        }
    }

    fn is_outdated(&self, pod: &Pod) -> bool {
        let Some(made_by) = pod.owner.and_then(|owner| self.world.truth.owners.get(&owner.uid)) else {
            return false;
        };
        let parent = made_by.parent.and_then(|parent| self.world.truth.owners.get(&parent.uid));
        parent.is_some_and(|deployment| deployment.revision != made_by.revision)
    }

    /// Creates as many pods of an app as its workloads desire, or one if it has no workload.
    fn create_missing_pods(&mut self, app: u8) {
        let name = format!("w{app}");
        let owners = self.world.truth.owners.values();
        let workloads: Vec<Owner> = owners.filter(|owner| *owner.name == *name).cloned().collect();
        let alone = format!("y{app}");
        if workloads.is_empty() && self.world.pod_named(HOME, &alone).is_none() {
            self.create_named(&alone, app, None, true, false);
        }
        for workload in workloads {
            self.create_missing_pods_of(app, workload);
        }
    }

    fn create_missing_pods_of(&mut self, app: u8, workload: Owner) {
        let desired = workload.desired.unwrap_or(1);
        if workload.desired.is_none() || workload.stopped {
            let started = Owner { desired: Some(desired), stopped: false, ..workload.clone() };
            self.world.apply(Object::Owner(started));
        }
        let maker = self.maker(&workload);
        let pods = self.world.truth.pods.values();
        let of_maker = pods.filter(|pod| pod.owner.is_some_and(|owner| owner.uid == maker.uid)).count();
        let wanted = if maker.kind == OwnerKind::Job { desired.max(2) } else { desired };
        for _ in of_maker..wanted as usize {
            let name = format!("z{app}-{}", self.created);
            self.create_named(&name, app, Some(maker.clone()), true, false);
        }
    }

    pub fn assert_all_complete(&self) {
        if let Some(unfinished) = self.unfinished() {
            panic!("{unfinished}");
        }
    }

    /// Describes a group that is not complete, or a pod that is still held.
    fn unfinished(&self) -> Option<String> {
        let sequence = self.sequence(0)?;
        let spec = sequence.spec.as_ref().expect("valid");
        let entry = self.world.index.sequences.get(sequence.uid).expect("told");
        let evaluation = evaluate(self.world.index.facts(), entry, self.world.now);
        let mut groups = spec.groups.iter().zip(&evaluation.groups);
        if let Some((group, view)) = groups.find(|(_, view)| view.state() != GroupState::Complete) {
            return Some(format!("{group:?} {view:?}"));
        }
        let held = |pod: &&Pod| pod.gates.contains(&spec.gate) && View::group_of(spec, pod).is_some();
        self.world.truth.pods.values().find(held).map(|pod| format!("{} is still held", pod.name))
    }

    /// Returns the final state, without names and times that differ between runs.
    pub fn end_state(&self) -> BTreeMap<String, String> {
        let pods = self
            .world
            .truth
            .pods
            .values()
            .map(|pod| (pod.name.to_string(), format!("{:?} {:?}", pod.gates, pod.phase)));
        let sequences = self.world.truth.sequences.values();
        let phases =
            sequences.map(|sequence| (sequence.name.to_string(), format!("{:?}", sequence.recorded.phase)));
        pods.chain(phases).collect()
    }

    /// Checks that the order of facts does not change the decisions.
    pub fn assert_same_decisions_from_any_order(&self, seed: u64) {
        let objects = self.world.truth.objects();
        let listed = objects.iter().map(Object::listed).collect();
        let mut decisions = Vec::new();
        for turn in 0..3u64 {
            let mut shuffled = objects.clone();
            let mut state = seed.wrapping_add(turn) | 1;
            for at in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                shuffled.swap(at, (state >> 33) as usize % (at + 1));
            }
            let mut index = Index::default();
            shuffled.into_iter().for_each(|object| index.apply(object));
            for kind in Kind::of_mode(false) {
                index.list_begins(kind, self.world.version);
                index.list_ended(kind, &listed);
            }
            let uids: Vec<Uid> = index.sequences.iter().map(|entry| entry.sequence.uid).collect();
            let decided = uids
                .into_iter()
                .map(|uid| decide(index.facts(), uid, self.world.settings, self.world.now, 7));
            decisions.push(decided.collect::<Vec<_>>());
        }
        assert_eq!(decisions[0], decisions[1]);
        assert_eq!(decisions[0], decisions[2]);
    }
}
