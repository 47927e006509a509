//! A run that shows a test what the controller knows beside what the cluster stores.

use super::{Snapshot, block_on_virtual_time, run};
use crate::{plan::Plan, report::Report, server::Shared};
use anyhow::Result;
use rollcall_controller::clock::Clock;
use rollcall_core::index::Index;
use std::sync::{Arc, PoisonError};

/// Like [`super::simulate`], and calls `observe` whenever the controller is idle and has seen every change.
pub fn simulate_observed(
    plan: Plan,
    mut observe: impl FnMut(&Snapshot, &Index) + Send + 'static,
) -> Result<Report> {
    let prepare = |controller: &rollcall_controller::shared::Shared, shared: &Arc<Shared>, clock: Clock| {
        let shared = shared.clone();
        let mut last = None;
        let observer = move |index: &Index| {
            let cluster = shared.lock();
            let (version, now) = (cluster.store.version(), clock.now());
            // Changes reach the controller at the instant at which they are made.
            let caught_up = last.is_some_and(|(seen, at)| seen == version && at < now);
            last = Some((version, now));
            if caught_up {
                observe(&Snapshot::new(clock, &cluster), index);
            }
        };
        let mut idle_observer = controller.idle_observer.lock().unwrap_or_else(PoisonError::into_inner);
        *idle_observer = Some(Box::new(observer));
    };
    block_on_virtual_time(run(plan, None, prepare))
}
