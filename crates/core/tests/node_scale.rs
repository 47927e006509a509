//! The cost of an event on one node does not depend on the number of nodes. It is counted, not timed: judgements and
//! allocations are the same in every run and on every machine.

use crate::support::build::{HOME, group, node, owner, owner_ref, pod, selector, sequence, spec, start};
use crate::support::world::{list_all, status_of};
use crate::{ALLOCATIONS, ONE_AT_A_TIME};
use rollcall_core::Uid;
use rollcall_core::decision::{Action, Keep, NodeMarks, NodePatch};
use rollcall_core::dispatch::{check, decide, keep};
use rollcall_core::facts::{NodeConstraints, OwnerKind, Pin, PodPhase};
use rollcall_core::index::{Answer, Index, Object};
use rollcall_core::key::Key;
use rollcall_core::node::Node;
use rollcall_core::sequence::spec::{Members, Scope, Spec};
use rollcall_core::sequence::{Phase, Settings};
use std::sync::atomic::Ordering;

#[derive(Debug)]
struct Cost {
    decisions: usize,
    judgements: usize,
    marks: usize,
    allocations: usize,
}

/// A controller without a cluster: its decisions take effect immediately.
struct Loop {
    index: Index,
    uid: Uid,
    version: u64,
    cost: Cost,
}

/// The number of writes that a controller has in flight.
const BUDGET: usize = 8;

impl Loop {
    /// Creates `nodes` nodes, each with a pod of a DaemonSet and of a second agent that waits for it, and eight pods without a
    /// node.
    fn begin(nodes: usize) -> Loop {
        let select = |text: &str| Members::Selector(selector(text));
        let groups = vec![
            group(0, Some("driver"), select("app=driver")),
            group(1, Some("agent"), select("app=agent")),
            group(2, Some("apps"), select("app=app")),
        ];
        let sequence = sequence(HOME, "csi", Spec { scope: Scope::Node, ..spec(groups) });
        let uid = sequence.uid;
        let mut objects: Vec<Object> = (0..nodes).map(|at| Object::Node(node(&name(at)))).collect();
        for set in ["driver", "agent"] {
            let labels = format!("app={set}");
            objects.push(Object::Owner(owner(OwnerKind::DaemonSet, HOME, set, &labels, nodes as u32)));
            for at in 0..nodes {
                let pod_name = format!("{set}-{}", name(at));
                let mut pod = pod(HOME, &pod_name, &pod_name, &labels, start());
                pod.owner = Some(owner_ref(OwnerKind::DaemonSet, HOME, set));
                pod.constraints = NodeConstraints {
                    pin: Some(Pin::Name(name(at).as_str().into())),
                    ..NodeConstraints::default()
                }
                .kept();
                objects.push(Object::Pod(pod));
            }
        }
        for at in 0..8 {
            let name = format!("app-{at}");
            objects.push(Object::Pod(pod(HOME, &name, &name, "app=app", start())));
        }
        objects.push(Object::Sequence(sequence));
        let mut index = Index::of_full_mode();
        list_all(&mut index, &objects, 1);
        let cost = Cost { decisions: 0, judgements: 0, marks: 0, allocations: 0 };
        Loop { index, uid, version: 1, cost }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn settle(&mut self) -> Phase {
        let mut phase = Phase::Pending;
        let mut more = false;
        let key = Key::Sequence(self.uid);
        while more || self.index.take_touched().contains(&key) {
            let decision = decide(&self.index, key, Settings { notes: false }, start(), BUDGET);
            assert_eq!(check(&self.index, key, &decision, start()), []);
            self.cost.decisions += 1;
            if let Keep::Sequence { nodes, .. } = &decision.keep {
                self.cost.judgements += nodes.nodes.len();
            }
            more = decision.more;
            phase = status_of(&decision).expect("it lives").phase;
            keep(&mut self.index, key, decision.keep);
            decision.actions.into_iter().for_each(|action| self.act(action));
        }
        phase
    }

    fn act(&mut self, action: Action) {
        let version = self.next_version();
        match action {
            Action::PatchNode(NodePatch { name, mut parts, .. }) => {
                self.cost.marks += 1;
                let NodeMarks { sequence, marks } = parts.pop().expect("there is one sequence");
                self.index.sequences.mark_sent([sequence], &name);
                let mut node: Node = self.index.cluster.node(&name).expect("it is there").clone();
                let kept = node.labels.iter().filter(|(key, _)| !marks.labels.contains_key(key));
                let added =
                    marks.labels.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
                node.labels = kept.cloned().chain(added).collect();
                node.version = version;
                if let Some(Some(journal)) = marks.journal {
                    node.journals.insert(sequence, journal);
                }
                self.index.mark_answered(&name, Some(node));
            }
            Action::PatchPod(patch) => {
                self.index.pod_write_sent(&patch.target(), patch.effect());
                let mut pod = self.index.cluster.pod(patch.uid).expect("it is there").clone();
                (pod.version, pod.gates) = (version, Vec::new());
                self.index.pod_write_answered(pod.uid, Answer::Done(Box::new(pod)));
            }
            Action::WriteNote { .. } | Action::DropNote { .. } | Action::WriteBarrier(_) => {}
            Action::Create(_) | Action::Delete(_) | Action::WriteTicket(_) | Action::Nominate(_) => {}
        }
    }

    fn ready(&mut self, pod: &str, node: &str) {
        let mut pod = self.index.cluster.pod_named(HOME, pod).expect("it is there").clone();
        pod.version = self.next_version();
        (pod.phase, pod.ready, pod.started) = (PodPhase::Running, true, true);
        pod.node = Some(node.into());
        self.index.apply(Object::Pod(pod));
    }
}

fn name(node: usize) -> String {
    format!("node-{node:05}")
}

/// Measures a run: all pods become ready, one after the other, and one more node is created and deleted.
fn cost(nodes: usize) -> Cost {
    let mut all = Loop::begin(nodes);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    all.settle();
    for set in ["driver", "agent"] {
        for at in 0..nodes {
            all.ready(&format!("{set}-{}", name(at)), &name(at));
            all.settle();
        }
    }
    let mut phase = Phase::Pending;
    for at in 0..8 {
        all.ready(&format!("app-{at}"), &name(at));
        phase = all.settle();
    }
    assert_eq!(phase, Phase::Completed);
    all.cost.allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    all.cost
}

#[test]
fn what_happens_on_a_node_costs_the_same_among_many() {
    let _alone = ONE_AT_A_TIME.lock().expect("the other one did not fail");
    // Both numbers exceed the length of the lists in the status: below that length, the lists also grow.
    let (few, many) = (cost(300), cost(1200));
    println!("{few:?}\n{many:?}");
    assert!(many.judgements <= 4 * few.judgements + 100, "nodes where nothing happened are judged again");
    assert!(many.judgements <= 8 * 1200, "{} judgements for 1200 nodes", many.judgements);
    assert_eq!(many.marks, 4 * few.marks, "a node is written to as often");
    assert!(many.decisions <= 4 * few.decisions + 100, "no more decisions than events");
    assert!(many.allocations <= few.allocations * 42 / 10, "four times the nodes, four times the work");
}
