//! Node scope: every node passes through the groups independently.

use crate::support::build::{HOME, at, group, labels, node, owner, owner_ref, pod, selector, sequence, spec};
use crate::support::world::{World, status_of};
use rollcall_core::Uid;
use rollcall_core::cluster::Refusal;
use rollcall_core::decision::Action;
use rollcall_core::dispatch::{check, decide};
use rollcall_core::facts::{Namespace, NodeConstraints, Owner, OwnerKind, Pin, Pod, PodPhase};
use rollcall_core::index::Object;
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use rollcall_core::node::{Drivers, Node, Placement, Taint, TaintEffect, Toleration};
use rollcall_core::sequence::spec::{
    DeletionPolicy, Enforcement, Members, NodeGuard, NodeReady, Scope, Spec, WorkloadRef,
};
use rollcall_core::sequence::status::ConditionKind;
use rollcall_core::sequence::{Phase, Sequence, Settings, Status, keys};
use std::collections::BTreeSet;
use std::sync::Arc;

const DRIVER_KEY: &str = "podsequence.example.com/shop.csi.apps-blocked";

/// A DaemonSet `driver`, and pods with `app=app` that wait for it on their node.
struct Scene {
    world: World,
    spec: Spec,
}

impl Scene {
    fn new(nodes: &[&str]) -> Scene {
        let select = |text: &str| Members::Selector(selector(text));
        let groups =
            vec![group(0, Some("driver"), select("app=driver")), group(1, Some("apps"), select("app=app"))];
        let mut scene =
            Scene { world: World::of_mode(true), spec: Spec { scope: Scope::Node, ..spec(groups) } };
        nodes.iter().for_each(|name| scene.world.apply(Object::Node(node(name))));
        scene.world.apply(Object::Owner(owner(OwnerKind::DaemonSet, HOME, "driver", "app=driver", 0)));
        scene
    }

    fn begin(mut self) -> Scene {
        self.apply_sequence();
        self.settle();
        self
    }

    fn apply_sequence(&mut self) {
        let generation = self.known_sequence().map_or(1, |known| known.generation + 1);
        let new = Sequence { generation, ..sequence(HOME, "csi", self.spec.clone()) };
        let recorded = self.known_sequence().map(|known| known.recorded.clone()).unwrap_or_default();
        self.world.apply(Object::Sequence(Sequence { recorded, ..new }));
    }

    fn known_sequence(&self) -> Option<&Sequence> {
        self.world.truth.sequences.get(&sequence(HOME, "csi", self.spec.clone()).uid)
    }

    fn settle(&mut self) {
        self.world.settle();
    }

    /// Creates a pod of the DaemonSet, which names its node while it is gated.
    fn driver_on(&mut self, node: &str) {
        let name = format!("driver-{node}");
        let mut pod = pod(HOME, &name, &name, "app=driver", self.world.now);
        pod.owner = Some(owner_ref(OwnerKind::DaemonSet, HOME, "driver"));
        pod.constraints = constraints(Pin::Name(node.into()));
        self.world.apply(Object::Pod(pod));
        self.settle();
    }

    fn app(&mut self, name: &str) {
        self.world.apply(Object::Pod(pod(HOME, name, name, "app=app", self.world.now)));
        self.settle();
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.world.pod_named(HOME, name).expect("it is there").clone();
        change(&mut pod);
        self.world.apply(Object::Pod(pod));
        self.settle();
    }

    fn ready_on(&mut self, name: &str, node: &str) {
        self.change(name, |pod| {
            (pod.node, pod.phase, pod.ready, pod.started) =
                (Some(node.into()), PodPhase::Running, true, true);
        });
    }

    fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let mut node = self.world.truth.nodes[name].clone();
        change(&mut node);
        self.world.apply(Object::Node(node));
        self.settle();
    }

    fn is_held(&self, name: &str) -> bool {
        self.world.pod_named(HOME, name).is_some_and(|pod| !pod.gates.is_empty())
    }

    /// The nodes with the blocked key of the second group.
    fn closed(&self) -> Vec<&str> {
        let nodes = self.world.truth.nodes.values();
        nodes.filter(|node| node.labels.get(DRIVER_KEY).is_some()).map(|node| &*node.name).collect()
    }

    fn status(&self) -> &Status {
        let uid = sequence(HOME, "csi", self.spec.clone()).uid;
        status_of(&self.world.decisions[&uid]).expect("of a living one")
    }
}

fn constraints(pin: Pin) -> Option<Box<NodeConstraints>> {
    NodeConstraints { pin: Some(pin), ..NodeConstraints::default() }.kept()
}

