//! The checker can fail: wrong decisions, one for each invariant.

use crate::support::{
    build::{self, GATE, HOME, at},
    world::{World, release_sent},
};
use rollcall_core::{
    Uid,
    decision::{Action, Decision, DropGate, PodPatch, Violation},
    dispatch::{check, decide},
    facts::NodeConstraints,
    facts::{Namespace, PodPhase},
    index::Object,
    key::Key,
    sequence::Spec,
};
use std::time::Duration;

/// Two groups of one pod each, `a` and `b`, and a correct decision about them.
struct Scene {
    world: World,
    sequence: Uid,
}

impl Scene {
    fn new(edit: impl FnOnce(&mut Spec)) -> Scene {
        Scene::in_namespace(HOME, edit)
    }

    fn in_namespace(home: &str, edit: impl FnOnce(&mut Spec)) -> Scene {
        let groups = [("first", "a"), ("second", "b")].into_iter().enumerate();
        let groups = groups.map(|(at, (title, pod))| build::group(at, Some(title), build::names(&[pod])));
        let mut spec = build::spec(groups.collect());
        edit(&mut spec);
        let mut world = World::new();
        let sequence = build::sequence(home, "app", spec);
        let uid = sequence.uid;
        world.apply(Object::Sequence(sequence));
        for name in ["a", "b"] {
            world.apply(Object::Pod(build::pod(HOME, name, name, "", world.now)));
        }
        Scene { world, sequence: uid }
    }

    fn ready(&mut self, name: &str) {
        let mut pod = self.world.pod_named(HOME, name).expect("it exists").clone();
        pod.gates.clear();
        (pod.phase, pod.ready, pod.node) = (PodPhase::Running, true, Some("node-1".into()));
        self.world.apply(Object::Pod(pod));
    }

    fn violations(&self, actions: Vec<Action>) -> Vec<Violation> {
        let mut decision = Decision { actions, ..self.nothing() };
        decision.report = None;
        check(&self.world.index, Key::Sequence(self.sequence), &decision, self.world.now)
    }

    fn nothing(&self) -> Decision {
        let stranger = Uid::digest("nobody");
        let settings = self.world.settings;
        decide(&self.world.index, Key::Sequence(stranger), settings, self.world.now, 0)
    }

    fn assert_violated(&self, invariant: &str, part: &str, actions: Vec<Action>) {
        let found = self.violations(actions);
        let named =
            |violation: &&Violation| violation.invariant == invariant && violation.detail.contains(part);
        assert!(found.iter().any(|violation| named(&violation)), "{invariant} {part}: {found:?}");
    }
}

fn release(pod: &str) -> Action {
    release_of(pod, pod, HOME, GATE)
}

fn release_of(uid: &str, name: &str, namespace: &str, gate: &str) -> Action {
    Action::PatchPod(PodPatch {
        uid: Uid::digest(uid),
        namespace: namespace.into(),
        name: name.into(),
        drop_gate: Some(DropGate { name: gate.into(), place: Some(0) }),
        avoid: Vec::new(),
        tolerate: Vec::new(),
        constraints: NodeConstraints::default(),
        annotations: Vec::new(),
    })
}

#[test]
fn a_right_decision_is_not_complained_about() {
    let mut scene = Scene::new(|_| {});
    assert_eq!(scene.violations(vec![release("a")]), []);
    scene.ready("a");
    assert_eq!(scene.violations(vec![release("b")]), []);
}

/// A pod that has arrived counts as arrived unless its gate is still being removed.
#[test]
fn another_write_to_a_member_changes_nothing() {
    let mut scene = Scene::new(|_| {});
    scene.ready("a");
    let a = PodPatch::new(Uid::digest("a"), HOME.into(), "a".into());
    scene.world.index.pod_write_sent(&a.target(), a.effect());
    assert_eq!(scene.violations(vec![release("b")]), []);
}

#[test]
fn a_group_released_too_early() {
    let scene = Scene::new(|_| {});
    scene.assert_violated(
        "S1",
        "\"second\" is released before \"first\": 0 of 1 pods arrived",
        vec![release("b")],
    );
}

#[test]
fn a_wait_that_is_not_over() {
    let mut scene = Scene::new(|spec| spec.groups[0].wait = Duration::from_secs(30));
    scene.ready("a");
    scene.world.settle();
    scene.world.now = at(29);
    scene.assert_violated("S1", "its waitDuration has not elapsed", vec![release("b")]);
    scene.world.now = at(30);
    assert_eq!(scene.violations(vec![release("b")]), []);
}

#[test]
fn a_suspended_sequence() {
    let scene = Scene::new(|spec| spec.suspend = true);
    scene.assert_violated("S1", "suspended", vec![release("a")]);
}

#[test]
fn another_uid_another_name_another_namespace() {
    let scene = Scene::new(|_| {});
    scene.assert_violated("S7", "does not have the uid", vec![release_of("someone", "a", HOME, GATE)]);
    scene.assert_violated("S7", "does not have the uid", vec![release_of("a", "b", HOME, GATE)]);
    scene.assert_violated("S7", "does not have the uid", vec![release_of("a", "a", "elsewhere", GATE)]);
}

#[test]
fn another_gate() {
    let scene = Scene::new(|_| {});
    scene.assert_violated("S2", "not the gate of the sequence", vec![release_of("a", "a", HOME, "foreign")]);
}

#[test]
fn twice() {
    let mut scene = Scene::new(|_| {});
    scene.assert_violated("S7", "twice", vec![release("a"), release("a")]);
    release_sent(&mut scene.world.index, Uid::digest("a"), GATE);
    scene.assert_violated("S7", "in flight", vec![release("a")]);
}

#[test]
fn a_namespace_that_does_not_permit_it() {
    let mut scene = Scene::in_namespace("ops", |_| {});
    scene.assert_violated("S6", "shop does not permit ops", vec![release("a")]);
    let allow_from = Some("ops".into());
    scene.world.apply(Object::Namespace(Namespace {
        name: HOME.into(),
        version: 0,
        allow_from,
        allow_node_taints: false,
    }));
    assert_eq!(scene.violations(vec![release("a")]), []);
}

#[test]
fn a_pod_of_no_group() {
    let mut scene = Scene::new(|_| {});
    scene.world.apply(Object::Pod(build::pod(HOME, "stranger", "stranger", "", at(0))));
    scene.assert_violated("S1", "belongs to no group", vec![release("stranger")]);
}

#[test]
fn a_pod_that_another_sequence_holds() {
    let mut scene = Scene::new(|_| {});
    let groups = vec![
        build::group(0, Some("never"), build::names(&["never"])),
        build::group(1, Some("then"), build::names(&["a"])),
    ];
    scene.world.apply(Object::Sequence(build::sequence(HOME, "other", build::spec(groups))));
    scene.assert_violated("S1", "\"then\" is released before \"never\"", vec![release("a")]);
}
