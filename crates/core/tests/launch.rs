//! The start order of containers, tested with a small model of a cluster. It has an API server with one pod and its ConfigMap,
//! and a kubelet that starts a container when its key exists.

use crate::support::build;
use jiff::SignedDuration;
use proptest::prelude::*;
use rollcall_core::decision::{Action, BarrierWrite, Decision, ToBarrier};
use rollcall_core::dispatch::{check, decide, keep};
use rollcall_core::facts::{Pod, PodPhase};
use rollcall_core::gates::LAUNCH;
use rollcall_core::index::{Answer, Index, Object};
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::launch::facts::{Launch, LaunchContainer};
use rollcall_core::launch::index::{BarrierOwner, SeenBarrier};
use rollcall_core::launch::ranks::{Priority, Spelling};
use rollcall_core::launch::{COMPLETED, NUDGE, RANK, explain};
use rollcall_core::{Timestamp, Uid};
use std::collections::BTreeSet;

/// A ConfigMap of the model.
#[derive(Clone, Debug)]
struct ConfigMap {
    uid: Uid,
    owner: BarrierOwner,
    keys: BTreeSet<String>,
}

struct Scene {
    index: Index,
    /// The pod in the API server.
    pod: Pod,
    config_map: Option<ConfigMap>,
    now: Timestamp,
    version: u64,
    writes: Vec<String>,
    /// The containers that were started, in order.
    begun: Vec<usize>,
    /// Containers that have passed their condition at least once.
    passed: BTreeSet<usize>,
    wake_at: Option<Timestamp>,
    /// Whether the kubelet has synchronised the pod since it last changed.
    fetched: bool,
}

impl Scene {
    fn new(priorities: &[Priority], gated: bool) -> Scene {
        let mut pod = build::pod("shop", "web", "web", "", build::start());
        pod.gates = if gated { vec![LAUNCH.into()] } else { Vec::new() };
        let container = |(place, priority): (usize, &Priority)| LaunchContainer {
            name: format!("c{place}").into(),
            spelling: Spelling::Proposed,
            priority: *priority,
            passed: false,
            waits_for_key: false,
            trouble: None,
            since: None,
        };
        let containers = priorities.iter().enumerate().map(container).collect();
        pod.launch = Launch { containers, ..Launch::default() }.kept();
        let mut scene = Scene {
            index: Index::of_full_mode(),
            pod,
            config_map: None,
            now: build::start(),
            version: 1,
            writes: Vec::new(),
            begun: Vec::new(),
            passed: BTreeSet::new(),
            wake_at: None,
            fetched: false,
        };
        scene.restart();
        scene
    }

    /// Starts a new controller, which lists everything.
    fn restart(&mut self) {
        self.index = Index::of_full_mode();
        for kind in Kind::of_mode(true) {
            self.index.list_begins(kind, self.version);
            self.index.list_ended(kind, &BTreeSet::new());
        }
        self.tell();
    }

    fn tell(&mut self) {
        self.version += 1;
        self.pod.version = self.version;
        self.index.apply(Object::Pod(self.pod.clone()));
    }

    fn launch(&mut self) -> &mut Launch {
        self.pod.launch.as_deref_mut().expect("it is ordered")
    }

    fn decide(&mut self) -> Decision {
        let key = Key::Launch(self.pod.uid);
        let decision = decide(&self.index, key, Default::default(), self.now, 8);
        assert_eq!(check(&self.index, key, &decision, self.now), [], "{decision:?}");
        keep(&mut self.index, key, decision.keep.clone());
        self.wake_at = decision.wake_at;
        decision
    }

    /// Makes one decision and carries it out; returns whether it contained any actions.
    fn step(&mut self) -> bool {
        let decision = self.decide();
        let acted = !decision.actions.is_empty();
        for action in decision.actions {
            self.carry_out(action);
        }
        acted
    }

