//! Pods that no group names or selects, and that name their sequence and group in a label.

use crate::support::build::{HOME, group, pod, selector, sequence, spec};
use crate::support::world::{World, status_of};
use rollcall_core::index::Object;
use rollcall_core::sequence::Phase;
use rollcall_core::sequence::index::MEMBERSHIP_KEY;
use rollcall_core::sequence::index::membership_value;
use rollcall_core::sequence::spec::Members;

fn with_membership(world: &World, name: &str, sequence: &str, position: usize) -> Object {
    let mut pod = pod(HOME, name, name, "", world.now);
    pod.labels = [(MEMBERSHIP_KEY, &*membership_value(sequence, position))].into_iter().collect();
    Object::Pod(pod)
}

fn select(text: &str) -> Members {
    Members::Selector(selector(text))
}

fn arrive(world: &mut World, name: &str) {
    let mut pod = world.pod_named(HOME, name).expect("it is there").clone();
    (pod.ready, pod.node) = (true, Some("n".into()));
    world.apply(Object::Pod(pod));
    world.settle();
}

fn is_held(world: &World, name: &str) -> bool {
    world.pod_named(HOME, name).is_some_and(|pod| !pod.gates.is_empty())
}

#[test]
fn they_are_held_waited_for_and_let_go_like_the_others() {
    let mut world = World::new();
    let early = with_membership(&world, "early", "shop", 1);
    world.apply(early);
    let shop =
        sequence(HOME, "shop", spec(vec![group(0, None, select("app=a")), group(1, None, select("app=z"))]));
    world.apply(Object::Sequence(shop.clone()));
    let (listed, also) = (pod(HOME, "a", "a", "app=a", world.now), with_membership(&world, "b", "shop", 0));
    world.apply(Object::Pod(listed));
    world.apply(also);
    let elsewhere =
        [with_membership(&world, "stranger", "other", 0), with_membership(&world, "beyond", "shop", 7)];
    elsewhere.into_iter().for_each(|pod| world.apply(pod));
    world.settle();
    let held = |world: &World| ["a", "b", "early", "stranger", "beyond"].map(|name| is_held(world, name));
    assert_eq!(held(&world), [false, false, true, true, true]);
    arrive(&mut world, "a");
    assert_eq!(held(&world), [false, false, true, true, true], "b belongs to the first group, too");
    arrive(&mut world, "b");
    assert_eq!(held(&world), [false, false, false, true, true]);
    arrive(&mut world, "early");
    let status = status_of(&world.decisions[&shop.uid]).expect("of a living one");
    assert_eq!(status.phase, Phase::Completed, "{}", status.message);
}
