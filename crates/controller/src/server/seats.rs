//! Tracks connections, and chooses the one that gives way to a new one when the server is full.

use super::limits::Limits;
use crate::metrics::{ByServer, Metrics, TurnedAway};
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The connections of one server.
pub struct Seats {
    limits: Limits,
    shared: Arc<Shared>,
    begun: Instant,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Arc<Seat>>,
}

/// The shared state of one connection.
struct Seat {
    address: IpAddr,
    /// Time of the last received byte. `due`: deadline of the current step. Both in nanoseconds since the server started.
    heard: AtomicU64,
    due: AtomicU64,
    turn: AtomicU8,
    leave: CancellationToken,
}

/// The party that must act next on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Turn {
    /// The client: the request is not complete yet.
    Caller,
    /// The server: the request is complete, the answer is not ready.
    Ours,
    /// The network: the answer is being sent.
    Answer,
    /// No party: the connection is idle between requests.
    Nobody,
}

/// The seat of one connection, released when this is dropped.
pub struct TakenSeat {
    number: u64,
    seat: Arc<Seat>,
    seats: Arc<Seats>,
}

impl Seats {
    pub fn new(limits: Limits, shared: Arc<Shared>) -> Seats {
        Seats { limits, shared, begun: Instant::now(), taken: Mutex::default() }
    }

    /// Takes a seat for a new connection. If the server is full, or the address has reached its share, the connection (of that
    /// address) that was silent for longest must leave. Returns `None` if all candidates are waiting for an answer.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<TakenSeat> {
        // An IPv4 address through an IPv6 socket is the same client.
        let address = address.to_canonical();
        let mut taken = self.taken();
        let neighbours = taken.seats.values().filter(|seat| seat.address == address).count();
        if neighbours >= self.limits.of_one_address {
            self.make_room(&mut taken, "address", |seat| seat.address == address)?;
        } else if taken.seats.len() >= self.limits.connections {
            self.make_room(&mut taken, "full", |_| true)?;
        }
        let now = self.now();
        let seat = Arc::new(Seat {
            address,
            heard: AtomicU64::new(now),
            due: AtomicU64::new(now + nanos(self.limits.request)),
            turn: AtomicU8::new(Turn::Caller as u8),
            leave: CancellationToken::new(),
        });
        let number = taken.next;
        taken.next += 1;
        taken.seats.insert(number, seat.clone());
        self.count(&taken);
        Some(TakenSeat { number, seat, seats: self.clone() })
    }

    fn make_room(
        &self,
        taken: &mut Taken,
        reason: &'static str,
        concerned: impl Fn(&Seat) -> bool,
    ) -> Option<()> {
        let waits_for_us = |seat: &Seat| seat.turn() == Turn::Ours;
        let idle = taken.seats.iter().filter(|(_, seat)| concerned(seat) && !waits_for_us(seat));
        let longest = idle.min_by_key(|(_, seat)| seat.heard.load(Ordering::Relaxed));
        self.turned_away(reason);
        let number = *longest?.0;
        let seat = taken.seats.remove(&number)?;
        seat.leave.cancel();
        Some(())
    }

    pub fn turned_away(&self, reason: &'static str) {
        self.metrics().turned_away.get_or_create(&TurnedAway { server: self.limits.server, reason }).inc();
    }

    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    fn count(&self, taken: &Taken) {
        let server = ByServer { server: self.limits.server };
        self.metrics().connections.get_or_create(&server).set(taken.seats.len() as i64);
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        nanos(self.begun.elapsed())
    }
}

impl Seat {
    fn turn(&self) -> Turn {
        let turn = self.turn.load(Ordering::Relaxed);
        [Turn::Caller, Turn::Ours, Turn::Answer, Turn::Nobody][usize::from(turn)]
    }
}

impl TakenSeat {
    /// Records that bytes were received.
    pub fn bytes_received(&self) {
        self.seat.heard.store(self.seats.now(), Ordering::Relaxed);
        if self.seat.turn() == Turn::Nobody {
            self.turns(Turn::Caller, self.seats.limits.request);
        }
    }

    /// Records that the request is complete, or at least the part that the handler reads.
    pub fn asked(&self) {
        self.turns(Turn::Ours, self.seats.limits.answer);
    }

    /// Records that the answer is ready.
    pub fn answered(&self) {
        self.turns(Turn::Answer, self.seats.limits.answer);
    }

    /// Records that all written bytes have been sent.
    pub fn flushed(&self) {
        if self.seat.turn() == Turn::Answer {
            self.seat.heard.store(self.seats.now(), Ordering::Relaxed);
            self.turns(Turn::Nobody, self.seats.limits.idle.unwrap_or(self.seats.limits.request));
        }
    }

