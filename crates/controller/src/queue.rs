//! Which sequences need a decision: an ordered set of dirty keys, taken in turn, and a heap of wake-ups.

use crate::backoff::Jitter;
use rollcall_core::Uid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// "The world moved" is looked at again soon; the watch is usually milliseconds behind.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Queue {
    /// Since when each dirty key is dirty.
    dirty: BTreeMap<Uid, Instant>,
    /// The key decided last: the next one is the first behind it, so that no key waits for ever.
    cursor: Option<Uid>,
    wakes: BTreeSet<(Instant, Uid)>,
    wake_of: BTreeMap<Uid, Instant>,
    /// Keys whose last action failed: how often in a row, and until when they are left alone.
    failing: BTreeMap<Uid, (u32, Instant)>,
    jitter: Jitter,
}

impl Queue {
    pub fn new(seed: u64) -> Queue {
        Queue {
            dirty: BTreeMap::new(),
            cursor: None,
            wakes: BTreeSet::new(),
            wake_of: BTreeMap::new(),
            failing: BTreeMap::new(),
            jitter: Jitter::seeded(seed),
        }
    }

    pub fn add(&mut self, key: Uid, now: Instant) {
        self.dirty.entry(key).or_insert(now);
    }

    pub fn depth(&self) -> usize {
        self.dirty.len()
    }

    /// The next dirty key that is not left alone, and since when it is dirty.
    pub fn pop(&mut self, now: Instant) -> Option<(Uid, Instant)> {
        let ready =
            |(key, _): &(&Uid, &Instant)| self.failing.get(key).is_none_or(|(_, until)| *until <= now);
        let behind =
            self.cursor.map(|cursor| (std::ops::Bound::Excluded(cursor), std::ops::Bound::Unbounded));
        let next = behind.and_then(|range| self.dirty.range(range).find(ready));
        let (key, since) =
            next.or_else(|| self.dirty.iter().find(ready)).map(|(key, since)| (*key, *since))?;
        self.dirty.remove(&key);
        self.cursor = Some(key);
        Some((key, since))
    }

    /// Sets, moves or cancels the wake-up of a key.
    pub fn wake_at(&mut self, key: Uid, at: Option<Instant>) {
        if let Some(old) = self.wake_of.remove(&key) {
            self.wakes.remove(&(old, key));
        }
        if let Some(at) = at {
            self.wakes.insert((at, key));
            self.wake_of.insert(key, at);
        }
    }

    /// Makes dirty what is to wake by now.
    pub fn wake(&mut self, now: Instant) {
        while let Some((at, key)) = self.wakes.first().copied().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, key));
            self.wake_of.remove(&key);
            self.add(key, now);
        }
    }

    /// The next moment at which something is to be done, as far as it is known now.
    pub fn next_moment(&self) -> Option<Instant> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        let retry = self.dirty.keys().filter_map(|key| self.failing.get(key)).map(|(_, until)| *until).min();
        wake.into_iter().chain(retry).min()
    }

    /// An action for this key failed: leave it alone for a while, longer each time. What fails while it is left
    /// alone was sent before that: eight actions that fail together are one failure.
    pub fn failed(&mut self, key: Uid, now: Instant) {
        self.add(key, now);
        let (attempt, until) = self.failing.get(&key).copied().unwrap_or((0, now));
        if attempt > 0 && now < until {
            return;
        }
        let wait = self.jitter.wait(attempt, FIRST_WAIT, LONGEST_WAIT);
        self.failing.insert(key, (attempt + 1, now + wait));
    }

    pub fn succeeded(&mut self, key: Uid) {
        self.failing.remove(&key);
    }

    pub fn forget(&mut self, key: Uid) {
        self.dirty.remove(&key);
        self.failing.remove(&key);
        self.wake_at(key, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Uid {
        Uid::digest(name)
    }

    #[tokio::test(start_paused = true)]
    async fn keys_take_turns() {
        let mut queue = Queue::new(1);
        let now = Instant::now();
        let mut order = Vec::new();
        for name in ["a", "b", "c"] {
            queue.add(key(name), now);
        }
        for _ in 0..6 {
            let (next, _) = queue.pop(now).unwrap();
            order.push(next);
            queue.add(next, now);
        }
        assert_eq!(order[..3], order[3..], "nobody is passed over");
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_is_left_alone_and_comes_back() {
        let mut queue = Queue::new(1);
        queue.failed(key("a"), Instant::now());
        assert_eq!(queue.pop(Instant::now()), None);
        let next = queue.next_moment().expect("it is to be tried again");
        tokio::time::sleep_until(next).await;
        assert!(queue.pop(Instant::now()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_together_is_one_failure() {
        let mut queue = Queue::new(1);
        let now = Instant::now();
        (0..64).for_each(|_| queue.failed(key("a"), now));
        let next = queue.next_moment().expect("it is to be tried again");
        assert!(next <= now + FIRST_WAIT);
        assert!(queue.pop(next).is_some());
        queue.failed(key("a"), next);
        assert!(queue.next_moment().unwrap() > next + FIRST_WAIT / 2, "the second time it is longer");
    }

    #[tokio::test(start_paused = true)]
    async fn wake_ups_move_and_fire_once() {
        let mut queue = Queue::new(1);
        let now = Instant::now();
        queue.wake_at(key("a"), Some(now + Duration::from_secs(5)));
        queue.wake_at(key("a"), Some(now + Duration::from_secs(9)));
        queue.wake(now + Duration::from_secs(6));
        assert_eq!(queue.depth(), 0);
        queue.wake(now + Duration::from_secs(9));
        assert_eq!(queue.depth(), 1);
        assert_eq!(queue.next_moment(), None);
    }
}