#[test]
fn every_node_opens_on_its_own() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    assert_eq!(scene.closed(), ["a", "b"]);
    scene.driver_on("a");
    scene.driver_on("b");
    assert!(!scene.is_held("driver-a") && !scene.is_held("driver-b"), "they wait for nothing");
    scene.app("app-1");
    assert!(scene.is_held("app-1"));
    scene.ready_on("driver-a", "a");
    assert_eq!(scene.closed(), ["b"]);
    assert!(!scene.is_held("app-1"));
    let avoided = scene.world.take_done().avoided.remove("app-1").expect("it was let go");
    assert_eq!(avoided.iter().map(|key| &**key).collect::<Vec<_>>(), [DRIVER_KEY, keys::UNSEEN]);
    scene.ready_on("driver-b", "b");
    assert_eq!(scene.closed(), Vec::<&str>::new());
    assert_eq!(scene.status().phase, Phase::InProgress, "app-1 has not landed anywhere");
    scene.ready_on("app-1", "a");
    let nodes = scene.status().nodes.as_ref().expect("of Node scope");
    assert_eq!((nodes.total, nodes.complete, scene.status().phase), (2, 2, Phase::Completed));
}

fn named(kind: OwnerKind, name: &str) -> Members {
    Members::Workload(WorkloadRef { kind, name: name.into() })
}

#[test]
fn members_by_reference_go_by_nodes_too() {
    let mut scene = Scene::new(&["a", "b"]);
    scene.spec.groups[0].members = named(OwnerKind::DaemonSet, "driver");
    scene.spec.groups[1].members = named(OwnerKind::Deployment, "app");
    let mut scene = scene.begin();
    assert_eq!(scene.closed(), ["a", "b"]);
    scene.world.apply(Object::Owner(owner(OwnerKind::Deployment, HOME, "app", "", 1)));
    scene.world.apply(Object::Owner(Owner {
        parent: Some(owner_ref(OwnerKind::Deployment, HOME, "app")),
        ..owner(OwnerKind::ReplicaSet, HOME, "app-1", "", 1)
    }));
    let mut app = pod(HOME, "app-1", "app-1", "", scene.world.now);
    app.owner = Some(owner_ref(OwnerKind::ReplicaSet, HOME, "app-1"));
    scene.world.apply(Object::Pod(app));
    scene.settle();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    assert_eq!(scene.closed(), ["b"]);
    assert!(!scene.is_held("app-1"));
    scene.driver_on("b");
    scene.ready_on("driver-b", "b");
    scene.ready_on("app-1", "a");
    assert_eq!(scene.status().phase, Phase::Completed);
}

#[test]
fn a_workload_that_is_missing_is_complete_on_no_node() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.groups[0].members = named(OwnerKind::DaemonSet, "other");
    let mut scene = scene.begin();
    scene.app("app-1");
    assert!(scene.is_held("app-1"));
    assert_eq!(scene.closed(), ["a"]);
    let status = scene.status().clone();
    assert_eq!(status.blocked_by[0].blocker.reason.code(), "WorkloadMissing", "{}", status.message);
    // The workload appears, and desires no pod on this node.
    let mut other = owner(OwnerKind::DaemonSet, HOME, "other", "", 0);
    let node_selector = labels("disk=ssd");
    other.placement = Some(Box::new(Placement { node_selector, ..Placement::default() }));
    scene.world.apply(Object::Owner(other));
    scene.settle();
    assert!(!scene.is_held("app-1"), "{}", scene.status().message);
}

#[test]
fn an_optional_group_that_is_absent_is_passed_on_every_node() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.groups[0].members = named(OwnerKind::DaemonSet, "other");
    scene.spec.groups[0].optional = true;
    let mut scene = scene.begin();
    scene.app("app-1");
    assert!(scene.is_held("app-1"), "it may come in a moment");
    scene.world.now = at(3);
    scene.settle();
    assert!(!scene.is_held("app-1"));
    scene.ready_on("app-1", "a");
    assert_eq!((scene.status().phase, scene.status().groups[0].expected), (Phase::Completed, Some(0)));
}

#[test]
fn a_member_on_a_node_that_is_gone_does_not_count() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    for node in ["a", "b"] {
        scene.driver_on(node);
        scene.ready_on(&format!("driver-{node}"), node);
    }
    scene.app("app-1");
    scene.ready_on("app-1", "a");
    assert_eq!(scene.status().phase, Phase::Completed);
    // The node is deleted first; its pods are garbage-collected much later, and are not ready until then.
    let gone = scene.world.truth.nodes["b"].clone();
    scene.world.delete(Object::Node(gone.clone()));
    scene.change("driver-b", |pod| pod.ready = false);
    let status = scene.status().clone();
    assert_eq!((status.phase, status.summary_ready.as_str()), (Phase::Completed, "2/2"));
    assert_eq!((status.blocked_by.len(), status.groups[0].present, status.groups[0].released), (0, 1, 1));
    // It does not block a sequence that has not been complete yet, either.
    scene.spec.enforcement = Enforcement::Continuous;
    scene.apply_sequence();
    scene.settle();
    let status = scene.status().clone();
    assert_eq!(status.phase, Phase::Completed, "{}", status.message);
    assert!(!status.processed_pods.iter().any(|name| **name == *"driver-b"), "{:?}", status.processed_pods);
    // The node is re-created, and its groups must become complete again.
    scene.world.apply(Object::Node(Node { uid: Uid::digest("again"), ..gone }));
    scene.settle();
    let status = scene.status().clone();
    assert_eq!(status.phase, Phase::InProgress);
    assert!(status.message.contains("driver-b is not ready"), "{}", status.message);
}

