//! The status reports rejections by the API server for as long as they continue.

use crate::support::build::{HOME, at, group, names, node, pod, selector, sequence, spec};
use crate::support::world::{World, status_of};
use rollcall_core::cluster::Refusal;
use rollcall_core::decision::{Action, Decision};
use rollcall_core::dispatch::{decide, explain_pod};
use rollcall_core::index::{Answer, Object};
use rollcall_core::key::Key;
use rollcall_core::sequence::Reason;
use rollcall_core::sequence::spec::{Members, Scope, Spec};
use rollcall_core::sequence::status::BlockedBy;

const NO: &str = "pods is forbidden: the controller may not remove the gate";

fn decided(world: &World) -> Decision {
    let uid = *world.truth.sequences.keys().next().expect("there is one");
    decide(&world.index, Key::Sequence(uid), world.settings, world.now, world.budget)
}

fn blocked_by(decision: &Decision) -> &[BlockedBy] {
    &status_of(decision).expect("it lives").blocked_by
}

/// Sends the only release of a decision, and delivers its answer.
fn release(world: &mut World, answer: impl FnOnce(rollcall_core::facts::Pod) -> Answer) -> String {
    let decision = decided(world);
    let [Action::PatchPod(patch)] = &decision.actions[..] else { panic!("{:?}", decision.actions) };
    world.index.pod_write_sent(&patch.target(), patch.effect());
    let held = world.truth.pods[&patch.uid].clone();
    world.index.pod_write_answered(patch.uid, answer(held));
    patch.name.to_string()
}

/// A group of two pods, without notes, and one release at a time.
fn world() -> World {
    let mut world = World::new();
    world.settings.notes = false;
    world.budget = 1;
    let groups = vec![group(0, Some("db"), names(&["db-0", "db-1"]))];
    world.apply(Object::Sequence(sequence(HOME, "app", spec(groups))));
    for name in ["db-0", "db-1"] {
        world.apply(Object::Pod(pod(HOME, name, name, "", world.now)));
    }
    world
}

#[test]
fn a_release_that_is_forbidden_is_said_until_it_succeeds() {
    let mut world = world();
    let refuse = |seconds| move |_| Answer::Refused(Refusal::new(true, NO, at(seconds)));
    assert_eq!(release(&mut world, refuse(1)), "db-0");
    // A pod that can be released does not wait for one that cannot.
    assert_eq!(release(&mut world, refuse(2)), "db-1");
    assert_eq!(release(&mut world, refuse(3)), "db-0");
    let decision = decided(&world);
    let said: Vec<_> = blocked_by(&decision)
        .iter()
        .map(|by| (by.blocker.reason.code(), by.blocker.reason.blamed(), by.blocker.since))
        .collect();
    let expected = [("db-0", at(1)), ("db-1", at(2))];
    assert_eq!(said, expected.map(|(pod, since)| ("ReleaseForbidden", Some(pod), Some(since))));
    let message = &status_of(&decision).expect("it lives").message;
    assert_eq!(*message, format!("\"db\": 0 of 2 pods arrived; db-0 cannot be released: {NO}"));
    let held = world.index.cluster.pod_named(HOME, "db-0").expect("it is there");
    assert_eq!(explain_pod(&world.index, held, at(9)).below[0].code, "ReleaseForbidden");

    // It is still reported while the write is retried.
    let Action::PatchPod(patch) = &decision.actions[0] else { panic!("{:?}", decision.actions) };
    world.index.pod_write_sent(&patch.target(), patch.effect());
    assert_eq!(blocked_by(&decided(&world))[0].blocker.reason.code(), "ReleaseForbidden");

    let mut free = world.truth.pods[&patch.uid].clone();
    (free.gates, free.version) = (Vec::new(), world.next_version());
    world.index.pod_write_answered(patch.uid, Answer::Done(Box::new(free)));
    let codes: Vec<_> = blocked_by(&decided(&world)).iter().map(|by| by.blocker.reason.code()).collect();
    assert_eq!(codes, ["ReleaseForbidden", "NotStarted"], "the one of db-1, and db-0 starts");
}

#[test]
fn what_others_have_done_meanwhile_is_not_refused() {
    let mut world = world();
    let freed = |world: &mut World, uid| {
        let mut free = world.truth.pods[&uid].clone();
        free.gates = Vec::new();
        world.apply(Object::Pod(free));
    };
    // The watch shows the removal before the answer arrives.
    let decision = decided(&world);
    let [Action::PatchPod(patch)] = &decision.actions[..] else { panic!("{:?}", decision.actions) };
    world.index.pod_write_sent(&patch.target(), patch.effect());
    freed(&mut world, patch.uid);
    world.index.pod_write_answered(patch.uid, Answer::Refused(Refusal::new(false, NO, at(1))));
    assert!(!world.index.cluster.in_flight.has_refusals());
    // The watch shows the removal after the answer.
    release(&mut world, |_| Answer::Refused(Refusal::new(false, NO, at(1))));
    assert_eq!(blocked_by(&decided(&world))[0].blocker.reason.code(), "ReleaseRefused");
    let uid = world.pod_named(HOME, "db-1").expect("it is there").uid;
    freed(&mut world, uid);
    assert!(!world.index.cluster.in_flight.has_refusals());
}

#[test]
fn a_message_is_one_line_and_cut_at_a_character() {
    assert_eq!(&*Refusal::new(true, "a\nb\u{1b}[2J", at(1)).message, "a b [2J");
    let refusal = Refusal::new(true, &"ä".repeat(1000), at(1));
    assert!(refusal.message.chars().count() == 301 && refusal.message.ends_with('…'));
}

#[test]
fn a_node_that_cannot_be_written_to_is_named() {
    let mut world = World::of_mode(true);
    world.settings.notes = false;
    world.apply(Object::Node(node("a")));
    let select = |text: &str| Members::Selector(selector(text));
    let groups =
        vec![group(0, Some("driver"), select("app=driver")), group(1, Some("apps"), select("app=app"))];
    world.apply(Object::Sequence(sequence(HOME, "csi", Spec { scope: Scope::Node, ..spec(groups) })));
    let sent = decided(&world);
    let [Action::PatchNode(patch)] = &sent.actions[..] else { panic!("{:?}", sent.actions) };
    world.index.sequences.mark_sent(patch.sequences(), &patch.name);
    world.index.mark_refused(&patch.name, Refusal::new(false, "metadata.annotations: Too long", at(2)));
    world.index.mark_answered(&patch.name, None);
    let decision = decided(&world);
    let by = &blocked_by(&decision)[0];
    let reason =
        Reason::NodeWriteRefused { node: "a".into(), message: "metadata.annotations: Too long".into() };
    assert_eq!((&*by.group, &by.blocker.reason, by.blocker.since), ("driver", &reason, Some(at(2))));
    let nodes = status_of(&decision).and_then(|status| status.nodes.as_ref()).expect("it goes by nodes");
    assert_eq!(nodes.list[0].reason, "NodeWriteRefused");

    world.settle();
    let decision = decided(&world);
    assert!(blocked_by(&decision).iter().all(|by| by.blocker.reason.refusal().is_none()));
    let nodes = status_of(&decision).and_then(|status| status.nodes.as_ref()).expect("it goes by nodes");
    assert_eq!((nodes.list[0].reason, nodes.complete), ("Pending", 0));
}
