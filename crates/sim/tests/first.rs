//! Runs the production controller in the embedded cluster in virtual time.

use jiff::Timestamp;
use rollcall_controller::clock::Clock;
use rollcall_sim::embedded::Embedded;
use rollcall_sim::kinds::Kind;
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn three_pods_one_after_the_other() {
    let clock = Clock::starting_at(Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 55));
    let embedded = Embedded::new(clock, 1);
    let client = embedded.client(rollcall_sim::store::Author::Controller(0));
    let shared = embedded.shared.clone();
    {
        let mut cluster = shared.lock();
        cluster.create(Kind::Node, json!({ "metadata": { "name": "node-1" } })).expect("a node");
        cluster
            .create(Kind::Namespace, json!({ "metadata": { "name": "pod-sequence-system" } }))
            .expect("ours");
        let groups: Vec<_> = ["a", "b", "c"].iter().map(|name| json!({ "pods": [name] })).collect();
        let sequence =
            json!({ "metadata": { "name": "s", "namespace": "default" }, "spec": { "podGroups": groups } });
        cluster.create(Kind::PodSequence, sequence).expect("a sequence");
        for name in ["c", "b", "a"] {
            let pod = json!({
                "metadata": { "name": name, "namespace": "default" },
                "spec": {
                    "schedulingGates": [{ "name": "podsequence.example.com/sequence-gate" }],
                    "containers": [{ "name": "x", "image": "x" }],
                },
            });
            cluster.create(Kind::Pod, pod).expect("a pod");
        }
    }
    let config = rollcall_controller::Config {
        full: false,
        taint_prefix: rollcall_core::sequence::keys::PREFIX,
        namespace: "pod-sequence-system".into(),
        metrics_bind_address: None,
        health_probe_bind_address: None,
        leader_elect: false,
        lease_duration: Duration::from_secs(15),
        identity: "test".into(),
        max_in_flight: 8,
        reservations: false,
        guardians: rollcall_controller::plain_guardians(),
        dry_run: false,
        seed: 1,
    };
    let stop = CancellationToken::new();
    let controller = rollcall_controller::run(client, config, clock, stop.clone());
    let finished = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let phase = {
                let cluster = shared.lock();
                let sequence =
                    cluster.store.find(Kind::PodSequence, "default", "s").expect("the object exists").clone();
                sequence["status"]["phase"].clone()
            };
            if phase == "Completed" {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = finished => {}
        () = embedded.run() => unreachable!("the cluster never ends"),
        ended = controller => panic!("the controller ended: {ended:?}"),
        () = tokio::time::sleep(Duration::from_secs(600)) => panic!("not complete after ten minutes"),
    }
    println!("complete after {:?}", clock.elapsed());
}