#[test]
fn a_pod_pinned_to_a_node_that_does_not_exist_is_waited_for() {
    let mut scene = Scene::new(&["a"]).begin();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    let mut pod = pod(HOME, "app-1", "app-1", "app=app", scene.world.now);
    pod.constraints = constraints(Pin::Name("later".into()));
    scene.world.apply(Object::Pod(pod));
    scene.settle();
    assert!(scene.is_held("app-1"));
    assert_eq!(scene.status().phase, Phase::InProgress, "its node may come");
    scene.world.apply(Object::Node(node("later")));
    scene.settle();
    assert!(scene.is_held("app-1"), "there the driver is missing");
}

#[test]
fn nobody_goes_before_every_closed_node_is_marked() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    scene.world.budget = 0;
    scene.app("app-1");
    scene.change_node("b", |node| node.labels = labels(""));
    assert!(scene.is_held("app-1"), "somebody took the key of b away");
    scene.world.budget = 1000;
    scene.change_node("b", |node| node.labels = labels("zone=z"));
    assert_eq!(scene.closed(), ["b"]);
    assert!(!scene.is_held("app-1"));
}

#[test]
fn a_pod_that_names_its_node_waits_for_that_node_alone() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    for (name, host) in [("app-a", "a"), ("app-b", "host-b")] {
        let mut pod = pod(HOME, name, name, "app=app", scene.world.now);
        pod.constraints = constraints(Pin::Hostname(host.into()));
        scene.world.apply(Object::Pod(pod));
    }
    scene.change_node("b", |node| node.labels = labels("kubernetes.io/hostname=host-b"));
    scene.driver_on("b");
    scene.ready_on("driver-b", "b");
    assert!(scene.is_held("app-a") && !scene.is_held("app-b"));
    assert_eq!(scene.world.take_done().avoided["app-b"], [] as [Arc<str>; 0]);
}

#[test]
fn a_pod_of_two_sequences_goes_when_its_node_is_open_for_both() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    let monitoring = vec![
        group(0, Some("monitor"), Members::Selector(selector("app=monitor"))),
        group(1, Some("apps"), Members::Selector(selector("app=app"))),
    ];
    let monitoring = Spec { scope: Scope::Node, ..spec(monitoring) };
    scene.world.apply(Object::Sequence(sequence(HOME, "monitoring", monitoring)));
    let mut app = pod(HOME, "app-b", "app-b", "app=app", scene.world.now);
    app.constraints = constraints(Pin::Name("b".into()));
    scene.world.apply(Object::Pod(app));
    for node in ["a", "b"] {
        let name = format!("monitor-{node}");
        let mut monitor = pod(HOME, &name, &name, "app=monitor", scene.world.now);
        monitor.constraints = constraints(Pin::Name(node.into()));
        scene.world.apply(Object::Pod(monitor));
    }
    scene.driver_on("b");
    scene.ready_on("driver-b", "b");
    scene.ready_on("monitor-a", "a");
    assert!(scene.is_held("app-b"), "b has its driver, but only a its monitor");
    scene.ready_on("monitor-b", "b");
    assert!(!scene.is_held("app-b"));
}

#[test]
fn a_node_that_joins_is_closed_until_its_own_driver_is_there() {
    let mut scene = Scene::new(&["a"]).begin();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    assert_eq!(scene.status().phase, Phase::InProgress, "there is no app yet");
    let mut new = node("b");
    new.labels = [(keys::UNSEEN, "true")].into_iter().collect();
    scene.world.apply(Object::Node(new));
    scene.settle();
    assert_eq!(scene.closed(), ["b"]);
    assert!(scene.world.truth.nodes["b"].labels.get(keys::UNSEEN).is_none(), "it has been seen");
    scene.driver_on("b");
    scene.ready_on("driver-b", "b");
    assert_eq!(scene.closed(), Vec::<&str>::new());
}

#[test]
fn a_node_re_created_under_its_name_begins_anew() {
    let mut scene = Scene::new(&["a"]).begin();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    assert_eq!(scene.closed(), Vec::<&str>::new());
    let old = scene.world.truth.nodes["a"].clone();
    scene.world.delete(Object::Node(old));
    scene.change("driver-a", |pod| pod.terminating = true);
    scene.world.apply(Object::Node(Node { uid: rollcall_core::Uid::digest("another"), ..node("a") }));
    scene.settle();
    assert_eq!(scene.closed(), ["a"]);
}

#[test]
fn what_was_complete_stays_open_in_bootstrap_and_closes_again_in_continuous() {
    for (enforcement, closed) in [(Enforcement::Bootstrap, vec![]), (Enforcement::Continuous, vec!["a"])] {
        let mut scene = Scene::new(&["a"]);
        scene.spec.enforcement = enforcement;
        let mut scene = scene.begin();
        scene.driver_on("a");
        scene.ready_on("driver-a", "a");
        assert_eq!(scene.closed(), Vec::<&str>::new(), "{enforcement:?}");
        scene.change("driver-a", |pod| pod.ready = false);
        assert_eq!(scene.closed(), closed, "{enforcement:?}");
        scene.world.restart();
        scene.settle();
        assert_eq!(scene.closed(), closed, "{enforcement:?}, after a restart");
    }
}

