//! The memory of a watched pod, counted in bytes: ten thousand pods are stored. Also, a sequence costs nothing in a namespace
//! that does not permit it.

use crate::support::build;
use crate::{LIVE, ONE_AT_A_TIME};
use rollcall_core::facts::{OwnerKind, OwnerRef, Pod, PodPhase};
use rollcall_core::index::{Index, Object};
use rollcall_core::sequence::spec::Members;
use rollcall_core::{Timestamp, Uid};
use std::sync::atomic::Ordering;

const PODS: usize = 10_000;
/// The documented limit is 1.5 KiB per pod for the process, including overhead of the allocator and of list pages.
const BYTES_PER_POD: usize = 600;

fn pod(number: usize) -> Pod {
    Pod {
        uid: Uid::digest(&number.to_string()),
        namespace: "some-namespace".into(),
        name: format!("some-deployment-5f6d8b9c7d-{number:05}").as_str().into(),
        version: number as u64 + 1,
        labels: [("app", "some"), ("pod-template-hash", "5f6d8b9c7d")].into_iter().collect(),
        owner: Some(OwnerRef { kind: OwnerKind::ReplicaSet, uid: Uid::digest("owner") }),
        gates: vec!["podsequence.example.com/sequence-gate".into()],
        node: None,
        nominated: None,
        constraints: None,
        phase: PodPhase::Pending,
        ready: false,
        started: false,
        runs_to_completion: false,
        terminating: false,
        released_by_hand: false,
        created: Timestamp::UNIX_EPOCH,
        since: Timestamp::UNIX_EPOCH,
        trouble: None,
        launch: None,
        request: None,
    }
}

#[test]
fn a_watched_pod_is_small() {
    let _alone = ONE_AT_A_TIME.lock().expect("the other one did not fail");
    let mut index = Index::default();
    let before = LIVE.load(Ordering::Relaxed);
    (0..PODS).for_each(|number| index.apply(Object::Pod(pod(number))));
    let each = (LIVE.load(Ordering::Relaxed) - before) / PODS;
    println!("{each} bytes per pod; the facts alone {}", size_of::<Pod>());
    assert!(each <= BYTES_PER_POD, "{each} bytes per pod");
}

#[test]
fn a_sequence_costs_nothing_in_a_namespace_where_it_may_not_act() {
    let _alone = ONE_AT_A_TIME.lock().expect("the other one did not fail");
    const GROUPS: usize = 1_000;
    let mut index = Index::of_full_mode();
    (0..1_000).for_each(|number| index.apply(Object::Pod(pod(number))));
    let select = || Members::Selector(build::selector("app=some"));
    let groups = (0..GROUPS).map(|position| build::group(position, None, select())).collect();
    let mut spec = build::spec(groups);
    spec.pod_namespace = "some-namespace".into();
    let sequence = build::sequence("elsewhere", "guest", spec);
    let before = LIVE.load(Ordering::Relaxed);
    index.apply(Object::Sequence(sequence));
    let cost = LIVE.load(Ordering::Relaxed) - before;
    println!("{cost} bytes");
    // A node of the `BTreeMap` of sequences has eleven slots.
    assert!(cost <= 16 * 1024, "{cost} bytes besides its spec");
}
