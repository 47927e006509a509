//! Keys that need a decision: per lane, an ordered set of dirty keys that take turns; and a heap of wake-ups.

use crate::backoff::Jitter;
use rollcall_core::key::{Key, Lane as KeyLane};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;
use tokio::time::Instant;

/// The first wait is short: after a conflict, the watch is usually only milliseconds behind.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A key with its lane. Lanes are independent queues: thousands of keys in one lane do not delay a key in another lane.
pub trait Laned: Copy + Ord {
    const LANES: usize;
    fn lane(self) -> usize;

    /// The lane that has priority over this one.
    fn yields_to(_lane: usize) -> Option<usize> {
        None
    }
}

impl Laned for Key {
    const LANES: usize = KeyLane::ALL.len();

    fn lane(self) -> usize {
        Key::lane(self) as usize
    }

    fn yields_to(lane: usize) -> Option<usize> {
        KeyLane::ALL[lane].yields_to().map(|first| first as usize)
    }
}

#[derive(Debug)]
pub struct Queue<K> {
    lanes: Vec<LaneQueue<K>>,
    /// The lane whose turn is next.
    next_lane: usize,
    wakes: BTreeSet<(Instant, K)>,
    wake_of: BTreeMap<K, Instant>,
    /// Keys whose last action failed: the number of consecutive failures, and the end of the back-off.
    failing: BTreeMap<K, (u32, Instant)>,
    jitter: Jitter,
}

#[derive(Clone, Debug)]
struct LaneQueue<K> {
    /// The dirty keys, with the time since when each is dirty.
    dirty: BTreeMap<K, Instant>,
    /// The key of the last decision. The search continues behind it, so that every key gets its turn.
    cursor: Option<K>,
}

impl<K: Copy + Ord> LaneQueue<K> {
    /// Removes and returns the next key for which `ready` holds, and since when it is dirty.
    fn pop(&mut self, ready: impl Fn(&K) -> bool) -> Option<(K, Instant)> {
        let ready = |(key, _): &(&K, &Instant)| ready(key);
        let behind = self.cursor.map(|cursor| (Bound::Excluded(cursor), Bound::Unbounded));
        let next = behind.and_then(|range| self.dirty.range(range).find(ready));
        let (key, since) =
            next.or_else(|| self.dirty.iter().find(ready)).map(|(key, since)| (*key, *since))?;
        self.dirty.remove(&key);
        self.cursor = Some(key);
        Some((key, since))
    }
}

impl<K: Laned> Queue<K> {
    pub fn new(seed: u64) -> Queue<K> {
        Queue {
            lanes: vec![LaneQueue { dirty: BTreeMap::new(), cursor: None }; K::LANES],
            next_lane: 0,
            wakes: BTreeSet::new(),
            wake_of: BTreeMap::new(),
            failing: BTreeMap::new(),
            jitter: Jitter::seeded(seed),
        }
    }

    pub fn add(&mut self, key: K, now: Instant) {
        self.lanes[key.lane()].dirty.entry(key).or_insert(now);
    }

    pub fn depth(&self) -> usize {
        self.lanes.iter().map(|lane| lane.dirty.len()).sum()
    }

    /// Returns the next dirty key that is not backing off, and since when it is dirty. Lanes take turns, and so do the keys in
    /// a lane; lanes without a free write slot are skipped.
    pub fn pop(&mut self, now: Instant, has_room: impl Fn(usize) -> bool) -> Option<(K, Instant)> {
        let ready = |key: &K| self.failing.get(key).is_none_or(|(_, until)| *until <= now);
        let turns = (0..K::LANES).map(|turn| (self.next_lane + turn) % K::LANES);
        for turn in turns.filter(|lane| has_room(*lane)) {
            let busy = |lane: &usize| self.lanes[*lane].dirty.keys().any(ready);
            let lane = K::yields_to(turn).filter(busy).unwrap_or(turn);
            if let Some(next) = self.lanes[lane].pop(ready) {
                self.next_lane = (turn + 1) % K::LANES;
                return Some(next);
            }
        }
        None
    }

    /// Sets, moves or cancels the wake-up of a key.
    pub fn wake_at(&mut self, key: K, at: Option<Instant>) {
        if let Some(old) = self.wake_of.remove(&key) {
            self.wakes.remove(&(old, key));
        }
        if let Some(at) = at {
            self.wakes.insert((at, key));
            self.wake_of.insert(key, at);
        }
    }