    fn settle(&mut self) {
        for _ in 0..100 {
            if !self.step() {
                return;
            }
        }
        panic!("it never ends: {:?}", self.writes);
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::PatchPod(patch) => {
                assert_eq!(patch.uid, self.pod.uid);
                self.index.pod_write_sent(&patch.target(), patch.effect());
                if let Some(gate) = &patch.drop_gate {
                    self.writes.push("gate".into());
                    self.pod.gates.retain(|held| *held != gate.name);
                }
                for (key, value) in &patch.annotations {
                    self.writes.push(format!("{} {value}", key.rsplit('/').next().unwrap_or_default()));
                    let launch = self.launch();
                    match *key {
                        RANK => launch.rank = value.parse().ok(),
                        NUDGE => launch.nudges = value.parse().expect("a number"),
                        COMPLETED => launch.completed = value == "true",
                        other => panic!("{other}"),
                    }
                }
                self.fetched = false;
                self.version += 1;
                self.pod.version = self.version;
                self.index.pod_write_answered(self.pod.uid, Answer::Done(Box::new(self.pod.clone())));
            }
            Action::WriteBarrier(write) => self.write_barrier(&write),
            other => panic!("{other:?}"),
        }
    }

    fn write_barrier(&mut self, write: &BarrierWrite) {
        let (pod, ours) = (write.pod, BarrierOwner::Pod(write.pod));
        match (&write.to, &mut self.config_map) {
            (ToBarrier::Look, _) => {}
            (ToBarrier::Create { keys }, None) => {
                self.writes.push(format!("create {}", keys.join(" ")));
                let uid = Uid::digest(&format!("map {}", self.version));
                self.config_map = Some(ConfigMap { uid, owner: ours, keys: keys.iter().cloned().collect() });
            }
            (ToBarrier::AddKeys { keys, .. }, Some(there)) if there.owner == ours => {
                self.writes.push(format!("key {}", keys.join(" ")));
                there.keys.extend(keys.iter().cloned());
            }
            (ToBarrier::Delete { config_map }, Some(there)) if there.uid == *config_map => {
                self.writes.push("delete".into());
                self.config_map = None;
            }
            (ToBarrier::Create { .. } | ToBarrier::AddKeys { .. } | ToBarrier::Delete { .. }, _) => {
                return self.index.barrier_lost(pod);
            }
        }
        match &self.config_map {
            Some(ConfigMap { uid, owner, keys }) => {
                let (uid, owner, keys) = (*uid, owner.clone(), keys.clone());
                let has_no_data = keys.is_empty();
                self.index.apply(Object::Barrier(SeenBarrier {
                    pod,
                    uid,
                    version: self.version,
                    owner,
                    keys,
                    has_no_data,
                }));
            }
            None => self.index.barrier_absent(pod),
        }
    }

    /// Runs the kubelet: it starts the containers whose keys exist.
    fn kubelet(&mut self) {
        if !self.pod.gates.is_empty() {
            return;
        }
        let keys = self.config_map.as_ref().map(|there| there.keys.clone()).unwrap_or_default();
        let mut begun = Vec::new();
        for (place, container) in self.launch().containers.iter_mut().enumerate() {
            container.waits_for_key = !keys.contains(&container.spelling.key(container.priority));
            if !container.waits_for_key {
                begun.push((place, container.priority));
            }
        }
        for (place, priority) in begun {
            if !self.begun.contains(&place) {
                // S5: every container with a higher priority has passed at least once.
                let above = self.pod.launch.as_ref().expect("it is ordered").containers.iter().enumerate();
                for (other, container) in above.filter(|(_, container)| container.priority > priority) {
                    assert!(self.passed.contains(&other), "c{place} begins before {}", container.name);
                }
                self.begun.push(place);
            }
        }
        self.fetched = true;
        self.pod.phase = PodPhase::Running;
        self.pod.node = Some("a".into());
        self.tell();
    }

    fn ready(&mut self, place: usize, is: bool) {
        if self.begun.contains(&place) {
            self.launch().containers[place].passed = is;
            self.passed.extend(is.then_some(place));
            self.tell();
        }
    }

    fn after(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn lines(&self) -> Vec<String> {
        let line = explain::explain(self.index.launch_facts(), &self.pod, self.now);
        let all = |line: rollcall_core::line::Line| {
            std::iter::once(line.text).chain(line.below.into_iter().map(|below| below.text)).collect()
        };
        line.map(all).unwrap_or_default()
    }
}

#[test]
fn ranks_start_one_after_the_other_in_two_writes_each() {
    let mut scene = Scene::new(&[0, 10, 5], true);
    scene.settle();
    assert_eq!(scene.writes, ["create c_10", "gate"]);
    scene.kubelet();
    scene.settle();
    assert_eq!(
        scene.lines(),
        [
            "web starts its containers in order: 0 of 3 ranks are ready",
            "rank 10 (c1) has not been ready for 0s: c1: not started yet",
            "rank 5 (c2) waits for c1",
            "rank 0 (c0) waits for c1",
        ]
    );
    scene.ready(1, true);
    scene.settle();
    scene.kubelet();
    scene.ready(2, true);
    scene.settle();
    scene.kubelet();
    let ranks =
        ["key c_5", "launch-rank 5", "key c_0", "launch-rank 0", "container-launch-priority-completed true"];
    assert_eq!(scene.writes[2..], ranks);
    assert_eq!(scene.begun, [1, 2, 0]);
    scene.ready(0, true);
    scene.settle();
    assert_eq!((scene.writes.len(), scene.lines().len()), (7, 0));
}

