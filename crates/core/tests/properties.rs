//! What must hold in every world: small random clusters, random events, and a controller among them whose watch is
//! late, repeats itself and delivers out of order, whose answers get lost, and which is restarted at any time.

use crate::random::{Plan, chaos};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

// The core must not look at its environment; whoever tests it may.
#[allow(clippy::disallowed_methods)]
fn config(cases: u32) -> Config {
    // The same worlds in every run, so that a change is judged by itself; `ROLLCALL_SEED=7` (any number) and
    // `PROPTEST_CASES=10000` look further. A failing case prints the plan that repeats it.
    let seed = std::env::var("ROLLCALL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let rng_seed = RngSeed::Fixed(seed);
    Config { cases, max_shrink_iters: 4000, failure_persistence: None, rng_seed, ..Config::default() }
}

proptest! {
    #![proptest_config(config(300))]

    /// Gates go in order, by an account of its own of what the controller could have seen; the checker finds
    /// nothing; every count equals a fresh one; an open group that is not complete says why.
    #[test]
    fn order_is_kept_and_counts_are_right(plan in Plan::any()) {
        chaos::run(&plan);
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// When all that is expected exists and becomes ready, everything completes and no gate is left.
    #[test]
    fn never_stuck(plan in Plan::any()) {
        let mut run = chaos::run(&plan);
        run.converge();
        run.assert_all_complete();
    }

    /// How many releases fit into one decision does not change where it ends.
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

    /// An index that learned the same facts in another order decides the same.
    #[test]
    fn order_of_deliveries_changes_nothing(plan in Plan::any()) {
        let run = chaos::calm(&plan, 1000);
        run.assert_same_decisions_from_any_order(plan.seed);
    }
}