#[test]
fn a_node_where_the_daemon_is_not_wanted_waits_for_nothing_but_our_own_taint_does_not_count() {
    let mut scene = Scene::new(&["a", "gpu", "ours"]);
    scene.driver_on("a");
    let taint = |key: &str| Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    scene.change_node("gpu", |node| node.taints = vec![taint("gpu")]);
    scene.change_node("ours", |node| node.taints = vec![taint("podsequence.example.com/x-blocked")]);
    let scene = scene.begin();
    assert_eq!(scene.closed(), ["a", "ours"]);
}

#[test]
fn a_group_of_nothing_is_complete_nowhere() {
    let mut scene = Scene::new(&["a"]).begin();
    let driver = owner(OwnerKind::DaemonSet, HOME, "driver", "app=driver", 0);
    scene.world.delete(Object::Owner(driver));
    scene.settle();
    assert_eq!(scene.closed(), ["a"]);
}

#[test]
fn a_ready_pod_is_not_yet_a_registered_driver() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.groups[0].node_ready = Some(NodeReady::CsiDriver("csi.example.com".into()));
    let mut scene = scene.begin();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    assert_eq!(scene.closed(), ["a"]);
    let message = &scene.status().message;
    assert!(message.contains("csi.example.com is not registered on a"), "{message}");
    let mut registered_on = |uid: Uid| {
        let names = ["csi.example.com".into()].into();
        scene.world.apply(Object::Drivers(Drivers { node: "a".into(), of: Some(uid), version: 0, names }));
        scene.settle();
        scene.closed().len()
    };
    assert_eq!(registered_on(Uid::digest("an older a")), 1, "left behind by another node of that name");
    assert_eq!(registered_on(node("a").uid), 0);
}

fn driver() -> Option<NodeReady> {
    Some(NodeReady::CsiDriver("csi.example.com".into()))
}

impl Scene {
    /// Registers a foreign driver on a node, or removes it.
    fn register_on(&mut self, name: &str, registered: bool) {
        let names = registered.then(|| "csi.example.com".into()).into_iter().collect();
        let of = Some(node(name).uid);
        self.world.apply(Object::Drivers(Drivers { node: name.into(), of, version: 0, names }));
        self.settle();
    }
}

#[test]
fn members_may_be_absent_but_not_what_a_node_must_show() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.groups[0].members = named(OwnerKind::DaemonSet, "other");
    (scene.spec.groups[0].optional, scene.spec.groups[0].node_ready) = (true, driver());
    let mut scene = scene.begin();
    scene.app("app-1");
    scene.world.now = at(3);
    scene.settle();
    assert!(scene.is_held("app-1"), "the driver is not registered");
    let blockers: Vec<&str> =
        scene.status().blocked_by.iter().map(|blocked| blocked.blocker.reason.code()).collect();
    assert_eq!(blockers, ["NodeLacks"]);
    scene.register_on("a", true);
    assert!(!scene.is_held("app-1"), "{}", scene.status().message);
    assert_eq!(scene.status().groups[0].expected, Some(0));
}

#[test]
fn a_group_without_members_goes_by_what_nodes_show() {
    let mut scene = Scene::new(&["a", "b"]);
    (scene.spec.groups[0].members, scene.spec.groups[0].node_ready) = (Members::None, driver());
    let mut scene = scene.begin();
    scene.app("app-1");
    assert_eq!((scene.closed(), scene.is_held("app-1")), (vec!["a", "b"], true));
    assert_eq!(scene.status().summary_ready, "0/2", "it counts nodes");
    assert_eq!(
        scene.status().message,
        "0 of 2 nodes are complete; a: CSI driver csi.example.com is not registered on a"
    );
    scene.register_on("b", true);
    assert_eq!((scene.closed(), scene.is_held("app-1")), (vec!["a"], false));
    assert_eq!((&*scene.status().summary_group, &*scene.status().summary_ready), ("1/2 driver", "1/2"));
    let blocked: Vec<String> =
        scene.status().blocked_by.iter().map(|blocked| blocked.blocker.reason.sentence()).collect();
    assert_eq!(blocked[0], "CSI driver csi.example.com is not registered on a");
    scene.ready_on("app-1", "b");
    scene.register_on("a", true);
    assert_eq!(scene.closed(), Vec::<&str>::new());
    let group = &scene.status().groups[0];
    assert_eq!((group.expected, group.present, group.released, group.arrived), (Some(0), 0, 0, 0));
    assert_eq!(scene.status().phase, Phase::Completed);
    scene.register_on("a", false);
    assert_eq!(scene.status().phase, Phase::Completed, "the order was for coming up");
}

#[test]
fn a_group_without_members_closes_nodes_again_if_the_order_is_continuous() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.enforcement = Enforcement::Continuous;
    (scene.spec.groups[0].members, scene.spec.groups[0].node_ready) = (Members::None, driver());
    let mut scene = scene.begin();
    scene.register_on("a", true);
    assert_eq!(scene.closed(), Vec::<&str>::new());
    scene.register_on("a", false);
    assert_eq!(scene.closed(), ["a"]);
}

