//! The cost of a simulated pod does not depend on the number of pods. The tests count allocations instead of measuring
//! time, because the count is the same in every run and on every machine.
#![allow(unsafe_code, reason = "an allocator that counts")]

use rollcall_sim::plan::{Given, NodePool, Origin, Plan};
use rollcall_sim::report::Outcome;
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A sequence with this number of groups, each a Deployment with this number of pods.
fn plan(groups: usize, pods: usize) -> Plan {
    let group = |number: usize| json!({ "podSelector": { "matchLabels": { "tier": format!("t{number}") } } });
    let sequence = json!({
        "apiVersion": "scheduling.example.com/v1alpha1", "kind": "PodSequence", "metadata": { "name": "many" },
        "spec": { "podGroups": (0..groups).map(group).collect::<Vec<Value>>() },
    });
    let deployment = |number: usize| {
        let labels = json!({ "tier": format!("t{number}") });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": format!("tier-{number}") },
            "spec": { "replicas": pods, "selector": { "matchLabels": labels }, "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "schedulingGates": [{ "name": "podsequence.example.com/sequence-gate" }],
                    "containers": [{ "name": "c", "image": "x" }],
                },
            } },
        })
    };
    let origin = Origin { file: "many".into(), line: 1 };
    let objects = [sequence].into_iter().chain((0..groups).map(deployment));
    Plan {
        objects: objects.map(|value| Given { value, origin: origin.clone() }).collect(),
        nodes: vec![NodePool { count: 20, capacity: Default::default() }],
        ready_after: Vec::new(),
        fail: Vec::new(),
        at: Vec::new(),
        seed: 1,
        until: Duration::from_secs(3600),
    }
}

#[derive(Debug)]
struct Cost {
    allocations: usize,
    bytes: usize,
}

/// The cost of a whole run.
fn cost(groups: usize, pods: usize) -> Cost {
    let plan = plan(groups, pods);
    let (allocations, live) = (ALLOCATIONS.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed));
    PEAK.store(live, Ordering::Relaxed);
    let report = rollcall_sim::simulate(plan).expect("it runs");
    assert_eq!((report.outcome, report.pods.len()), (Outcome::Complete, groups * pods));
    Cost {
        allocations: ALLOCATIONS.load(Ordering::Relaxed) - allocations,
        bytes: PEAK.load(Ordering::Relaxed) - live,
    }
}

/// Tolerance for logarithmic growth and for tables that double their size.
const SLACK: f64 = 1.25;

#[test]
fn four_times_the_pods_cost_four_times_the_work() {
    // The first run pays for everything that is created once per process.
    cost(1, 1);
    let small = cost(10, 25);
    for (groups, pods) in [(10, 100), (40, 25)] {
        let large = cost(groups, pods);
        let more = |large: usize, small: usize| large as f64 / small as f64;
        assert!(more(large.allocations, small.allocations) < 4.0 * SLACK, "{small:?} {large:?}");
        assert!(more(large.bytes, small.bytes) < 4.0 * SLACK, "{small:?} {large:?}");
    }
}
