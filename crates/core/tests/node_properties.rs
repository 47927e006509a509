//! Node scope in random worlds: nodes are created, deleted and re-created, and pods are bound to them. Cached results of
//! earlier judgements always equal a judgement from scratch. [`World::decide`] compares the two at every decision.

use crate::support::build::{self, HOME, group, labels, node, owner, pod, selector, sequence};
use crate::support::world::World;
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use rollcall_core::Uid;
use rollcall_core::facts::{NodeConstraints, Owner, OwnerKind, OwnerRef, Pin, Pod, PodPhase};
use rollcall_core::index::Object;
use rollcall_core::node::{Drivers, Node, Placement, Taint, TaintEffect};
use rollcall_core::sequence::keys::{self, is_key};
use rollcall_core::sequence::spec::{Enforcement, Members, NodeReady, OnTimeout, Scope, Spec};
use rollcall_core::sequence::{Sequence, evaluate};
use std::sync::Arc;
use std::time::Duration;

const NODES: u8 = 4;
const APPS: u8 = 3;

#[derive(Clone, Debug)]
struct PlannedGroup {
    app: u8,
    /// Whether it names its pods.
    listed: bool,
    wait: bool,
    /// The action if the group is not complete after twenty seconds; `None`: no timeout.
    timeout: Option<OnTimeout>,
    limit: bool,
    on_ssd: bool,
    driver: bool,
    optional: bool,
    /// Whether it has no members and only waits for a driver.
    alone: bool,
}

#[derive(Clone, Debug)]
struct PlannedSequence {
    continuous: bool,
    groups: Vec<PlannedGroup>,
}

#[derive(Clone, Copy, Debug)]
enum NodeChange {
    OurLabelsRemoved,
    SsdLabelAdded,
    DiskLabelRemoved,
    ForeignTaintAdded,
    TaintsRemoved,
    JournalsRemoved,
    /// The node is written without changes.
    Nothing,
}

