//! Members avoid a new node until every sequence that may act there has seen it, but not indefinitely.

use crate::support::build::{HOME, at, group, node, owner, selector, sequence, spec};
use crate::support::world::World;
use rollcall_core::Uid;
use rollcall_core::cluster::Refusal;
use rollcall_core::decision::{Event, EventKind};
use rollcall_core::dispatch::{decide, keep};
use rollcall_core::facts::{Namespace, OwnerKind};
use rollcall_core::index::Object;
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::node::{Taint, TaintEffect};
use rollcall_core::sequence::spec::{Members, NodeGuard, Scope, Spec};
use rollcall_core::sequence::{Sequence, keys};

const KEY: &str = "podsequence.example.com/shop.csi.apps-blocked";
const ELSEWHERE: &str = "mallory";

fn by_nodes() -> Spec {
    let select = |text: &str| Members::Selector(selector(text));
    let groups =
        vec![group(0, Some("driver"), select("app=driver")), group(1, Some("apps"), select("app=app"))];
    Spec { scope: Scope::Node, ..spec(groups) }
}

fn victim() -> Sequence {
    sequence(HOME, "csi", by_nodes())
}

/// A cluster with one node, which the victim has seen.
fn world() -> World {
    let mut world = World::of_mode(true);
    world.apply(Object::Node(node("a")));
    world.apply(Object::Owner(owner(OwnerKind::DaemonSet, HOME, "driver", "app=driver", 0)));
    world.apply(Object::Sequence(victim()));
    world.settle();
    world
}

fn permit(world: &mut World, name: &str, allow_from: Option<&str>, allow_node_taints: bool) {
    let allow_from = allow_from.map(Into::into);
    world.apply(Object::Namespace(Namespace {
        name: name.into(),
        version: 0,
        allow_from,
        allow_node_taints,
    }));
}

fn joins(world: &mut World, name: &str) {
    let mut new = node(name);
    new.labels = [(keys::UNSEEN, "true")].into_iter().collect();
    world.apply(Object::Node(new));
}

fn is_unseen(world: &World, name: &str) -> bool {
    world.truth.nodes[name].labels.get(keys::UNSEEN).is_some()
}

fn warnings(world: &World, uid: Uid) -> Vec<&Event> {
    let events = &world.decisions[&uid].events;
    events.iter().filter(|event| event.reason == "NotWaitedFor").collect()
}

#[test]
fn who_may_not_act_has_no_say() {
    let tainting = Spec { guard: NodeGuard::Taints, ..by_nodes() };
    for (stall, spec, allow_node_taints) in [
        ("NotPermitted", by_nodes(), false),
        ("TaintsNotPermitted", Spec { pod_namespace: ELSEWHERE.into(), ..tainting.clone() }, false),
        ("TemplateLacksToleration", Spec { pod_namespace: ELSEWHERE.into(), ..tainting }, true),
    ] {
        let mut world = world();
        permit(&mut world, ELSEWHERE, None, allow_node_taints);
        world.apply(Object::Owner(owner(OwnerKind::DaemonSet, ELSEWHERE, "driver", "app=driver", 0)));
        let mallory = sequence(ELSEWHERE, "evil", spec);
        world.apply(Object::Sequence(mallory.clone()));
        joins(&mut world, "b");
        world.settle();
        let stalled = world.truth.sequences[&mallory.uid].recorded.stalled.as_deref();
        assert_eq!(stalled, Some(stall));
        assert!(!is_unseen(&world, "b"), "{stall}");
        assert!(world.truth.nodes["b"].journals.contains_key(&victim().uid), "{stall}: seen by who may act");
        assert!(world.take_done().events.iter().all(|(_, event)| event != "NotWaitedFor"));
    }
}

/// Adds a sequence that never writes to nodes: only decisions of the victim are made, and each sequence writes separately.
fn with_a_slow_one(world: &mut World) -> Sequence {
    let slow = sequence(HOME, "slow", by_nodes());
    world.apply(Object::Sequence(slow.clone()));
    joins(world, "b");
    write_separately(world, "b");
    world.decide(victim().uid);
    slow
}

/// The API server has rejected a write for several sequences to this node.
fn write_separately(world: &mut World, name: &str) {
    let uids = [victim().uid, Uid::digest("another")];
    world.index.sequences.mark_sent(uids, &name.into());
    world.index.mark_refused(&name.into(), Refusal::new(false, "Too long", world.now));
    world.index.mark_answered(&name.into(), None);
}

/// A sequence writes the marks of the others, too, so the node is seen after one write.
#[test]
fn one_write_for_all_sequences_makes_a_node_seen() {
    let mut world = world();
    world.apply(Object::Sequence(sequence(HOME, "other", by_nodes())));
    joins(&mut world, "b");
    world.take_done();
    world.decide(victim().uid);
    assert!(!is_unseen(&world, "b"));
    assert_eq!(world.take_done().marked, 1);
}