#[test]
fn a_group_without_members_waits_its_turn_and_has_no_key() {
    let mut scene = Scene::new(&["a"]);
    let mut registered = group(1, Some("registered"), Members::None);
    registered.node_ready = driver();
    registered.timeout = Some(std::time::Duration::from_secs(60));
    let apps = group(2, Some("apps"), Members::Selector(selector("app=app")));
    scene.spec.groups = vec![scene.spec.groups.remove(0), registered, apps];
    let mut scene = scene.begin();
    scene.driver_on("a");
    assert_eq!(scene.status().current_index, 0);
    let keys = |scene: &Scene| {
        let labels = scene.world.truth.nodes["a"].labels.clone();
        labels.iter().filter(|(key, _)| keys::is_key(key)).map(|(key, _)| key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&scene), [DRIVER_KEY], "only a group that can have floating members has one");
    scene.ready_on("driver-a", "a");
    assert_eq!((scene.status().current_index, keys(&scene)), (1, vec![DRIVER_KEY.to_owned()]));
    scene.world.now = at(61);
    scene.settle();
    assert_eq!(scene.status().message, "\"registered\" timed out after 1m: 0 of 1 nodes complete");
    scene.register_on("a", true);
    assert_eq!((scene.status().phase, keys(&scene).len()), (Phase::InProgress, 0));
}

#[test]
fn nodes_that_a_group_is_not_for_do_not_wait_for_it() {
    let mut scene = Scene::new(&["a", "b"]);
    scene.spec.groups[0].node_selector = labels("disk=ssd");
    scene.change_node("a", |node| node.labels = labels("disk=ssd"));
    let scene = scene.begin();
    assert_eq!(scene.closed(), ["a"]);
}

#[test]
fn settling_is_counted_on_each_node_and_survives_a_restart() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.groups[0].wait = std::time::Duration::from_secs(30);
    let mut scene = scene.begin();
    scene.driver_on("a");
    scene.ready_on("driver-a", "a");
    scene.world.now = at(20);
    scene.world.restart();
    scene.settle();
    assert_eq!(scene.closed(), ["a"]);
    scene.world.now = at(31);
    scene.settle();
    assert_eq!(scene.closed(), Vec::<&str>::new());
}

#[test]
fn settling_on_one_node_does_not_keep_the_others_waiting() {
    let mut scene = Scene::new(&["a", "b"]);
    scene.spec.groups[0].wait = std::time::Duration::from_secs(30);
    let mut scene = scene.begin();
    for (node, arrives) in [("a", 0), ("b", 20)] {
        scene.world.now = at(arrives);
        scene.driver_on(node);
        scene.ready_on(&format!("driver-{node}"), node);
    }
    for (now, closed) in [(29, vec!["a", "b"]), (30, vec!["b"]), (49, vec!["b"]), (50, vec![])] {
        scene.world.now = at(now);
        scene.settle();
        assert_eq!(scene.closed(), closed, "after {now} s");
    }
}

#[test]
fn deleting_the_sequence_leaves_nothing_on_any_node() {
    for (policy, absent) in [
        (DeletionPolicy::Release, false),
        (DeletionPolicy::Release, true),
        (DeletionPolicy::Hold, false),
        (DeletionPolicy::Hold, true),
    ] {
        let mut scene = Scene::new(&["a", "b"]);
        scene.spec.deletion_policy = policy;
        scene.change_node("a", |node| node.labels = labels("zone=z"));
        let mut scene = scene.begin();
        scene.app("app-1");
        let known = scene.known_sequence().expect("it is there").clone();
        scene.world.present = !absent;
        scene.world.delete(Object::Sequence(known));
        scene.world.restart();
        scene.settle();
        for node in scene.world.truth.nodes.values() {
            let foreign = if &*node.name == "a" { labels("zone=z") } else { labels("") };
            assert_eq!((&node.labels, node.journals.len()), (&foreign, 0), "{policy:?}, absent: {absent}");
        }
        assert_eq!(scene.is_held("app-1"), policy == DeletionPolicy::Hold, "absent: {absent}");
    }
}

/// A foreign actor changes a node between our read and our write.
#[test]
fn what_is_left_on_a_node_that_keeps_changing_is_taken_off_too() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    let known = scene.known_sequence().expect("it is there").clone();
    scene.world.present = false;
    scene.world.delete(Object::Sequence(known));
    scene.world.truth.notes.clear();
    scene.world.restart();
    scene.world.budget = 0;
    scene.settle();
    for node in ["a", "b"] {
        scene.change_node(node, |node| node.conditions = ["Busy".into()].into());
    }
    assert_eq!(scene.closed(), ["a", "b"], "nothing could be done yet");
    scene.world.budget = 1000;
    scene.change_node("a", |node| node.conditions = ["Idle".into()].into());
    assert_eq!(scene.closed(), Vec::<&str>::new());
}