impl NodeChange {
    fn any() -> impl Strategy<Value = NodeChange> {
        (0..7u8).prop_map(|number| match number {
            0 => NodeChange::OurLabelsRemoved,
            1 => NodeChange::SsdLabelAdded,
            2 => NodeChange::DiskLabelRemoved,
            3 => NodeChange::ForeignTaintAdded,
            4 => NodeChange::TaintsRemoved,
            5 => NodeChange::JournalsRemoved,
            _ => NodeChange::Nothing,
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum PodChange {
    Deleted,
    Terminating,
    NotReady,
    Failed,
    /// Becomes ready, unless a gate holds the pod.
    Ready,
}

impl PodChange {
    /// A third of all changes are `Ready`.
    fn any() -> impl Strategy<Value = PodChange> {
        (0..6u8).prop_map(|number| match number {
            0 => PodChange::Deleted,
            1 => PodChange::Terminating,
            2 => PodChange::NotReady,
            3 => PodChange::Failed,
            _ => PodChange::Ready,
        })
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Join {
        node: u8,
        unseen: bool,
    },
    Leave {
        node: u8,
        terminating: bool,
    },
    ChangeNode {
        node: u8,
        change: NodeChange,
    },
    Drivers {
        node: u8,
        registered: bool,
    },
    DaemonSet {
        app: u8,
        there: bool,
        only_ssd: bool,
    },
    Daemon {
        app: u8,
        node: u8,
        gated: bool,
    },
    App {
        app: u8,
        number: u8,
        pinned: Option<u8>,
    },
    Land {
        app: u8,
        number: u8,
        node: u8,
    },
    /// The first numbers are the pods of the DaemonSet, by node; the others are those of the app.
    ChangePod {
        app: u8,
        which: u8,
        change: PodChange,
    },
    Edit {
        which: u8,
        to: PlannedSequence,
    },
    Suspend {
        which: u8,
        suspend: bool,
    },
    OpenByHand {
        which: u8,
        group: u8,
    },
    Delete {
        which: u8,
    },
    Time {
        seconds: u8,
    },
    Budget {
        budget: u8,
    },
    Restart,
    Relist,
}

fn planned_sequence() -> impl Strategy<Value = PlannedSequence> {
    let flag = || prop::bool::weighted(0.2);
    let timeout = (0..6u8).prop_map(|number| match number {
        0 => Some(OnTimeout::Fail),
        1 => Some(OnTimeout::Continue),
        _ => None,
    });
    let group = (0..APPS, flag(), flag(), timeout, flag(), flag(), flag(), flag(), any::<bool>()).prop_map(
        |(app, listed, wait, timeout, limit, on_ssd, driver, optional, alone)| PlannedGroup {
            app,
            listed,
            wait,
            timeout,
            limit,
            on_ssd,
            driver,
            optional,
            alone,
        },
    );
    (any::<bool>(), prop::collection::vec(group, 1..=4))
        .prop_map(|(continuous, groups)| PlannedSequence { continuous, groups })
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    prop_oneof![
        4 => (0..NODES, prop::bool::weighted(0.3)).prop_map(|(node, unseen)| Join { node, unseen }),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, terminating)| Leave { node, terminating }),
        3 => (0..NODES, NodeChange::any()).prop_map(|(node, change)| ChangeNode { node, change }),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, registered)| Drivers { node, registered }),
        2 => (0..APPS, prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(app, there, only_ssd)| DaemonSet { app, there, only_ssd }),
        6 => (0..APPS, 0..NODES, prop::bool::weighted(0.8))
            .prop_map(|(app, node, gated)| Daemon { app, node, gated }),
        4 => (0..APPS, 0..3u8, prop::option::weighted(0.3, 0..NODES))
            .prop_map(|(app, number, pinned)| App { app, number, pinned }),
        4 => (0..APPS, 0..3u8, 0..NODES).prop_map(|(app, number, node)| Land { app, number, node }),
        10 => (0..APPS, 0..7u8, PodChange::any())
            .prop_map(|(app, which, change)| ChangePod { app, which, change }),
        1 => (0..2u8, planned_sequence()).prop_map(|(which, to)| Edit { which, to }),
        1 => (0..2u8, any::<bool>()).prop_map(|(which, suspend)| Suspend { which, suspend }),
        1 => (0..2u8, 0..4u8).prop_map(|(which, group)| OpenByHand { which, group }),
        1 => (0..2u8).prop_map(|which| Delete { which }),
        3 => (0..40u8).prop_map(|seconds| Time { seconds }),
        1 => (1..5u8).prop_map(|budget| Budget { budget }),
        1 => Just(Restart),
        1 => Just(Relist),
    ]
}

fn spec(planned: &PlannedSequence) -> Spec {
    let groups = planned.groups.iter().enumerate().map(|(position, planned)| {
        let names: Vec<String> = (0..2).map(|number| app_name(planned.app, number)).collect();
        let members = match planned.listed {
            _ if planned.driver && planned.alone => Members::None,
            true => build::names(&names.iter().map(String::as_str).collect::<Vec<_>>()),
            false => Members::Selector(selector(&format!("app=a{}", planned.app))),
        };
        let mut group = group(position, Some(&format!("g{position}")), members);
        group.wait = Duration::from_secs(if planned.wait { 10 } else { 0 });
        (group.timeout, group.on_timeout) = match planned.timeout {
            Some(on_timeout) => (Some(Duration::from_secs(20)), on_timeout),
            None => (None, OnTimeout::Fail),
        };
        group.max_concurrent_starts = planned.limit.then_some(1);
        group.node_selector = labels(if planned.on_ssd { "disk=ssd" } else { "" });
        group.node_ready = planned.driver.then(|| NodeReady::CsiDriver("csi".into()));
        group.optional = planned.optional && group.members != Members::None;
        group
    });
    let enforcement = if planned.continuous { Enforcement::Continuous } else { Enforcement::Bootstrap };
    Spec { scope: Scope::Node, enforcement, ..build::spec(groups.collect()) }
}

fn app_name(app: u8, number: u8) -> String {
    format!("app-{app}-{number}")
}

fn node_name(node: u8) -> String {
    format!("n{node}")
}

struct Run {
    world: World,
    created: u32,
}

impl Run {
    fn happen(&mut self, happening: &Happening) {
        use Happening::*;
        match happening {
            Join { node: which, unseen } => self.join(*which, *unseen),
            Leave { node, terminating } => {
                let Some(known) = self.world.truth.nodes.get(&*node_name(*node)).cloned() else { return };
                match terminating {
                    true => self.world.apply(Object::Node(Node { terminating: true, ..known })),
                    false => self.world.delete(Object::Node(known)),
                }
            }
            ChangeNode { node, change } => self.change_node(*node, *change),
            Drivers { node, registered } => {
                let names = registered.then(|| Arc::from("csi")).into_iter().collect();
                let drivers = self::Drivers { node: node_name(*node).into(), of: None, version: 0, names };
                self.world.apply(Object::Drivers(drivers));
            }
            DaemonSet { app, there, only_ssd } => self.daemon_set(*app, *there, *only_ssd),
            Daemon { app, node, gated } => self.daemon(*app, *node, *gated),
            App { app, number, pinned } => {
                let pin = pinned.map(|node| Pin::Hostname(node_name(node).into()));
                self.create(&app_name(*app, *number), *app, pin, true);
            }
            Land { app, number, node } => self.change_pod(&app_name(*app, *number), |pod| {
                if pod.gates.is_empty() && pod.node.is_none() {
                    pod.node = Some(node_name(*node).into());
                }
            }),
            ChangePod { app, which, change } => {
                let name = match which {
                    0..NODES => format!("daemon-{app}-{}", node_name(*which)),
                    _ => app_name(*app, which - NODES),
                };
                self.happen_to_pod(&name, *change);
            }
            Edit { which, to } => self.edit(*which, |sequence| {
                sequence.generation += 1;
                sequence.spec = Ok(Arc::new(spec(to)));
            }),
            Suspend { which, suspend } => self.edit(*which, |sequence| {
                sequence.generation += 1;
                sequence.spec.iter_mut().for_each(|spec| Arc::make_mut(spec).suspend = *suspend);
            }),
            OpenByHand { which, group } => self.edit(*which, |sequence| {
                sequence.opened_by_hand.insert(format!("g{group}").into());
            }),
            Delete { which } => {
                if let Some(sequence) = self.sequence(*which) {
                    self.world.delete(Object::Sequence(sequence));
                }
            }
            Time { seconds } => self.world.now += SignedDuration::from_secs(i64::from(*seconds)),
            Budget { budget } => self.world.budget = usize::from(*budget),
            Restart => self.world.restart(),
            Relist => self.world.relist(),
        }
    }

