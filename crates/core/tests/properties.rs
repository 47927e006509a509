//! Invariants that hold in every world: small random clusters with random events. The controller's watch is late, repeats
//! events and delivers them out of order, its answers get lost, and it may restart at any time.

use crate::random::{Plan, chaos};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

// The core must not read its environment, but its tests may.
#[allow(clippy::disallowed_methods)]
fn config(cases: u32) -> Config {
    // The same worlds in every run, so that results can be compared. To explore more worlds, set `ROLLCALL_SEED=7` (any number)
    // and `PROPTEST_CASES=10000`. A failing case prints the plan that reproduces it.
    let seed = std::env::var("ROLLCALL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let rng_seed = RngSeed::Fixed(seed);
    Config { cases, max_shrink_iters: 4000, failure_persistence: None, rng_seed, ..Config::default() }
}

proptest! {
    #![proptest_config(config(300))]

    /// Gates are removed in order, as verified by an independent view of the events that the controller has received. The
    /// checker reports no violation; every count equals a fresh one; an open group that is not complete has a reason.
    #[test]
    fn order_is_kept_and_counts_are_right(plan in Plan::any()) {
        chaos::run(&plan);
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// When all expected pods exist and become ready, every group completes, and no gate remains.
    #[test]
    fn never_stuck(plan in Plan::any()) {
        let mut run = chaos::run(&plan);
        run.converge();
        run.assert_all_complete();
    }

    /// The number of releases per decision does not change the final state.
    #[test]
    fn budget_changes_nothing(plan in Plan::any()) {
        let mut ends = Vec::new();
        for budget in [1, 3, 1000] {
            let mut run = chaos::calm(&plan, budget);
            run.converge();
            ends.push(run.end_state());
        }
        prop_assert_eq!(&ends[0], &ends[1]);
        prop_assert_eq!(&ends[0], &ends[2]);
    }

    /// An index that received the same facts in a different order makes the same decisions.
    #[test]
    fn order_of_deliveries_changes_nothing(plan in Plan::any()) {
        let run = chaos::calm(&plan, 1000);
        run.assert_same_decisions_from_any_order(plan.seed);
    }
}