#[test]
fn what_is_left_is_taken_off_as_soon_as_it_is_proved_that_its_sequence_is_gone() {
    let mut scene = Scene::new(&["a"]).begin();
    let known = scene.known_sequence().expect("it is there").clone();
    scene.world.present = false;
    scene.world.delete(Object::Sequence(known));
    scene.world.truth.notes.clear();
    // The sequences were listed before the node was changed and seen.
    let listed = scene.world.version;
    scene.change_node("a", |node| node.conditions = ["Busy".into()].into());
    let now = std::mem::replace(&mut scene.world.version, listed);
    scene.world.restart();
    scene.world.version = now;
    scene.settle();
    assert_eq!(scene.closed(), ["a"], "it could be of a sequence that is not known yet");
    scene.world.index.heard_until(Kind::Sequence, scene.world.version);
    scene.settle();
    assert_eq!(scene.closed(), Vec::<&str>::new());
}

#[test]
fn what_a_namesake_has_left_is_taken_over() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    let old = scene.known_sequence().expect("it is there").clone();
    scene.world.present = false;
    scene.world.delete(Object::Sequence(old.clone()));
    let new =
        Sequence { uid: rollcall_core::Uid::digest("another"), ..sequence(HOME, "csi", scene.spec.clone()) };
    scene.world.apply(Object::Sequence(new.clone()));
    scene.world.restart();
    scene.settle();
    for node in scene.world.truth.nodes.values() {
        let key = node.labels.get(DRIVER_KEY).map(|uid| uid.to_string());
        assert_eq!(key, Some(new.uid.to_string()), "{}", node.name);
        assert_eq!(node.journals.keys().copied().collect::<Vec<_>>(), [new.uid]);
    }
}

/// The existing sequence releases the pods that the deleted one held, and sets the nodes that they must avoid.
#[test]
fn what_a_namesake_claims_too_is_left_to_it() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    scene.driver_on("a");
    scene.app("app-1");
    let old = scene.known_sequence().expect("it is there").clone();
    scene.world.present = false;
    scene.world.delete(Object::Sequence(old.clone()));
    let new = Sequence { uid: Uid::digest("another"), ..sequence(HOME, "csi", scene.spec.clone()) };
    scene.world.apply(Object::Sequence(new.clone()));
    let mut driver = scene.world.pod_named(HOME, "driver-a").expect("it is there").clone();
    (driver.node, driver.phase, driver.ready) = (Some("a".into()), PodPhase::Running, true);
    scene.world.apply(Object::Pod(driver));
    scene.world.take_done();
    scene.world.restart();
    scene.settle();
    let done = scene.world.take_done();
    let by: Vec<Uid> = done.released.iter().map(|released| released.by).collect();
    assert_eq!(by, [new.uid], "app-1, and not by the one that is gone");
    assert!(done.avoided["app-1"].iter().any(|key| **key == *DRIVER_KEY));
    assert_eq!(scene.world.truth.notes.keys().copied().collect::<Vec<_>>(), [new.uid], "and that is settled");
}

/// Each write is based on the node as it was seen, so two concurrent writes would conflict.
#[test]
fn one_write_to_a_node_at_a_time() {
    let mut scene = Scene::new(&["a"]);
    scene.world.apply(Object::Sequence(sequence(HOME, "csi", scene.spec.clone())));
    scene.world.apply(Object::Sequence(sequence(HOME, "other", scene.spec.clone())));
    let keys = ["csi", "other"].map(|name| Key::Sequence(sequence(HOME, name, scene.spec.clone()).uid));
    let patches = |scene: &Scene, key: Key| {
        let decision = decide(&scene.world.index, key, Settings { notes: true }, scene.world.now, usize::MAX);
        decision.actions.iter().filter(|action| matches!(action, Action::PatchNode(_))).count()
    };
    assert_eq!(keys.map(|key| patches(&scene, key)), [1, 1]);
    scene.world.index.sequences.mark_sent([keys[0].uid()], &"a".into());
    assert_eq!(keys.map(|key| patches(&scene, key)), [0, 0]);
    scene.world.index.take_touched();
    scene.world.index.mark_answered(&"a".into(), None);
    assert_eq!(keys.map(|key| patches(&scene, key)), [1, 1]);
    assert_eq!(scene.world.index.take_touched(), keys.into(), "who waited is asked again");
}