    fn join(&mut self, which: u8, unseen: bool) {
        let name = node_name(which);
        if self.world.truth.nodes.contains_key(&*name) {
            return;
        }
        self.created += 1;
        let labels = labels(if unseen { "disk=ssd" } else { "" });
        let mut new = Node { uid: Uid::digest(&format!("{name} {}", self.created)), ..node(&name) };
        new.labels = match unseen {
            true => labels.iter().cloned().chain([(keys::UNSEEN.into(), "true".into())]).collect(),
            false => labels,
        };
        self.world.apply(Object::Node(new));
    }

    fn change_node(&mut self, which: u8, change: NodeChange) {
        let Some(mut node) = self.world.truth.nodes.get(&*node_name(which)).cloned() else { return };
        match change {
            NodeChange::OurLabelsRemoved => {
                node.labels = node.labels.iter().filter(|(key, _)| !is_key(key)).cloned().collect()
            }
            NodeChange::SsdLabelAdded => {
                node.labels = node.labels.iter().cloned().chain([("disk".into(), "ssd".into())]).collect()
            }
            NodeChange::DiskLabelRemoved => {
                node.labels = node.labels.iter().filter(|(key, _)| **key != *"disk").cloned().collect()
            }
            NodeChange::ForeignTaintAdded => {
                node.taints =
                    vec![Taint { key: "t".into(), value: "".into(), effect: TaintEffect::NoSchedule }]
            }
            NodeChange::TaintsRemoved => node.taints.clear(),
            NodeChange::JournalsRemoved => node.journals.clear(),
            NodeChange::Nothing => {}
        }
        self.world.apply(Object::Node(node));
    }

    fn known_set(&self, app: u8) -> Option<Owner> {
        let name = format!("daemon-{app}");
        self.world.truth.owners.values().find(|owner| *owner.name == *name).cloned()
    }

    fn daemon_set(&mut self, app: u8, there: bool, only_ssd: bool) {
        let known = self.known_set(app);
        if !there {
            return known.into_iter().for_each(|known| self.world.delete(Object::Owner(known)));
        }
        self.created += 1;
        let (name, nodes) = (format!("daemon-{app}"), self.world.truth.nodes.len() as u32);
        let node_selector = labels(if only_ssd { "disk=ssd" } else { "" });
        self.world.apply(Object::Owner(Owner {
            uid: known.map_or_else(|| Uid::digest(&format!("{name} {}", self.created)), |known| known.uid),
            placement: Some(Box::new(Placement { node_selector, ..Placement::default() })),
            ..owner(OwnerKind::DaemonSet, HOME, &name, &format!("app=a{app}"), nodes)
        }));
    }

    fn daemon(&mut self, app: u8, node: u8, gated: bool) {
        let (Some(set), node) = (self.known_set(app), node_name(node)) else { return };
        let name = format!("daemon-{app}-{node}");
        self.create(&name, app, Some(Pin::Name(node.as_str().into())), gated);
        self.change_pod(&name, |pod| {
            pod.owner = Some(OwnerRef { kind: OwnerKind::DaemonSet, uid: set.uid });
            if pod.gates.is_empty() {
                pod.node = Some(node.as_str().into());
            }
        });
    }