#[test]
fn a_rank_waits_for_all_of_its_containers_and_forgets_none_that_was_ready() {
    let mut scene = Scene::new(&[1, 1, 0], true);
    scene.settle();
    scene.kubelet();
    scene.ready(0, true);
    scene.settle();
    scene.ready(0, false);
    scene.ready(1, true);
    scene.settle();
    assert_eq!(scene.writes.last().map(String::as_str), Some("container-launch-priority-completed true"));
}

#[test]
fn after_a_restart_the_current_rank_must_be_ready_again_and_those_above_not() {
    let mut scene = Scene::new(&[2, 1, 0], true);
    scene.settle();
    scene.kubelet();
    scene.ready(0, true);
    scene.settle();
    scene.kubelet();
    scene.ready(1, true);
    scene.ready(0, false);
    scene.ready(1, false);
    scene.restart();
    let before = scene.writes.len();
    scene.settle();
    assert_eq!(scene.writes.len(), before, "rank 1 is not ready");
    scene.ready(1, true);
    scene.settle();
    assert_eq!(scene.writes.last().map(String::as_str), Some("container-launch-priority-completed true"));
}

#[test]
fn a_kubelet_that_does_not_look_is_told_three_times() {
    let mut scene = Scene::new(&[1, 0], true);
    scene.settle();
    scene.kubelet();
    scene.ready(0, true);
    scene.settle();
    // The status that the kubelet wrote before it was notified.
    scene.launch().containers[1].waits_for_key = true;
    scene.tell();
    scene.settle();
    let mut nudged = Vec::new();
    for second in 0..60 {
        let before = scene.writes.len();
        scene.settle();
        nudged.extend(scene.writes[before..].iter().map(|write| format!("{second}s {write}")));
        scene.after(1);
    }
    assert_eq!(nudged, ["2s launch-nudge 1", "10s launch-nudge 2", "30s launch-nudge 3"]);
}

#[test]
fn a_pod_without_a_gate_is_served_and_its_kubelet_told_of_the_first_key() {
    let mut scene = Scene::new(&[1, 0], false);
    scene.kubelet();
    scene.settle();
    assert_eq!(scene.writes, ["create c_1", "launch-rank 1"]);
    scene.kubelet();
    scene.ready(0, true);
    scene.settle();
    assert_eq!(scene.writes[2..], ["key c_0", "launch-rank 0", "container-launch-priority-completed true"]);
}

#[test]
fn the_config_map_of_a_namesake_is_replaced_and_that_of_others_is_not() {
    let dead = ConfigMap {
        uid: Uid::digest("old map"),
        owner: BarrierOwner::Pod(Uid::digest("old web")),
        keys: ["c_0".into(), "c_1".into()].into(),
    };
    let mut scene = Scene::new(&[1, 0], true);
    scene.config_map = Some(dead.clone());
    scene.settle();
    assert_eq!(scene.writes, ["delete", "create c_1", "gate"]);

    for (owner, whose) in
        [(BarrierOwner::Nobody, "no pod"), (BarrierOwner::Other("a Deployment".into()), "a Deployment")]
    {
        let mut scene = Scene::new(&[1, 0], true);
        scene.config_map = Some(ConfigMap { owner, ..dead.clone() });
        scene.step();
        let decision = { scene.settle_but_last() };
        let event = decision.events.first().expect("somebody is told");
        assert_eq!(event.reason, "BarrierTaken");
        assert!(
            scene.writes.is_empty() && scene.decide().events.is_empty(),
            "told once, and nothing is touched"
        );
        assert_eq!(
            scene.lines()[0],
            format!("web is held: the ConfigMap web-barrier already exists and belongs to {whose}")
        );
        scene.config_map = None;
        scene.after(31);
        scene.settle();
        assert_eq!(scene.writes, ["create c_1", "gate"], "looked at again");
    }
}

impl Scene {
    /// Runs until a decision contains no actions; returns that decision.
    fn settle_but_last(&mut self) -> Decision {
        loop {
            let decision = self.decide();
            if decision.actions.is_empty() {
                return decision;
            }
            decision.actions.into_iter().for_each(|action| self.carry_out(action));
        }
    }
}

