//! A run that shows a test what the controller knows beside what the cluster stores.

use super::{Snapshot, block_on_virtual_time, run};
use crate::{kinds::Kind, plan::Plan, report::Report, server::Shared};
use anyhow::Result;
use rollcall_controller::clock::Clock;
use rollcall_core::index::Index;
use rollcall_core::kind::Kind as Watched;
use std::sync::{Arc, PoisonError};

/// Like [`super::simulate`], and calls `observe` whenever the controller is idle and has seen every change.
pub fn simulate_observed(
    plan: Plan,
    mut observe: impl FnMut(&Snapshot, &Index) + Send + 'static,
) -> Result<Report> {
    let prepare = |controller: &rollcall_controller::shared::Shared, shared: &Arc<Shared>, clock: Clock| {
        let shared = shared.clone();
        let observer = move |index: &Index| {
            let cluster = shared.lock();
            let is_seen = |kind: &Watched| {
                let (Some(stored), Some(seen)) =
                    (Kind::of_watched(*kind), index.cluster.freshness.newest(*kind))
                else {
                    return true;
                };
                cluster.store.since(stored, seen).is_some_and(|changes| changes.is_empty())
            };
            if index.kinds().iter().all(is_seen) {
                observe(&Snapshot::new(clock, &cluster), index);
            }
        };
        let mut idle_observer = controller.idle_observer.lock().unwrap_or_else(PoisonError::into_inner);
        *idle_observer = Some(Box::new(observer));
    };
    block_on_virtual_time(run(plan, None, prepare))
}
