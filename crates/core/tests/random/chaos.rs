//! Runs a plan and checks it.

use super::{APPS, Happening, Plan, PodChange, oracle::View};
use crate::support::{
    build::{self, HOME},
    world::{Answers, Change, World, deliver, list_all, release_sent},
};
use jiff::SignedDuration;
use rollcall_core::{
    Uid,
    facts::{Owner, OwnerKind, Pod, PodPhase},
    index::{Index, Object},
    sequence::{
        Sequence, Spec, blocked, evaluate,
        spec::{Enforcement, GroupId, OnTimeout},
    },
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Run {
    pub world: World,
    view: View,
    /// Groups whose condition held in a state that the controller has seen.
    held: BTreeSet<(Uid, GroupId)>,
    /// The starts that the controller has seen, with their versions.
    starts: BTreeMap<Uid, (u64, Option<Arc<str>>)>,
    past: Vec<Pod>,
    pub(super) created: u32,
}

/// Runs a plan with a controller that receives events late and out of order.
pub fn run(plan: &Plan) -> Run {
    let mut run = Run::new(plan);
    run.world.prompt = false;
    for happening in &plan.events {
        run.happen(happening);
    }
    run.world.answers = Answers::Prompt;
    run.tell(usize::MAX);
    run
}

/// Runs a plan with a controller that receives all events immediately.
pub fn calm(plan: &Plan, budget: usize) -> Run {
    let mut run = Run::new(plan);
    run.world.prompt = false;
    run.world.budget = budget;
    for happening in &plan.events {
        if !matches!(happening, Happening::Answers { .. } | Happening::Swap { .. }) {
            run.happen(happening);
            run.tell(usize::MAX);
        }
    }
    run
}

impl Run {
    fn new(plan: &Plan) -> Run {
        let world = World::new();
        let mut run = Run {
            world,
            view: View::default(),
            held: BTreeSet::new(),
            starts: BTreeMap::new(),
            past: Vec::new(),
            created: 0,
        };
        for owner in plan.owners.iter().flat_map(|planned| planned.owners()) {
            run.world.apply(Object::Owner(owner));
        }
        for (number, planned) in plan.sequences.iter().enumerate() {
            run.world.apply(Object::Sequence(planned.sequence(number)));
        }
        for owner in run.world.truth.owners.values() {
            run.view.take_in(&Change::Applied(Object::Owner(owner.clone())));
        }
        run
    }

    fn happen(&mut self, happening: &Happening) {
        use Happening::*;
        match happening {
            CreatePod { pod, gated, exits } => self.create(*pod, *gated, *exits),
            ChangePod { pod, change } => self.change_pod(*pod, *change),
            Relabel { pod, app } => {
                if let Some(mut pod) = self.pod(*pod).filter(|pod| pod.owner.is_none()) {
                    pod.labels = build::labels(&format!("app=a{app}"));
                    self.apply_pod(pod);
                }
            }
            Scale { app, desired } => {
                if let Some(owner) = self.workload(*app) {
                    let desired = (*desired > 0).then(|| u32::from(*desired));
                    self.world.apply(Object::Owner(Owner { desired, ..owner }));
                }
            }
            Rollout { app } => self.rollout(*app),
            Stop { app, stopped } => {
                if let Some(owner) = self.workload(*app) {
                    self.world.apply(Object::Owner(Owner { stopped: *stopped, ..owner }));
                }
            }
            BeginAgain { which, word } => {
                self.edit(*which, |sequence| sequence.begin_again = Some(format!("start {word}").into()))
            }
            EditSequence { which, to } => self.edit(*which, |sequence| {
                sequence.generation += 1;
                sequence.spec = Ok(Arc::new(to.spec()));
            }),
            Suspend { which, suspend } => {
                self.edit(*which, |sequence| edit_spec(sequence, |spec| spec.suspend = *suspend))
            }
            OpenByHand { which, group } => self.edit(*which, |sequence| {
                let title = sequence.spec.as_ref().ok().and_then(|spec| spec.groups.get(*group as usize));
                let title = title.map(|group| group.title.clone());
                sequence.opened_by_hand.extend(title);
            }),
            DeleteSequence { which } => {
                if let Some(sequence) = self.sequence(*which) {
                    self.world.delete(Object::Sequence(sequence));
                }
            }
            Time { seconds } => self.world.now += SignedDuration::from_secs(i64::from(*seconds)),
            Restart => {
                self.world.restart();
                self.relisted();
            }
            Relist => {
                self.world.relist();
                self.relisted();
            }
            Tell { changes } => self.tell(*changes as usize),
            Redeliver { pod } => {
                let name = name_of(*pod);
                let old = self.past.iter().find(|old| *old.name == *name).cloned();
                if let Some(old) = old {
                    let change = Change::Applied(Object::Pod(old));
                    self.view.take_in(&change);
                    deliver(&mut self.world.index, change);
                }
            }
            Swap { at } => self.swap(*at as usize),
            Answers { lost } => {
                self.world.answers = if *lost { self::Answers::Lost } else { self::Answers::Prompt };
            }
        }
    }

    fn relisted(&mut self) {
        self.view = View::default();
        for object in self.world.truth.objects() {
            let told = Change::Applied(object);
            self.forget_if_begun_again(&told);
            self.view.take_in(&told);
        }
        self.decide();
    }

    /// Delivers some of the changes, and lets the controller decide and act.
    pub(super) fn tell(&mut self, changes: usize) {
        // Changes that result from its actions are delivered later, so that a `Tell` of everything ends.
        loop {
            let count = changes.min(self.world.untold.len());
            let told: Vec<Change> = self.world.untold.drain(..count).collect();
            for change in told {
                self.forget_if_begun_again(&change);
                self.view.take_in(&change);
                deliver(&mut self.world.index, change);
            }
            self.decide();
            if changes != usize::MAX || self.world.untold.is_empty() {
                return;
            }
        }
    }

    fn decide(&mut self) {
        let before = self.view.clone();
        let live: Vec<(Uid, Arc<Spec>)> = self.live();
        for (uid, spec) in &live {
            for (position, group) in spec.groups.iter().enumerate() {
                if before.condition(spec, position) {
                    self.held.insert((*uid, group.id.clone()));
                }
            }
        }
        self.world.settle();
        for released in self.world.take_done().released {
            self.released_in_order(&before, &live, released.by, released.pod);
            // The answer: the pod without its gate, or its deletion.
            let told = match self.world.index.cluster.pod(released.pod) {
                Some(pod) => Change::Applied(Object::Pod(pod.clone())),
                None => Change::Deleted(Object::Pod(before.pods[&released.pod].clone())),
            };
            self.view.take_in(&told);
        }
        self.counts_are_fresh();
        self.every_wait_has_a_reason();
    }

    /// Conditions that held before a new start do not count any more.
    fn forget_if_begun_again(&mut self, change: &Change) {
        let Change::Applied(Object::Sequence(sequence)) = change else { return };
        let Sequence { uid, version, begin_again, .. } = sequence;
        let (known, start) = self.starts.get(uid).cloned().unwrap_or_default();
        if known >= *version {
            return;
        }
        self.starts.insert(*uid, (*version, begin_again.clone()));
        if start != *begin_again {
            self.held.retain(|(of, _)| of != uid);
        }
    }

    fn live(&self) -> Vec<(Uid, Arc<Spec>)> {
        let live = self.world.index.sequences.iter().filter(|entry| !entry.ghost);
        live.filter_map(|entry| Some((entry.sequence.uid, entry.spec()?.clone()))).collect()
    }

    /// S1, checked independently: the groups that a group waits for meet, or have met, their condition.
    fn released_in_order(&self, view: &View, live: &[(Uid, Arc<Spec>)], by: Uid, pod: Uid) {
        let pod = view.pods.get(&pod).expect("only what was told is released");
        let Some((_, own)) = live.iter().find(|(uid, _)| *uid == by) else {
            assert!(!self.world.truth.sequences.contains_key(&by), "a ghost of what lives");
            return;
        };
        for (uid, spec) in live.iter().filter(|(_, spec)| spec.gate == own.gate) {
            let Some(position) = View::group_of(spec, pod) else { continue };
            let entry = self.world.index.sequences.get(*uid).expect("it lives");
            assert!(!spec.suspend, "{} released while suspended", pod.name);
            let group = &spec.groups[position];
            let bootstrap = spec.enforcement == Enforcement::Bootstrap;
            let been_complete = bootstrap && self.held.contains(&(*uid, group.id.clone()));
            if been_complete || entry.sequence.opened_by_hand.contains(&group.title) {
                continue;
            }
            for earlier in &group.after {
                let waited_for = &spec.groups[*earlier];
                let passed_by = waited_for.timeout.is_some() && waited_for.on_timeout == OnTimeout::Continue;
                let had_it = bootstrap && self.held.contains(&(*uid, waited_for.id.clone()));
                assert!(
                    passed_by || had_it || view.condition(spec, *earlier),
                    "{} of {} released before {}",
                    pod.name,
                    group.title,
                    waited_for.title
                );
            }
        }
    }

    /// Incremental counts equal those of an index that is built from the same facts at once.
    fn counts_are_fresh(&self) {
        let mut fresh = Index::default();
        let kept = &self.world.index;
        let sequences =
            kept.sequences.iter().filter(|entry| !entry.ghost).map(|entry| entry.sequence.clone());
        let pods = self.view.pods.values().cloned().map(Object::Pod);
        let owners = self.view.owners.values().cloned().map(Object::Owner);
        let objects: Vec<Object> = sequences.map(Object::Sequence).chain(pods).chain(owners).collect();
        list_all(&mut fresh, &objects, self.world.version);
        for (uid, gate) in self.world.in_flight.iter().filter(|(uid, _)| kept.cluster.is_writing_pod(**uid)) {
            release_sent(&mut fresh, *uid, gate);
        }
        for (uid, spec) in self.live() {
            let (kept, fresh) =
                (kept.sequences.get(uid).expect("lives"), fresh.sequences.get(uid).expect("applied"));
            for position in 0..spec.groups.len() {
                let (kept_cell, fresh_cell) = (kept.cell(position), fresh.cell(position));
                assert_eq!(
                    format!("{kept_cell:?}"),
                    format!("{fresh_cell:?}"),
                    "{:?}",
                    spec.groups[position]
                );
                assert_eq!(kept.in_earlier_group(position), fresh.in_earlier_group(position));
            }
        }
    }

    fn every_wait_has_a_reason(&self) {
        let index = &self.world.index;
        for entry in index.sequences.iter().filter(|entry| !entry.ghost) {
            let Some(spec) = entry.spec().filter(|spec| !spec.suspend) else { continue };
            let evaluation = evaluate(index.facts(), entry, self.world.now);
            for (position, view) in evaluation.groups.iter().enumerate() {
                if view.complete || !view.open {
                    continue;
                }
                let busy = self.world.in_flight.keys().any(|uid| index.cluster.is_writing_pod(*uid));
                let reasons = blocked::of_open_group(index.facts(), entry, spec, position, &evaluation, 5);
                assert!(busy || !reasons.is_empty(), "{:?} waits for nothing", spec.groups[position]);
            }
        }
    }
}

pub(super) fn edit_spec(sequence: &mut Sequence, change: impl FnOnce(&mut Spec)) {
    if let Ok(spec) = &mut sequence.spec {
        sequence.generation += 1;
        change(Arc::make_mut(spec));
    }
}

/// Returns the name of a pod. Pods that groups name have no owner; the others may belong to the workload of their app.
fn name_of(pod: u8) -> String {
    if pod < 16 { format!("p{pod}") } else { format!("x{pod}") }
}

// Events in the cluster.
impl Run {
    pub(super) fn sequence(&self, which: u8) -> Option<Sequence> {
        let name = format!("s{which}");
        self.world.truth.sequences.values().find(|sequence| *sequence.name == *name).cloned()
    }

    pub(super) fn edit(&mut self, which: u8, change: impl FnOnce(&mut Sequence)) {
        if let Some(mut sequence) = self.sequence(which) {
            change(&mut sequence);
            self.world.apply(Object::Sequence(sequence));
        }
    }

    fn pod(&self, pod: u8) -> Option<Pod> {
        self.world.pod_named(HOME, &name_of(pod)).cloned()
    }

    pub(super) fn apply_pod(&mut self, pod: Pod) {
        let finished = pod.owner.filter(|owner| owner.kind == OwnerKind::Job);
        self.past.extend(self.world.truth.pods.get(&pod.uid).cloned());
        self.world.apply(Object::Pod(pod));
        if let Some(job) = finished {
            self.count_job(job.uid);
        }
    }

    fn count_job(&mut self, uid: Uid) {
        let Some(mut owner) = self.world.truth.owners.get(&uid).cloned() else { return };
        let Some(job) = &mut owner.job else { return };
        let of_job =
            self.world.truth.pods.values().filter(|pod| pod.owner.is_some_and(|owner| owner.uid == uid));
        job.succeeded = of_job.filter(|pod| pod.phase == PodPhase::Succeeded).count() as u32;
        job.complete |= job.completions.is_some_and(|completions| job.succeeded >= completions);
        self.world.apply(Object::Owner(owner));
    }

    fn workload(&self, app: u8) -> Option<Owner> {
        let name = format!("w{app}");
        self.world.truth.owners.values().find(|owner| *owner.name == *name).cloned()
    }

    /// Returns the object that creates the pods of a workload: itself, or the newest ReplicaSet of a Deployment.
    pub(super) fn maker(&self, workload: &Owner) -> Owner {
        let newest = self.world.truth.owners.values().find(|owner| {
            owner.parent.is_some_and(|parent| parent.uid == workload.uid)
                && owner.revision == workload.revision
        });
        newest.unwrap_or(workload).clone()
    }

    fn rollout(&mut self, app: u8) {
        let Some(deployment) = self.workload(app).filter(|owner| owner.kind == OwnerKind::Deployment) else {
            return;
        };
        let revision =
            deployment.revision.as_ref().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0) + 1;
        let revision: Arc<str> = revision.to_string().into();
        let name = format!("{}-{revision}", deployment.name);
        let mut next = build::owner(OwnerKind::ReplicaSet, HOME, &name, &format!("app=a{app}"), 1);
        next.parent = Some(build::owner_ref(OwnerKind::Deployment, HOME, &deployment.name));
        next.revision = Some(revision.clone());
        self.world.apply(Object::Owner(next));
        self.world.apply(Object::Owner(Owner { revision: Some(revision), ..deployment }));
    }

    fn create(&mut self, number: u8, gated: bool, exits: bool) {
        let name = name_of(number);
        if self.world.pod_named(HOME, &name).is_none() {
            let app = number % APPS;
            let maker =
                (number >= 16).then(|| self.workload(app)).flatten().map(|workload| self.maker(&workload));
            self.create_named(&name, app, maker, gated, exits);
        }
    }

    pub(super) fn create_named(
        &mut self,
        name: &str,
        app: u8,
        maker: Option<Owner>,
        gated: bool,
        exits: bool,
    ) {
        self.created += 1;
        let uid = format!("{name} {}", self.created);
        let mut pod = build::pod(HOME, name, &uid, &format!("app=a{app}"), self.world.now);
        pod.gates = if gated { vec![build::GATE.into(), "second".into()] } else { Vec::new() };
        pod.owner =
            maker.as_ref().map(|maker| rollcall_core::facts::OwnerRef { kind: maker.kind, uid: maker.uid });
        pod.runs_to_completion = exits || maker.is_some_and(|maker| maker.kind == OwnerKind::Job);
        self.apply_pod(pod);
    }

    fn change_pod(&mut self, number: u8, change: PodChange) {
        let Some(mut pod) = self.pod(number) else { return };
        pod.since = self.world.now;
        // A foreign gate may also hold it.
        let free = pod.gates.is_empty();
        match change {
            PodChange::Ready if free && pod.phase != PodPhase::Failed => {
                (pod.phase, pod.started, pod.ready) = (PodPhase::Running, true, true);
                pod.node = Some("node-1".into());
            }
            PodChange::Started if free && pod.phase == PodPhase::Pending => {
                (pod.phase, pod.started, pod.node) = (PodPhase::Running, true, Some("node-1".into()));
            }
            PodChange::NotReady => pod.ready = false,
            PodChange::Succeeded if free && pod.runs_to_completion => {
                (pod.phase, pod.ready, pod.node) = (PodPhase::Succeeded, false, Some("node-1".into()));
            }
            PodChange::Failed if free && pod.runs_to_completion => {
                (pod.phase, pod.ready) = (PodPhase::Failed, false);
            }
            PodChange::Terminating => pod.terminating = true,
            PodChange::Deleted => return self.world.delete(Object::Pod(pod)),
            PodChange::ForeignGateRemoved => pod.gates.retain(|gate| **gate != *"second"),
            PodChange::Recreated => {
                let (name, owner) = (pod.name.clone(), pod.owner);
                let maker = owner.and_then(|owner| self.world.truth.owners.get(&owner.uid)).cloned();
                self.world.delete(Object::Pod(pod));
                return self.create_named(&name, number % APPS, maker, true, false);
            }
            PodChange::Ready | PodChange::Started | PodChange::Succeeded | PodChange::Failed => return,
        }
        self.apply_pod(pod);
    }

    fn swap(&mut self, at: usize) {
        let untold = &mut self.world.untold;
        if at + 1 < untold.len() && subject(&untold[at]) != subject(&untold[at + 1]) {
            untold.swap(at, at + 1);
        }
    }
}

fn subject(change: &Change) -> String {
    let (Change::Applied(object) | Change::Deleted(object)) = change;
    format!("{:?}", object.listed())
}
