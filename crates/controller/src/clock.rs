//! Time, supplied from outside. The wall clock is read once, at the start. From then on, time follows the monotonic clock of
//! the runtime. So jumps of the wall clock do not change waits, and simulations only need the paused time of the runtime.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    /// Creates a clock that shows `wall` now.
    pub fn starting_at(wall: Timestamp) -> Clock {
        Clock { started: Instant::now(), wall }
    }

    /// Wall-clock time in whole milliseconds, so that journaled times are read back exactly as written.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        let now = self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    /// Time since the start, used for leases: it never jumps.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Converts a wall-clock time, rounded up, so that the time has come when a sleep until this instant ends.
    pub fn instant_of(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.wall);
        let ahead = Duration::try_from(ahead).unwrap_or_default();
        // A year is practically never, and within the limits of every runtime.
        self.started + ahead.min(Duration::from_secs(365 * 24 * 3600)) + Duration::from_millis(1)
    }
}
