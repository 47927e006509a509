//! Every line of `explain` has a documented code, a time, and the object that it describes.

use crate::support::build::{HOME, at, group, names, node, pod, selector, sequence, spec};
use crate::support::world::World;
use rollcall_core::dispatch::explain_pod;
use rollcall_core::facts::{Pin, PodPhase};
use rollcall_core::gates;
use rollcall_core::index::Object;
use rollcall_core::kind::Kind;
use rollcall_core::line::{CODES, Hint, Line};
use rollcall_core::sequence::explain::explain_sequence;
use rollcall_core::sequence::reason;
use rollcall_core::sequence::spec::{Members, Scope, Spec};

fn world(groups: &[(&str, Members)], pods: &[&str]) -> World {
    let groups = groups.iter().enumerate();
    let groups = groups.map(|(at, (name, members))| group(at, Some(name), members.clone())).collect();
    let mut world = World::new();
    world.apply(Object::Sequence(sequence(HOME, "app", spec(groups))));
    for name in pods {
        world.apply(Object::Pod(pod(HOME, name, name, "", world.now)));
    }
    world.settle();
    world.now = at(40);
    world
}

fn with_gates(world: &mut World, name: &str, gates: &[&str]) {
    let mut pod = pod(HOME, name, name, "", world.now);
    pod.gates = gates.iter().map(|gate| (*gate).into()).collect();
    world.apply(Object::Pod(pod));
    world.settle();
}

fn explained(world: &World, name: &str) -> Line {
    let pod = world.index.cluster.pod_named(HOME, name).expect(name);
    let line = explain_pod(&world.index, pod, world.now);
    assert_well_formed(world, &line);
    line
}

fn assert_well_formed(world: &World, line: &Line) {
    let known = CODES.iter().any(|(code, _)| *code == line.code)
        || reason::ALL.iter().any(|described| described.code == line.code);
    assert!(known, "{} is described nowhere", line.code);
    assert!(line.reason.as_ref().is_none_or(|reason| reason.code() == line.code), "{line:?}");
    assert!(line.since <= world.now && line.since >= crate::support::build::start(), "{line:?}");
    assert!(!line.object.name.is_empty(), "{line:?}");
    assert!(line.hints.iter().all(|hint| !format!("{hint:?}").contains('<')), "a placeholder: {line:?}");
    line.below.iter().for_each(|below| assert_well_formed(world, below));
}

fn codes(line: &Line) -> Vec<&'static str> {
    std::iter::once(line.code).chain(line.below.iter().flat_map(codes)).collect()
}

#[test]
fn a_gate_of_another_feature_of_ours_is_not_foreign() {
    let mut world = world(&[("db", names(&["db"]))], &["db"]);
    for (gate, feature) in [(gates::LAUNCH, "container launch order"), (gates::TICKET, "reservations")] {
        with_gates(&mut world, "web", &[gate]);
        let line = explained(&world, "web");
        assert_eq!(line.code, "OwnGate");
        assert!(line.text.contains(feature), "{}", line.text);
        assert!(!format!("{:?}", line.hints).contains("release"), "{:?}", line.hints);
    }
    with_gates(&mut world, "web", &["example.com/quota"]);
    assert_eq!(explained(&world, "web").code, "ForeignGate");
    with_gates(&mut world, "web", &[gates::SEQUENCE]);
    assert_eq!(explained(&world, "web").code, "NotClaimed");
}

#[test]
fn a_pod_is_explained_gate_by_gate() {
    let mut world = world(&[("db", names(&["db"])), ("web", names(&["web"]))], &["db"]);
    with_gates(&mut world, "web", &["example.com/quota", gates::SEQUENCE, gates::LAUNCH]);
    let line = explained(&world, "web");
    assert_eq!(line.text, "web is held by 3 gates");
    let below: Vec<&str> = line.below.iter().map(|line| line.code).collect();
    assert_eq!(below, ["ForeignGate", "Held", "OwnGate"]);
    // Without the gate of its sequence, only the other gates hold the pod, and its group reports that.
    with_gates(&mut world, "db", &[gates::LAUNCH]);
    let codes = codes(&explained(&world, "web"));
    assert!(codes.contains(&"OwnGate") && codes.contains(&"WaitsForGroup"), "{codes:?}");
}

#[test]
fn a_pod_of_a_closed_group_that_never_had_the_gate_runs_out_of_order() {
    let mut world = world(&[("db", names(&["db"])), ("web", names(&["web"]))], &["db"]);
    let mut web = pod(HOME, "web", "web", "", world.now);
    web.gates.clear();
    (web.phase, web.ready, web.node) = (PodPhase::Running, true, Some("n".into()));
    world.apply(Object::Pod(web));
    world.settle();
    let line = explained(&world, "web");
    assert_eq!(line.code, "OutOfOrder", "{}", line.text);
}

#[test]
fn lines_name_the_object_that_they_are_about() {
    let world = world(&[("db", names(&["db", "db-2"])), ("web", names(&["web"]))], &["db", "web"]);
    let line = explained(&world, "web");
    assert_eq!((line.object.kind, &*line.object.name), (Kind::Pod, "web"));
    let waits = &line.below[0];
    assert_eq!(
        (waits.object.kind, &*waits.object.name, waits.code),
        (Kind::Sequence, "app", "WaitsForGroup")
    );
    let missing = waits.below.iter().find(|line| line.code == "NotCreated").expect("db-2 does not exist");
    assert_eq!((&*missing.object.name, missing.object.uid), ("db-2", None));
    assert!(matches!(&line.hints[..], [Hint::Command { .. }]), "{:?}", line.hints);
    let entry = world.index.sequences.iter().next().expect("app");
    assert_well_formed(&world, &explain_sequence(world.index.facts(), entry, world.now));
}

#[test]
fn a_node_that_does_not_exist_is_named() {
    let mut world = World::of_mode(true);
    let select = |text: &str| Members::Selector(selector(text));
    let groups = vec![group(0, Some("apps"), select("app=app"))];
    world.apply(Object::Node(node("a")));
    world.apply(Object::Sequence(sequence(HOME, "app", Spec { scope: Scope::Node, ..spec(groups) })));
    let mut pinned = pod(HOME, "app-1", "app-1", "app=app", world.now);
    let pin =
        rollcall_core::facts::NodeConstraints { pin: Some(Pin::Name("b".into())), ..Default::default() };
    pinned.constraints = pin.kept();
    world.apply(Object::Pod(pinned));
    world.settle();
    let line = explained(&world, "app-1");
    assert_eq!(line.below[0].code, "NodeMissing");
    assert_eq!(line.below[0].text, "app-1 can only run on node b, which does not exist");
}
