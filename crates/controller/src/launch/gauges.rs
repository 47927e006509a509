//! Metrics of pods whose containers start in order.

use crate::engine::Engine;
use rollcall_core::Uid;
use rollcall_core::index::Index;
use rollcall_core::launch::facts::is_alive;
use rollcall_core::launch::ranks::Priority;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Pods whose containers are still starting, with the current rank and the time when it was first seen.
#[derive(Debug, Default)]
pub struct Launching {
    pods: BTreeMap<Uid, (Priority, Instant)>,
}

impl Launching {
    /// Updates a pod after a decision. Returns the duration of the rank that has just ended, if one has.
    pub fn decided(&mut self, index: &Index, pod: Uid, now: Instant) -> Option<Duration> {
        let known = index.cluster.pod(pod).filter(|pod| is_alive(pod));
        let launch = known.and_then(|pod| pod.launch.as_deref()).filter(|launch| !launch.completed);
        let Some(rank) = launch.and_then(|launch| launch.current()) else {
            return self.pods.remove(&pod).map(|(_, since)| now - since);
        };
        let before = self.pods.insert(pod, (rank, now));
        match before {
            Some((open, since)) if open == rank => {
                self.pods.insert(pod, (rank, since));
                None
            }
            before => before.map(|(_, since)| now - since),
        }
    }

    pub fn number(&self) -> usize {
        self.pods.len()
    }
}

impl Engine {
    /// Updates the metrics after a decision about a pod.
    pub(crate) fn count_launch(&mut self, pod: Uid) {
        if let Some(took) = self.launching.decided(&self.index, pod, Instant::now()) {
            self.shared.metrics.rank_time.observe(took.as_secs_f64());
        }
        self.shared.metrics.launching.set(self.launching.number() as i64);
    }
}