    /// Marks the keys as dirty whose wake-up is due.
    pub fn wake(&mut self, now: Instant) {
        while let Some((at, key)) = self.wakes.first().copied().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, key));
            self.wake_of.remove(&key);
            self.add(key, now);
        }
    }

    /// The time when the next key is due, as far as known now. Lanes without a free slot are ignored.
    pub fn next_moment(&self, has_room: impl Fn(usize) -> bool) -> Option<Instant> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        let lanes = self.lanes.iter().enumerate().filter(|(lane, _)| has_room(*lane));
        let dirty = lanes.flat_map(|(_, lane)| lane.dirty.keys());
        let retry = dirty.filter_map(|key| self.failing.get(key)).map(|(_, until)| *until).min();
        wake.into_iter().chain(retry).min()
    }

    /// Records that an action for this key failed, and starts or extends its back-off. Failures during the back-off belong to
    /// actions that were sent before it: eight actions that fail together count as one failure.
    pub fn failed(&mut self, key: K, now: Instant) {
        self.add(key, now);
        let (attempt, until) = self.failing.get(&key).copied().unwrap_or((0, now));
        if attempt > 0 && now < until {
            return;
        }
        let wait = self.jitter.wait(attempt, FIRST_WAIT, LONGEST_WAIT);
        self.failing.insert(key, (attempt + 1, now + wait));
    }

    pub fn succeeded(&mut self, key: K) {
        self.failing.remove(&key);
    }

    pub fn forget(&mut self, key: K) {
        self.lanes[key.lane()].dirty.remove(&key);
        self.failing.remove(&key);
        self.wake_at(key, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key in one of two lanes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct TestKey(usize, u32);

    impl Laned for TestKey {
        const LANES: usize = 2;

        fn lane(self) -> usize {
            self.0
        }
    }

    fn key(name: &str) -> TestKey {
        TestKey(0, name.bytes().map(u32::from).sum())
    }

    fn anywhere(_: usize) -> bool {
        true
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_does_not_keep_the_other_waiting() {
        let (mut queue, now) = (Queue::new(1), Instant::now());
        (0..1000).for_each(|number| queue.add(TestKey(0, number), now));
        queue.add(TestKey(1, 7), now);
        let first: Vec<TestKey> = (0..3).filter_map(|_| Some(queue.pop(now, anywhere)?.0)).collect();
        assert!(first.contains(&TestKey(1, 7)), "{first:?}");
        queue.add(TestKey(1, 8), now);
        assert_eq!(queue.pop(now, |lane| lane == 1).map(|(key, _)| key), Some(TestKey(1, 8)));
        assert_eq!(queue.pop(now, |lane| lane == 1), None, "the other lane has no free slot");
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_goes_before_tickets_and_before_nobody_else() {
        let (mut queue, now) = (Queue::new(1), Instant::now());
        let uid = |number: usize| rollcall_core::Uid::digest(&number.to_string());
        let keys = (0..50).flat_map(|number| {
            [
                Key::Order(uid(number)),
                Key::Ticket(uid(number)),
                Key::Claim(uid(number)),
                Key::Sequence(uid(number)),
            ]
        });
        keys.for_each(|key| queue.add(key, now));
        let popped: Vec<Key> = (0..20).filter_map(|_| Some(queue.pop(now, anywhere)?.0)).collect();
        let of = |lane: KeyLane| popped.iter().filter(|key| key.lane() == lane).count();
        assert_eq!((of(KeyLane::Ticket), of(KeyLane::Order)), (0, 10), "{popped:?}");
        assert_eq!((of(KeyLane::Claim), of(KeyLane::Sequence)), (5, 5), "{popped:?}");
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
            let (next, _) = queue.pop(now, anywhere).unwrap();
            order.push(next);
            queue.add(next, now);
        }
        assert_eq!(order[..3], order[3..], "no key is skipped");
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_is_left_alone_and_comes_back() {
        let mut queue = Queue::new(1);
        queue.failed(key("a"), Instant::now());
        assert_eq!(queue.pop(Instant::now(), anywhere), None);
        let next = queue.next_moment(anywhere).expect("it is retried");
        tokio::time::sleep_until(next).await;
        assert!(queue.pop(Instant::now(), anywhere).is_some());
    }

    /// Waiting for a time that has passed would make the loop spin.
    #[tokio::test(start_paused = true)]
    async fn who_has_no_room_is_not_waited_for() {
        let mut queue = Queue::new(1);
        queue.failed(key("a"), Instant::now());
        assert!(queue.next_moment(anywhere).is_some());
        assert_eq!(queue.next_moment(|_| false), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_together_is_one_failure() {
        let mut queue = Queue::<TestKey>::new(1);
        let now = Instant::now();
        (0..64).for_each(|_| queue.failed(key("a"), now));
        let next = queue.next_moment(anywhere).expect("it is retried");
        assert!(next <= now + FIRST_WAIT);
        assert!(queue.pop(next, anywhere).is_some());
        queue.failed(key("a"), next);
        assert!(queue.next_moment(anywhere).unwrap() > next + FIRST_WAIT / 2, "the second wait is longer");
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
        assert_eq!(queue.next_moment(anywhere), None);
    }
}