/// The marks of all sequences go into one write. If the API server rejects it, each sequence writes for itself, so that what is wrong
/// with one of them keeps no other from its nodes.
#[test]
fn sequences_write_to_a_node_together() {
    let mut scene = Scene::new(&["a"]);
    let names = ["csi", "other", "third"];
    let uids = names.map(|name| sequence(HOME, name, scene.spec.clone()).uid);
    names.iter().for_each(|name| {
        scene.world.apply(Object::Sequence(sequence(HOME, name, scene.spec.clone())));
    });
    let node: Arc<str> = "a".into();
    let parts = |scene: &Scene, uid: Uid| -> BTreeSet<Uid> {
        let (settings, now) = (Settings { notes: true }, scene.world.now);
        let decision = decide(&scene.world.index, Key::Sequence(uid), settings, now, usize::MAX);
        assert_eq!(check(&scene.world.index, Key::Sequence(uid), &decision, now), []);
        let patches = decision.actions.iter().filter_map(|action| match action {
            Action::PatchNode(patch) => Some(patch),
            _ => None,
        });
        patches.flat_map(|patch| patch.sequences()).collect()
    };
    for uid in uids {
        assert_eq!(parts(&scene, uid), uids.into());
    }
    scene.world.index.sequences.set_incomplete(&HOME.into(), true);
    assert_eq!(parts(&scene, uids[0]), [uids[0]].into(), "the members of the others are unknown");
    scene.world.index.sequences.set_incomplete(&HOME.into(), false);
    scene.world.index.sequences.mark_sent(uids, &node);
    let refusal = Refusal::new(false, "metadata.annotations: Too long", scene.world.now);
    scene.world.index.mark_refused(&node, refusal);
    scene.world.index.mark_answered(&node, None);
    for uid in uids {
        assert_eq!(parts(&scene, uid), [uid].into(), "one by one");
    }
    scene.settle();
    assert!(scene.world.take_done().marked >= 3, "each of them writes");
}

#[test]
fn a_quiet_cluster_is_written_to_once() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    assert_eq!(scene.world.take_done().marked, 2);
    scene.change_node("a", |node| node.version += 1);
    scene.world.restart();
    scene.settle();
    assert_eq!(scene.world.take_done().marked, 0);
}

#[test]
fn the_first_members_and_a_group_opened_by_hand_are_seen_on_nodes_where_nothing_else_happens() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.groups[0].members = Members::Selector(selector("app=other"));
    scene.spec.groups.push(group(2, Some("last"), Members::Selector(selector("app=last"))));
    let mut scene = scene.begin();
    let mut last = pod(HOME, "last", "last", "app=last", scene.world.now);
    last.constraints = constraints(Pin::Name("a".into()));
    scene.world.apply(Object::Pod(last));
    scene.settle();
    assert!(scene.is_held("last"));
    let mut known = scene.known_sequence().expect("it is there").clone();
    known.opened_by_hand = ["apps".into()].into();
    scene.world.apply(Object::Sequence(known));
    scene.settle();
    assert!(scene.is_held("last"), "nothing matches app=app");
    scene.app("app-1");
    assert!(!scene.is_held("last"), "a holds none of the apps that there are now");
}

#[test]
fn no_more_start_at_a_time_than_allowed_however_many_nodes_are_open() {
    let mut scene = Scene::new(&["a", "b", "c"]);
    scene.spec.groups[0].max_concurrent_starts = Some(2);
    let mut scene = scene.begin();
    ["a", "b", "c"].iter().for_each(|node| {
        let name = format!("driver-{node}");
        let mut pod = pod(HOME, &name, &name, "app=driver", scene.world.now);
        pod.constraints = constraints(Pin::Name((*node).into()));
        scene.world.apply(Object::Pod(pod));
    });
    scene.settle();
    assert!(!scene.is_held("driver-a") && !scene.is_held("driver-b") && scene.is_held("driver-c"));
    scene.ready_on("driver-a", "a");
    assert!(!scene.is_held("driver-c"));
}

#[test]
fn who_runs_on_a_node_before_its_turn_is_out_of_order_wherever_else_its_group_is_open() {
    let mut scene = Scene::new(&["a", "b"]).begin();
    scene.driver_on("a");
    scene.driver_on("b");
    scene.ready_on("driver-a", "a");
    for (name, node) in [("early", "b"), ("in-turn", "a")] {
        let mut pod = pod(HOME, name, name, "app=app", scene.world.now);
        (pod.gates, pod.node) = (Vec::new(), Some(node.into()));
        scene.world.apply(Object::Pod(pod));
    }
    scene.settle();
    let disorder = |scene: &Scene| {
        let conditions = scene.status().conditions.iter();
        let found = conditions.filter(|condition| condition.kind == ConditionKind::OutOfOrder);
        found.map(|condition| condition.message.clone()).collect::<String>()
    };
    assert_eq!(disorder(&scene), "early is running although its group \"apps\" is not open");
    scene.ready_on("driver-b", "b");
    assert_eq!(disorder(&scene), "");
}

#[test]
fn two_that_wrote_down_different_times_agree() {
    let mut scene = Scene::new(&["a"]).begin();
    let uid = scene.known_sequence().expect("it is there").uid;
    scene.world.take_done();
    scene.change_node("a", |node| {
        let journal = node.journals.get_mut(&uid).expect("it was seen");
        journal.groups.values_mut().for_each(|times| times.opened_at = Some(at(7)));
    });
    assert_eq!(scene.world.take_done().marked, 0, "the later time holds");
    scene.change_node("a", |node| {
        let journal = node.journals.get_mut(&uid).expect("it was seen");
        journal.groups.values_mut().for_each(|times| times.opened_at = Some(at(3)));
    });
    assert_eq!(scene.world.take_done().marked, 1, "and is written over an earlier one");
}

fn permit_taints(scene: &mut Scene, allow_node_taints: bool) {
    let permission = Namespace { name: HOME.into(), version: 0, allow_from: None, allow_node_taints };
    scene.world.apply(Object::Namespace(permission));
    scene.settle();
}

