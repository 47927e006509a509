//! Back-off of a Job after failed pods.

use super::pod::ended;
use crate::store::Stored;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// Back-off after the first failure. It doubles with each failure, up to the longest.
const FIRST: SignedDuration = SignedDuration::from_secs(10);
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

#[derive(Clone, Debug, Default)]
pub struct Backoff {
    failures: i64,
    last: Option<Timestamp>,
}

impl Backoff {
    /// Records the pods that ended since the last sync.
    pub fn take_in(&mut self, succeeded: &[Arc<Stored>], failed: &[Arc<Stored>]) {
        let times = |pods: &[Arc<Stored>]| {
            let mut times: Vec<Timestamp> = pods.iter().filter_map(|pod| ended(pod)).collect();
            times.sort_unstable();
            times
        };
        let mut failures = times(failed);
        if let Some(success) = times(succeeded).last() {
            *self = Backoff::default();
            failures.retain(|at| at > success);
        }
        self.failures += failures.len() as i64;
        self.last = failures.last().copied().or(self.last);
    }

    /// When the next pod may be created; `None` means immediately.
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        until(self.failures, self.last?, now)
    }
}

pub fn until(failures: i64, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
    if failures == 0 {
        return None;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX).min(10);
    let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    last.checked_add(wait).ok().filter(|at| *at > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_from_ten_seconds_to_ten_minutes() {
        let at = Timestamp::UNIX_EPOCH;
        let wait = |failures| until(failures, at, at).map(|until| until.as_second());
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 100].map(wait),
            [None, Some(10), Some(20), Some(40), Some(320), Some(600), Some(600)]
        );
        assert_eq!(until(1, at, at + FIRST), None);
    }
}
