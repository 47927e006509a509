//! Time, handed in from outside. The wall clock is read once, at the start; from then on time goes by the
//! monotonic clock of the runtime, so that a jump of the wall clock neither shortens nor lengthens a wait, and a
//! virtual clock needs nothing but the runtime's paused time.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    /// A clock that shows `wall` now.
    pub fn starting_at(wall: Timestamp) -> Clock {
        Clock { started: Instant::now(), wall }
    }

    /// Wall-clock time in whole milliseconds: what is journaled is read back as it was written.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        let now = self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    /// Time since the start, for leases: it never jumps.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// When a wall-clock time will be, rounded up, so that whoever wakes then finds it has come.
    pub fn instant_of(&self, at: Timestamp) -> Instant {
        let ahead = at.duration_since(self.wall);
        let ahead = Duration::try_from(ahead).unwrap_or_default();
        // A year is as good as never, and within what every runtime can sleep.
        self.started + ahead.min(Duration::from_secs(365 * 24 * 3600)) + Duration::from_millis(1)
    }
}
