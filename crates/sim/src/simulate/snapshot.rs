//! The cluster at one point of a run, for a caller that displays it.

use super::facts;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::server::Shared;
use anyhow::{Error, Result};
use jiff::Timestamp;
use rollcall_api::sequence::SequenceObject;
use rollcall_controller::clock::Clock;
use rollcall_core::facts::Pod;
use rollcall_core::index::Index;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The cluster at one point in time. It does not change while the callback runs.
pub struct Snapshot<'a> {
    /// Virtual time since the beginning.
    pub at: Duration,
    pub now: Timestamp,
    cluster: &'a Cluster,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(clock: Clock, cluster: &'a Cluster) -> Snapshot<'a> {
        Snapshot { at: clock.elapsed(), now: clock.now(), cluster }
    }

    pub fn sequences(&self) -> Vec<SequenceObject> {
        facts::each(self.cluster, Kind::PodSequence).collect()
    }

    pub fn pods(&self) -> Vec<Pod> {
        facts::pods(self.cluster).collect()
    }

    /// An index of all objects, built as in the controller.
    pub fn index(&self) -> Index {
        facts::index(self.cluster)
    }
}

/// A callback and its interval in virtual time.
pub struct SnapshotCallback<'a> {
    pub every: Duration,
    pub call: &'a mut dyn FnMut(&Snapshot) -> Result<()>,
}

/// Calls the callback repeatedly. Returns only if the callback fails.
pub async fn call_periodically(
    callback: Option<SnapshotCallback<'_>>,
    clock: Clock,
    shared: &Arc<Shared>,
) -> Error {
    let Some(SnapshotCallback { every, call }) = callback else { return std::future::pending().await };
    loop {
        sleep(every).await;
        let cluster = shared.lock();
        if let Err(error) = call(&Snapshot::new(clock, &cluster)) {
            return error;
        }
    }
}
