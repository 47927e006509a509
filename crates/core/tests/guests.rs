//! Sequences whose pods are in another namespace: without the permission of that namespace, they have no effect there.

use crate::support::build::{GATE, HOME, group, names, pod, selector, sequence, spec};
use crate::support::world::{World, status_of};
use rollcall_core::dispatch::explain_pod;
use rollcall_core::facts::Namespace;
use rollcall_core::index::Object;
use rollcall_core::key::Key;
use rollcall_core::line::{Hint, Line};
use rollcall_core::sequence::Sequence;
use rollcall_core::sequence::spec::Members;

const ELSEWHERE: &str = "mallory";
const FOREIGN: &str = "kueue.x-k8s.io/admission";

fn select(text: &str) -> Members {
    Members::Selector(selector(text))
}

/// A sequence that selects every pod with `app`, in two groups behind one that never completes, with a gate of its choice.
fn guest(gate: &str) -> Sequence {
    let groups = vec![
        group(0, Some("never"), names(&["never"])),
        group(1, Some("taken"), select("app")),
        group(2, Some("twice"), select("app")),
    ];
    let mut spec = spec(groups);
    spec.gate = gate.into();
    sequence(ELSEWHERE, "evil", spec)
}

fn permit(world: &mut World, allow_from: Option<&str>) {
    let allow_from = allow_from.map(Into::into);
    let namespace = Namespace { name: HOME.into(), version: 0, allow_from, allow_node_taints: false };
    world.apply(Object::Namespace(namespace));
    world.settle();
}

fn selecting_sequences(world: &World, name: &str) -> Vec<String> {
    let pod = world.index.cluster.pod_named(HOME, name).expect(name);
    let memberships = world.index.facts().memberships_of(pod.uid);
    memberships.map(|membership| world.truth.sequences[&membership.sequence].full_name()).collect()
}

fn explained(world: &World, name: &str) -> String {
    fn text(line: &Line) -> String {
        let below: Vec<String> = line.below.iter().map(text).collect();
        let hints: Vec<String> = line.hints.iter().map(|hint: &Hint| format!("{hint:?}")).collect();
        format!("{}\n{}\n{}", line.text, hints.join("\n"), below.join("\n"))
    }
    text(&explain_pod(&world.index, world.index.cluster.pod_named(HOME, name).expect(name), world.now))
}

#[test]
fn without_permission_it_claims_and_blames_nothing_and_with_it_at_once() {
    let mut world = World::new();
    permit(&mut world, None);
    let host = sequence(HOME, "app", spec(vec![group(0, Some("first"), select("app=web"))]));
    world.apply(Object::Sequence(host.clone()));
    world.apply(Object::Sequence(guest(GATE)));
    world.apply(Object::Pod(pod(HOME, "web", "web", "app=web", world.now)));
    world.settle();
    assert_eq!(selecting_sequences(&world, "web"), ["shop/app"]);
    assert_eq!(world.take_done().released.len(), 1, "nobody else is asked");

    // With the permission, existing pods also become its members.
    permit(&mut world, Some(ELSEWHERE));
    assert_eq!(selecting_sequences(&world, "web"), ["shop/app", "mallory/evil"]);
    world.apply(Object::Pod(pod(HOME, "web-2", "web-2", "app=web", world.now)));
    world.settle();
    assert_eq!(world.take_done().released.len(), 0, "now both have to let it go");
    let entry = world.index.sequences.get(guest(GATE).uid).expect("it is there");
    assert_eq!((entry.cell(1).present(), entry.duplicates().count()), (2, 2));
    let blocked = &status_of(&world.decisions[&host.uid]).expect("it lives").blocked_by;
    let sentences: Vec<String> = blocked.iter().map(|by| by.blocker.reason.sentence()).collect();
    let expected = "PodSequence mallory/evil also holds web-2, in group \"taken\"";
    assert!(sentences.iter().any(|sentence| sentence == expected), "{sentences:?}");
    let text = explained(&world, "web-2");
    assert!(
        text.contains("held by PodSequence app ") && text.contains("PodSequence mallory/evil "),
        "{text}"
    );

    // Without the permission, it loses its members, and the pods that waited for it are released.
    permit(&mut world, None);
    assert_eq!(selecting_sequences(&world, "web-2"), ["shop/app"]);
    let done = world.take_done();
    assert_eq!(done.released.iter().map(|released| &*released.name).collect::<Vec<_>>(), ["web-2"]);
    let entry = world.index.sequences.get(guest(GATE).uid).expect("it is there");
    assert_eq!((entry.cell(1).present(), entry.duplicates().count()), (0, 0));
    assert!(!explained(&world, "web-2").contains("evil"));
}

#[test]
fn nobody_is_advised_to_let_a_stranger_in_because_of_a_gate_that_he_names() {
    let mut world = World::new();
    permit(&mut world, None);
    world.apply(Object::Sequence(guest(FOREIGN)));
    let mut held = pod(HOME, "web", "web", "app=web", world.now);
    held.gates = vec![FOREIGN.into()];
    world.apply(Object::Pod(held));
    world.settle();
    let text = explained(&world, "web");
    assert!(text.contains("Rollcall does not manage this gate"), "{text}");
    assert!(!text.contains("evil") && !text.contains("allow-from") && !text.contains("release"), "{text}");
}

#[test]
fn the_order_in_which_they_are_heard_of_does_not_matter() {
    let namespace = || Namespace {
        name: HOME.into(),
        version: 1,
        allow_from: Some(ELSEWHERE.into()),
        allow_node_taints: false,
    };
    for first in [true, false] {
        let mut world = World::new();
        world.apply(Object::Pod(pod(HOME, "web", "web", "app=web", world.now)));
        if first {
            world.apply(Object::Namespace(namespace()));
        }
        world.apply(Object::Sequence(guest(GATE)));
        if !first {
            assert_eq!(selecting_sequences(&world, "web"), Vec::<String>::new());
            world.index.take_touched();
            world.apply(Object::Namespace(namespace()));
        }
        assert_eq!(selecting_sequences(&world, "web"), ["mallory/evil"]);
        assert!(world.index.take_touched().contains(&Key::Sequence(guest(GATE).uid)));
        world.delete(Object::Namespace(world.truth.namespaces[HOME].clone()));
        assert_eq!(selecting_sequences(&world, "web"), Vec::<String>::new());
    }
}
