//! Cases that random runs do not cover: dead watches, foreign actors that never stop writing, a power failure of the
//! cluster, and deletions without a controller.

use rollcall_api::names;
use rollcall_sim::chaos::batch::Calm;
use rollcall_sim::chaos::fault::{Fault, Planned};
use rollcall_sim::chaos::lab::Lab;
use rollcall_sim::chaos::plan::FaultPlan;
use rollcall_sim::chaos::run::run;
use rollcall_sim::chaos::world;
use rollcall_sim::kinds::Kind;
use rollcall_sim::store::Key;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
/// Seeds of worlds with sequences in Node scope.
const BY_LABELS: u64 = 8;
const BY_TAINTS: u64 = 9;
/// A seed of the world in which containers start in order.
const LAUNCH: u64 = 5;

fn plan(seed: u64, fault: Fault, when: impl IntoIterator<Item = u64>) -> FaultPlan {
    FaultPlan { seed, faults: when.into_iter().map(|when| Planned { fault, when }).collect() }
}

/// Runs a story in the world of a seed, in virtual time, with the embedded cluster.
fn in_world(seed: u64, story: impl AsyncFnOnce(&Lab)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without sockets needs nothing").block_on(async {
        let (lab, embedded) = Lab::new(&FaultPlan::calm(seed));
        tokio::select! {
            biased;
            () = story(&lab) => {}
            () = embedded.run() => unreachable!("the cluster never ends"),
        }
        assert_eq!(lab.history.state().violations, []);
    });
}

/// Runs a controller for some time, then ends it.
async fn work(lab: &Lab, time: Duration) {
    let ended = timeout(time, lab.process(0, false).run_for_ever()).await;
    assert!(ended.is_err(), "the process is always restarted");
}

/// S11: if any watch dies, `/livez` fails, and the restart by the kubelet helps.
#[test]
fn no_watch_dies_silently() {
    let calm = Calm::new();
    let lite = (1..=9).map(|number| (0, number));
    // Full mode has two more: nodes and CSINodes.
    let full = (1..=11).map(|number| (BY_LABELS, number));
    for (seed, number) in lite.chain(full) {
        let plan = plan(seed, Fault::Hang, [number]);
        let outcome = run(&plan);
        assert_eq!(calm.broken(&plan, &outcome), [], "{}", plan.command());
        assert_eq!((outcome.counts[&Fault::Hang], outcome.starts), (1, 2), "{}", plan.command());
    }
}

/// L3: the number of writes for launch order without faults is two per rank. One more write is needed only if the pod finds
/// the ConfigMap of an earlier pod with its name.
#[test]
fn a_pod_of_three_ranks_costs_six_writes() {
    let mut ordered = run(&FaultPlan::calm(LAUNCH)).ordered;
    ordered.sort_by(|one, other| (&one.name, one.written).cmp(&(&other.name, other.written)));
    assert!(ordered.iter().all(|pod| pod.ranks == 3 && pod.nudged == 0), "{ordered:?}");
    let written: Vec<(&str, u64)> = ordered.iter().map(|pod| (&pod.name[..3], pod.written)).collect();
    let expected = [("bat", 6), ("sha", 6), ("sto", 6), ("sto", 7), ("tak", 0), ("web", 6)];
    assert_eq!(written, expected);
    assert!(ordered.iter().all(|pod| pod.written <= pod.most_written()));
}

/// L5: a foreign actor writes between each decision and its write.
#[test]
fn a_foreign_writer_does_not_stop_us() {
    let calm = Calm::new();
    for seed in world::seeds() {
        let plan = plan(seed, Fault::Raced, 1..=40);
        let outcome = run(&plan);
        assert_eq!(calm.broken(&plan, &outcome), [], "{}", plan.command());
        assert!(outcome.counts[&Fault::Raced] > 20, "{:?}", outcome.counts);
    }
}

/// L6: nodes, pods, our namespace and the controller disappear and reappear at the same time.
#[test]
fn a_cold_start_needs_no_hand() {
    for seed in [0, 2, LAUNCH, BY_LABELS, BY_TAINTS] {
        in_world(seed, async |lab| {
            work(lab, 60 * SECOND).await;
            assert_eq!(world::unfinished(lab.world, &lab.shared.lock(), false), None);
            let lost = power_cut(lab);
            sleep(5 * SECOND).await;
            {
                let mut cluster = lab.shared.lock();
                world::NODES.iter().for_each(|node| world::create_node(&mut cluster, node));
                world::create_own_namespace(&mut cluster);
                lost.iter().for_each(|pod| lab.world.create_pod_again(&mut cluster, pod));
            }
            lab.shared.notify();
            work(lab, 60 * SECOND).await;
            assert_eq!(world::unfinished(lab.world, &lab.shared.lock(), false), None);
        });
    }
}