/// A backup tool restores annotations too, but these describe the progress of a different pod.
#[test]
fn a_copied_pod_begins_at_the_beginning() {
    let mut scene = Scene::new(&[1, 0], true);
    scene.launch().copied = true;
    scene.tell();
    scene.settle();
    let begin = ["create c_1", "gate", "launch-rank 1", "container-launch-priority-completed false"];
    assert_eq!(scene.writes, begin);
}

/// A foreign actor created the ConfigMap for this pod, or removed a key.
#[test]
fn keys_that_are_missing_are_written() {
    let mut scene = Scene::new(&[1, 0], false);
    let (uid, owner) = (Uid::digest("map"), BarrierOwner::Pod(scene.pod.uid));
    scene.config_map = Some(ConfigMap { uid, owner, keys: BTreeSet::new() });
    scene.kubelet();
    scene.settle();
    assert_eq!(scene.writes, ["key c_1", "launch-rank 1"]);
    scene.kubelet();
    scene.ready(0, true);
    scene.settle();
    scene.kubelet();
    scene.config_map.as_mut().expect("it is there").keys.clear();
    scene.kubelet();
    scene.after(3);
    scene.settle();
    assert_eq!(scene.writes.last().map(String::as_str), Some("key c_1 c_0"), "{:?}", scene.writes);
}

/// When a pod of the same name is created, a write to the ConfigMap of the previous pod may still be in flight.
#[test]
fn a_write_for_a_namesake_holds_nobody_up() {
    let mut scene = Scene::new(&[1, 0], true);
    let decision = scene.decide();
    let [Action::WriteBarrier(write)] = &decision.actions[..] else { panic!("{decision:?}") };
    scene.index.cluster.in_flight.begin(&write.target, Default::default());
    assert!(scene.decide().actions.is_empty(), "not twice");
    scene.index.delete(Object::Pod(scene.pod.clone()));
    scene.pod.uid = Uid::digest("the next one");
    scene.tell();
    scene.settle();
    assert_eq!(scene.writes, ["create c_1", "gate"]);
}

/// A foreign actor removes the annotation immediately after each write.
#[test]
fn who_is_undone_does_not_answer_at_once_for_ever() {
    let mut scene = Scene::new(&[1, 0], true);
    scene.settle();
    scene.kubelet();
    scene.ready(0, true);
    for _ in 0..600 {
        scene.step();
        scene.launch().rank = None;
        scene.tell();
        scene.after(1);
    }
    let announced = scene.writes.iter().filter(|write| write.starts_with("launch-rank")).count();
    assert!((3..15).contains(&announced), "{announced} times in ten minutes");
}

#[test]
fn who_ends_or_is_over_gets_nothing() {
    let mut scene = Scene::new(&[1, 0], true);
    scene.pod.terminating = true;
    scene.tell();
    assert!(!scene.step());
    scene.pod.terminating = false;
    scene.pod.phase = PodPhase::Succeeded;
    scene.tell();
    assert!(!scene.step() && scene.lines().is_empty());
}

#[derive(Clone, Debug)]
enum Happens {
    Decide,
    Kubelet,
    Ready(usize, bool),
    Restart,
    Seconds(i64),
    ConfigMapGone,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => Just(Happens::Decide),
        4 => Just(Happens::Kubelet),
        6 => (0..4usize, any::<bool>()).prop_map(|(place, is)| Happens::Ready(place, is)),
        1 => Just(Happens::Restart),
        1 => (1..20i64).prop_map(Happens::Seconds),
        1 => Just(Happens::ConfigMapGone),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// In all cases, a container starts only after all containers of higher priority have passed, and finally all have started.
    #[test]
    fn order_holds_whatever_happens(
        priorities in proptest::collection::vec(-2..3i32, 2..5),
        gated in any::<bool>(),
        events in proptest::collection::vec(happens(), 0..60),
    ) {
        let mut scene = Scene::new(&priorities, gated);
        for event in events {
            match event {
                Happens::Decide => drop(scene.step()),
                Happens::Kubelet => scene.kubelet(),
                Happens::Ready(place, is) if place < priorities.len() => scene.ready(place, is),
                Happens::Ready(..) => {}
                Happens::Restart => scene.restart(),
                Happens::Seconds(seconds) => scene.after(seconds),
                // A foreign actor deletes the ConfigMap.
                Happens::ConfigMapGone => scene.config_map = None,
            }
        }
        for _ in 0..40 {
            scene.settle();
            scene.kubelet();
            (0..priorities.len()).for_each(|place| scene.ready(place, true));
            scene.after(5);
        }
        prop_assert_eq!(scene.begun.len(), priorities.len(), "{:?}", scene.writes);
        prop_assert!(scene.launch().completed);
    }
}