#[test]
fn nobody_is_waited_for_longer_than_a_minute() {
    let mut world = world();
    with_a_slow_one(&mut world);
    let uid = victim().uid;
    assert!(is_unseen(&world, "b") && world.truth.nodes["b"].labels.get(KEY).is_some());
    assert_eq!(world.decisions[&uid].wake_at, Some(at(60)));
    world.now = at(59);
    world.decide(uid);
    assert!(is_unseen(&world, "b") && warnings(&world, uid).is_empty());
    world.now = at(60);
    world.decide(uid);
    assert!(!is_unseen(&world, "b") && world.truth.nodes["b"].labels.get(KEY).is_some());
    let [event] = warnings(&world, uid)[..] else { panic!("{:?}", world.decisions[&uid].events) };
    assert_eq!((event.kind, event.about.kind, &*event.about.name), (EventKind::Warning, Kind::Node, "b"));
    assert!(event.message.contains("shop/slow") && event.message.contains("60s"), "{}", event.message);
    world.decide(uid);
    assert_eq!(world.decisions[&uid].wake_at, None, "there is nothing left to wait for");
}

#[test]
fn it_is_said_once_however_often_the_write_is_tried() {
    let mut world = world();
    with_a_slow_one(&mut world);
    world.now = at(61);
    let key = Key::Sequence(victim().uid);
    let mut ask = || {
        let decision = decide(&world.index, key, world.settings, world.now, world.budget);
        keep(&mut world.index, key, decision.keep.clone());
        let said = decision.events.iter().filter(|event| event.reason == "NotWaitedFor").count();
        (decision.actions.len(), said)
    };
    assert_eq!((ask(), ask()), ((1, 1), (1, 0)));
}

#[test]
fn whoever_begins_to_lead_counts_anew_and_so_does_another_node_of_that_name() {
    let mut world = world();
    with_a_slow_one(&mut world);
    let uid = victim().uid;
    world.now = at(40);
    world.restart();
    write_separately(&mut world, "b");
    world.decide(uid);
    world.now = at(99);
    world.decide(uid);
    assert!(is_unseen(&world, "b"));
    world.delete(Object::Node(world.truth.nodes["b"].clone()));
    let mut another = node("b");
    (another.uid, another.labels) = (Uid::digest("b again"), [(keys::UNSEEN, "true")].into_iter().collect());
    world.apply(Object::Node(another));
    write_separately(&mut world, "b");
    world.decide(uid);
    world.now = at(158);
    world.decide(uid);
    assert!(is_unseen(&world, "b"));
    world.now = at(159);
    world.decide(uid);
    assert!(!is_unseen(&world, "b"));
}

/// If a sequence loses its permission, the others stop waiting for it immediately.
#[test]
fn the_others_hear_of_it_when_somebody_loses_his_say() {
    let mut world = world();
    permit(&mut world, HOME, Some(ELSEWHERE), false);
    let guest = sequence(ELSEWHERE, "guest", by_nodes());
    world.apply(Object::Sequence(guest.clone()));
    world.decide(guest.uid);
    joins(&mut world, "b");
    write_separately(&mut world, "b");
    world.decide(victim().uid);
    assert!(is_unseen(&world, "b"));
    permit(&mut world, HOME, None, false);
    world.index.take_touched();
    world.decide(guest.uid);
    assert!(world.index.take_touched().contains(&Key::Sequence(victim().uid)));
    world.decide(victim().uid);
    assert!(!is_unseen(&world, "b"));
}

/// A key of ours whose value is the uid of another sequence belongs to that sequence until it is deleted.
#[test]
fn what_belongs_to_a_living_sequence_is_neither_changed_nor_removed() {
    for guard in [NodeGuard::Labels, NodeGuard::Taints] {
        let mut world = World::of_mode(true);
        permit(&mut world, HOME, None, true);
        let other = sequence(HOME, "other", spec(vec![group(0, None, Members::Selector(selector("app=x")))]));
        world.apply(Object::Sequence(other.clone()));
        let value = other.uid.to_string();
        let mut marked = node("a");
        match guard {
            NodeGuard::Labels => marked.labels = [(KEY, &*value)].into_iter().collect(),
            NodeGuard::Taints => {
                let taint =
                    Taint { key: KEY.into(), value: value.as_str().into(), effect: TaintEffect::NoSchedule };
                marked.taints = vec![taint];
            }
        }
        world.apply(Object::Node(marked));
        world.apply(Object::Sequence(sequence(HOME, "csi", Spec { guard, ..by_nodes() })));
        world.settle();
        let there = |world: &World| -> Vec<String> {
            let node = &world.truth.nodes["a"];
            let taints = node.taints.iter().map(|taint| taint.value.to_string());
            node.labels.get(KEY).map(|value| value.to_string()).into_iter().chain(taints).collect()
        };
        assert_eq!(there(&world), [value], "closed, and not in our name");
        world.delete(Object::Sequence(other));
        world.settle();
        assert_eq!(there(&world), [victim().uid.to_string()], "it was left by one that is gone");
    }
}