/// Deletes all nodes, pods and our namespace. Returns the pods that no workload will re-create.
fn power_cut(lab: &Lab) -> Vec<serde_json::Value> {
    let mut cluster = lab.shared.lock();
    let pods: Vec<Key> = cluster.store.list(Kind::Pod, None).map(|(key, _)| key.clone()).collect();
    let bare = cluster.store.list(Kind::Pod, None).map(|(_, pod)| pod.value.clone());
    let bare: Vec<_> = bare.filter(|pod| pod["metadata"]["ownerReferences"].is_null()).collect();
    for node in world::NODES {
        cluster.delete(&Key::new(Kind::Node, "", node)).expect("the object exists");
    }
    pods.iter().for_each(|pod| drop(cluster.delete_now(pod)));
    cluster.delete(&Key::new(Kind::Namespace, "", names::OWN_NAMESPACE)).expect("the object exists");
    drop(cluster);
    lab.shared.notify();
    bare
}

/// L4: everything that the controller has written to can be deleted while it is down, both during a start and afterwards.
#[test]
fn everything_can_be_deleted_while_we_are_absent() {
    let kinds = [
        Kind::PodSequence,
        Kind::Order,
        Kind::Ticket,
        Kind::Deployment,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
        Kind::Pod,
        Kind::Node,
    ];
    for (seed, worked) in world::seeds().flat_map(|seed| [(seed, 3), (seed, 60)]) {
        in_world(seed, async |lab| {
            work(lab, worked * SECOND).await;
            {
                let mut cluster = lab.shared.lock();
                let all = kinds.iter().flat_map(|kind| cluster.store.list(*kind, None));
                let all: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
                assert!(all.len() > 4, "there is little to delete");
                all.iter().for_each(|key| drop(cluster.delete(key)));
                let own = Key::new(Kind::Namespace, "", names::OWN_NAMESPACE);
                cluster.delete(&own).expect("the object exists");
            }
            lab.shared.notify();
            sleep(60 * SECOND).await;
            let cluster = lab.shared.lock();
            let left = kinds
                .iter()
                .flat_map(|kind| cluster.store.list(*kind, None))
                .map(|(key, _)| key.name.clone());
            assert_eq!(left.collect::<Vec<_>>(), Vec::<std::sync::Arc<str>>::new(), "seed {seed}");
            assert!(cluster.store.find(Kind::Namespace, "", names::OWN_NAMESPACE).is_none());
        });
    }
}

/// A sequence is deleted while the answer to the creation of its note is delayed.
#[test]
fn a_note_that_is_being_written_when_its_sequence_goes_is_removed() {
    let plan = FaultPlan::given(1, "sequence-recreated@2621,slow-answer@1").expect("a plan");
    assert_eq!(Calm::new().broken(&plan, &run(&plan)), [], "{}", plan.command());
}

/// S8: a write is queued in the client when the process is paused. When the process continues, another one leads.
#[test]
fn nothing_goes_out_after_a_pause_in_which_the_lease_was_lost() {
    let plan = FaultPlan::given(6, "pause@5429,evicted@729").expect("a plan");
    assert_eq!(Calm::new().broken(&plan, &run(&plan)), [], "{}", plan.command());
}

/// S6: a leader with delayed news of pods must not mistake the ConfigMap of the newest pod with a name for that of an older
/// pod.
#[test]
fn who_sees_an_old_pod_does_not_delete_the_config_map_of_the_new_one() {
    let calm = Calm::new();
    for (seed, faults) in [
        (2395, "two-leaders@4328,behind@15,recreated@7253"),
        (2565, "two-leaders@7511,behind@15,recreated@1336"),
    ] {
        let plan = FaultPlan::given(seed, faults).expect("a plan");
        assert_eq!(calm.broken(&plan, &run(&plan)), [], "{}", plan.command());
    }
}

/// An annotation about a rank is still being written when its pod is ready. This must not delay the next group.
#[test]
fn a_write_for_the_order_of_containers_does_not_keep_the_next_group() {
    let plan = FaultPlan::given(4365, "list-500@6,slow-answer@22").expect("a plan");
    assert_eq!(Calm::new().broken(&plan, &run(&plan)), [], "{}", plan.command());
}