    fn create(&mut self, name: &str, app: u8, pin: Option<Pin>, gated: bool) {
        if self.world.pod_named(HOME, name).is_some() {
            return;
        }
        self.created += 1;
        let uid = format!("{name} {}", self.created);
        let mut new = pod(HOME, name, &uid, &format!("app=a{app}"), self.world.now);
        new.constraints = NodeConstraints { pin, ..NodeConstraints::default() }.kept();
        if !gated {
            new.gates.clear();
        }
        self.world.apply(Object::Pod(new));
    }

    fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(mut pod) = self.world.pod_named(HOME, name).cloned() {
            change(&mut pod);
            self.world.apply(Object::Pod(pod));
        }
    }

    fn happen_to_pod(&mut self, name: &str, change: PodChange) {
        let Some(known) = self.world.pod_named(HOME, name).cloned() else { return };
        let node = known.node.clone().or_else(|| known.pin().map(|_| "n0".into()));
        match change {
            PodChange::Deleted => self.world.delete(Object::Pod(known)),
            PodChange::Terminating => self.change_pod(name, |pod| pod.terminating = true),
            PodChange::NotReady => self.change_pod(name, |pod| pod.ready = false),
            PodChange::Failed => self.change_pod(name, |pod| pod.phase = PodPhase::Failed),
            PodChange::Ready if known.gates.is_empty() => self.change_pod(name, |pod| {
                let running = (PodPhase::Running, true, true);
                (pod.phase, pod.ready, pod.started) = running;
                pod.node = pod.node.clone().or(node);
            }),
            PodChange::Ready => {}
        }
    }

    fn sequence(&self, which: u8) -> Option<Sequence> {
        let name = format!("s{which}");
        self.world.truth.sequences.values().find(|sequence| *sequence.name == *name).cloned()
    }

    fn edit(&mut self, which: u8, change: impl FnOnce(&mut Sequence)) {
        if let Some(mut sequence) = self.sequence(which) {
            change(&mut sequence);
            self.world.apply(Object::Sequence(sequence));
        }
    }

    /// When nothing is in progress, an index that receives all facts at once makes the same judgements.
    fn assert_same_from_scratch(&mut self) {
        let mut fresh = World::of_mode(true);
        (fresh.now, fresh.version) = (self.world.now, self.world.version);
        crate::support::world::list_all(&mut fresh.index, &self.world.truth.objects(), self.world.version);
        for sequence in self.world.truth.sequences.values() {
            let (kept, new) =
                (self.world.index.sequences.get(sequence.uid), fresh.index.sequences.get(sequence.uid));
            let (kept, new) = (kept.expect("told"), new.expect("told"));
            let kept = evaluate(self.world.index.facts(), kept, self.world.now);
            let new = evaluate(fresh.index.facts(), new, self.world.now);
            for node in self.world.truth.nodes.values().filter(|node| !node.terminating) {
                let views = (kept.nodes.get(&node.name), new.nodes.get(&node.name));
                assert_eq!(
                    views.0.map(|there| &there.here),
                    views.1.map(|there| &there.here),
                    "{}",
                    node.name
                );
                let states = |there: &rollcall_core::sequence::views::Judged| {
                    there
                        .view
                        .groups
                        .iter()
                        .map(|view| (view.state(), view.expected, view.arrived))
                        .collect::<Vec<_>>()
                };
                assert_eq!(views.0.map(states), views.1.map(states), "{}", node.name);
            }
            let states = |views: &[rollcall_core::sequence::GroupView]| {
                views.iter().map(|view| (view.state(), view.expected, view.required)).collect::<Vec<_>>()
            };
            assert_eq!(states(&kept.groups), states(&new.groups));
        }
    }
}

// The core must not read its environment, but its tests may.
#[allow(clippy::disallowed_methods)]
fn config() -> Config {
    let seed = std::env::var("ROLLCALL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let rng_seed = RngSeed::Fixed(seed);
    Config { cases: 300, max_shrink_iters: 4000, failure_persistence: None, rng_seed, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_kept_of_nodes_is_what_is_there(
        sequences in prop::collection::vec(planned_sequence(), 1..=2),
        events in prop::collection::vec(happening(), 0..60),
    ) {
        let mut run = Run { world: World::of_mode(true), created: 0 };
        for (number, planned) in sequences.iter().enumerate() {
            run.world.apply(Object::Sequence(sequence(HOME, &format!("s{number}"), spec(planned))));
        }
        for event in &events {
            run.happen(event);
            run.world.settle();
        }
        run.world.budget = 1000;
        run.world.settle();
        run.assert_same_from_scratch();
    }
}