fn tainted(scene: &Scene) -> Vec<&str> {
    let carries = |node: &&Node| node.taints.iter().any(|taint| &*taint.key == DRIVER_KEY);
    scene.world.truth.nodes.values().filter(carries).map(|node| &*node.name).collect()
}

#[test]
fn taints_need_the_permission_of_an_administrator() {
    let mut scene = Scene::new(&["a"]);
    scene.spec.guard = NodeGuard::Taints;
    let mut scene = scene.begin();
    assert_eq!(tainted(&scene), Vec::<&str>::new(), "no node is touched");
    assert_eq!(scene.status().phase, Phase::Failed);
    let message = &scene.status().message;
    assert!(message.contains("podsequence.example.com/allow-node-taints"), "{message}");
    permit_taints(&mut scene, true);
    let message = &scene.status().message;
    assert!(message.contains("DaemonSet driver does not tolerate"), "{message}");
    assert_eq!(tainted(&scene), Vec::<&str>::new(), "its agents would never come");
}

/// With a template that tolerates it, the taint keeps off all other pods until the group is complete.
#[test]
fn taints_come_and_go_and_foreign_ones_stay_where_they_are() {
    let mut scene = Scene::new(&["a", "b"]);
    scene.spec.guard = NodeGuard::Taints;
    let foreign = Taint { key: "foreign".into(), value: "x".into(), effect: TaintEffect::PreferNoSchedule };
    scene.change_node("a", |node| node.taints = vec![foreign.clone()]);
    let mut driver = owner(OwnerKind::DaemonSet, HOME, "driver", "app=driver", 0);
    let toleration = Toleration { key: DRIVER_KEY.into(), value: None, effect: None, seconds: None };
    driver.placement = Some(Box::new(Placement { tolerations: vec![toleration], ..Placement::default() }));
    scene.world.apply(Object::Owner(driver));
    permit_taints(&mut scene, true);
    let mut scene = scene.begin();
    assert_eq!((tainted(&scene), scene.closed()), (vec!["a", "b"], Vec::new()), "taints, and no labels");
    scene.driver_on("a");
    scene.app("app-1");
    assert_eq!(scene.world.take_done().tolerated["driver-a"], [Arc::from(DRIVER_KEY)]);
    scene.ready_on("driver-a", "a");
    assert_eq!(tainted(&scene), ["b"]);
    let done = scene.world.take_done();
    assert_eq!((&*done.avoided["app-1"], &*done.tolerated["app-1"]), (&[keys::UNSEEN.into()][..], &[][..]));
    assert_eq!(scene.world.truth.nodes["a"].taints, [foreign]);
    permit_taints(&mut scene, false);
    assert_eq!(tainted(&scene), Vec::<&str>::new(), "the permission is withdrawn");
    permit_taints(&mut scene, true);
    assert_eq!(tainted(&scene), ["b"], "a has been complete");
}

/// Autoscalers recognise some taints by their prefix.
#[test]
fn taints_can_begin_with_something_else_and_old_ones_are_recognised() {
    let mut scene = Scene::new(&["a", "b"]);
    scene.spec.guard = NodeGuard::Taints;
    let mut driver = owner(OwnerKind::DaemonSet, HOME, "driver", "app=driver", 0);
    let everything = Toleration { key: "".into(), value: None, effect: None, seconds: None };
    driver.placement = Some(Box::new(Placement { tolerations: vec![everything], ..Placement::default() }));
    scene.world.apply(Object::Owner(driver));
    permit_taints(&mut scene, true);
    let mut scene = scene.begin();
    assert_eq!(tainted(&scene), ["a", "b"]);
    let taints = |scene: &Scene| -> BTreeSet<String> {
        let taints = scene.world.truth.nodes.values().flat_map(|node| &node.taints);
        taints.map(|taint| taint.key.to_string()).collect()
    };
    scene.world.taint_prefix = keys::TAINT_PREFIXES[1];
    scene.world.restart();
    scene.settle();
    let new = DRIVER_KEY.replace(keys::PREFIX, keys::TAINT_PREFIXES[1]);
    assert_eq!(taints(&scene), [new].into(), "and none of the old ones");
    // A later controller with another prefix removes the taints of a deleted sequence.
    scene.world.taint_prefix = keys::PREFIX;
    scene.world.present = false;
    let known = scene.known_sequence().expect("it is there").clone();
    scene.world.delete(Object::Sequence(known));
    scene.world.restart();
    scene.settle();
    assert_eq!(taints(&scene), BTreeSet::new());
}

#[test]
fn lite_mode_says_that_it_cannot() {
    let mut world = World::new();
    let mut with_nodes = spec(vec![group(0, None, Members::Selector(selector("app=a")))]);
    with_nodes.scope = Scope::Node;
    let sequence = sequence(HOME, "csi", with_nodes);
    world.apply(Object::Sequence(sequence.clone()));
    world.settle();
    let status = status_of(&world.decisions[&sequence.uid]).expect("of a living one");
    assert_eq!(
        (status.phase, &*status.message),
        (Phase::Failed, "spec.scope: Node needs a controller in Full mode; this one runs in Lite mode")
    );
}
