//! What somebody sees who looks on while a plan runs.

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

/// The cluster at one time; it stands still while it is looked at.
pub struct Moment<'a> {
    /// Since the beginning.
    pub at: Duration,
    pub now: Timestamp,
    cluster: &'a Cluster,
}

impl Moment<'_> {
    pub fn sequences(&self) -> Vec<SequenceObject> {
        facts::each(self.cluster, Kind::PodSequence).collect()
    }

    pub fn pods(&self) -> Vec<Pod> {
        facts::pods(self.cluster).collect()
    }

    /// All that the controller knows.
    pub fn facts(&self) -> Index {
        facts::of(self.cluster)
    }
}

/// Who looks on, and how often.
pub struct Looking<'a> {
    pub every: Duration,
    pub look: &'a mut dyn FnMut(&Moment) -> Result<()>,
}

/// Calls whoever looks on, for ever. Comes back only with what went wrong there.
pub async fn each(looking: Option<Looking<'_>>, clock: Clock, shared: &Arc<Shared>) -> Error {
    let Some(Looking { every, look }) = looking else { return std::future::pending().await };
    loop {
        sleep(every).await;
        let cluster = shared.lock();
        let moment = Moment { at: clock.elapsed(), now: clock.now(), cluster: &cluster };
        if let Err(error) = look(&moment) {
            return error;
        }
    }
}