    fn turns(&self, turn: Turn, within: Duration) {
        self.seat.turn.store(turn as u8, Ordering::Relaxed);
        self.seat.due.store(self.seats.now() + nanos(within), Ordering::Relaxed);
    }

    /// Completes when another connection needs the seat.
    pub async fn needed(&self) {
        self.seat.leave.cancelled().await;
    }

    /// Completes when the connection is too slow. Poll this after the connection, in the same task: activity on the connection
    /// moves the deadline.
    pub async fn overdue(&self) {
        let due = || self.seats.begun + Duration::from_nanos(self.seat.due.load(Ordering::Relaxed));
        let mut sleep = pin!(sleep_until(due()));
        poll_fn(|context| {
            if sleep.deadline() != due() {
                sleep.as_mut().reset(due());
            }
            sleep.as_mut().poll(context)
        })
        .await;
        // Silence between two requests is not an error.
        if self.seat.turn() != Turn::Nobody {
            self.turned_away("slow");
        }
    }

    pub fn turned_away(&self, reason: &'static str) {
        self.seats.turned_away(reason);
    }
}

impl Drop for TakenSeat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.seats.remove(&self.number);
        self.seats.count(&taken);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(connections: usize, of_one_address: usize) -> Arc<Seats> {
        let limits = Limits { connections, of_one_address, ..Limits::WEBHOOK };
        Arc::new(Seats::new(limits, Arc::default()))
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn must_leave(place: &TakenSeat) -> bool {
        place.seat.leave.is_cancelled()
    }

    async fn take(seats: &Arc<Seats>, last: u8) -> Option<TakenSeat> {
        tokio::time::advance(Duration::from_millis(1)).await;
        seats.take(address(last))
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_silent_for_longest_leaves() -> Result<(), &'static str> {
        let seats = seats(3, 3);
        let first = take(&seats, 1).await.ok_or("first")?;
        let second = take(&seats, 2).await.ok_or("second")?;
        let third = take(&seats, 3).await.ok_or("third")?;
        tokio::time::advance(Duration::from_millis(1)).await;
        first.bytes_received();
        let fourth = take(&seats, 4).await.ok_or("fourth")?;
        assert_eq!([&first, &second, &third, &fourth].map(must_leave), [false, true, false, false]);
        // Its seat has already been reused, so dropping it does not free another one.
        drop(second);
        let fifth = take(&seats, 5).await.ok_or("fifth")?;
        assert_eq!([&first, &third, &fourth, &fifth].map(must_leave), [false, true, false, false]);
        drop(first);
        let sixth = take(&seats, 6).await.ok_or("sixth")?;
        assert_eq!([&fourth, &fifth, &sixth].map(must_leave), [false; 3]);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_its_share_loses_one_of_its_own() -> Result<(), &'static str> {
        let seats = seats(9, 2);
        let other = take(&seats, 9).await.ok_or("other")?;
        let first = take(&seats, 1).await.ok_or("first")?;
        let second = take(&seats, 1).await.ok_or("second")?;
        let third = seats.take("::ffff:10.0.0.1".parse().map_err(|_| "an address")?).ok_or("third")?;
        assert_eq!([&other, &first, &second, &third].map(must_leave), [false, true, false, false]);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_us_stays() -> Result<(), &'static str> {
        let seats = seats(2, 2);
        let first = take(&seats, 1).await.ok_or("first")?;
        let second = take(&seats, 2).await.ok_or("second")?;
        first.asked();
        let third = take(&seats, 3).await.ok_or("third")?;
        assert_eq!([&first, &second, &third].map(must_leave), [false, true, false]);
        third.asked();
        assert!(take(&seats, 4).await.is_none());
        first.answered();
        assert!(take(&seats, 4).await.is_some() && must_leave(&first));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_has_its_time_from_its_first_byte() -> Result<(), &'static str> {
        let seats = seats(1, 1);
        let place = take(&seats, 1).await.ok_or("a place")?;
        let Limits { request, answer, idle, .. } = Limits::WEBHOOK;
        let is_overdue = async |place: &TakenSeat, after: Duration| {
            tokio::time::timeout(after - Duration::from_millis(1), place.overdue()).await.is_ok()
        };
        assert!(!is_overdue(&place, request).await);
        // Single bytes do not extend the time limit.
        place.bytes_received();
        assert!(is_overdue(&place, Duration::from_millis(3)).await);
        place.asked();
        assert!(!is_overdue(&place, answer).await);
        place.answered();
        place.flushed();
        assert!(!is_overdue(&place, idle.unwrap_or_default()).await);
        place.bytes_received();
        assert!(!is_overdue(&place, request).await && is_overdue(&place, Duration::from_millis(3)).await);
        Ok(())
    }
}
