//! Metrics of tickets: their number, the capacity that they reserve, and the reserved capacity that was never claimed.

use crate::engine::Engine;
use crate::metrics::{ByState, Metrics};
use rollcall_core::reservation::spec::{Ticket, TicketPhase};
use rollcall_core::reservation::ticket::NO_ROOM;
use rollcall_core::{Timestamp, Uid};
use std::collections::BTreeMap;

/// The contribution of each ticket to the gauges.
#[derive(Default)]
pub struct TicketGauges {
    counted: BTreeMap<Uid, Counted>,
}

#[derive(Clone, Copy)]
struct Counted {
    state: &'static str,
    /// Number of CPUs. `memory` is in bytes.
    cpu: f64,
    memory: f64,
    /// Since when the ticket reserves capacity that no pod has claimed.
    kept_since: Option<Timestamp>,
}

impl Counted {
    fn from_ticket(ticket: &Ticket) -> Counted {
        let record = &ticket.record;
        let (phase, claimed) = (ticket.phase(), ticket.claim().is_some());
        let state = match phase {
            TicketPhase::Pending if *record.reason == *NO_ROOM => "no-room",
            TicketPhase::Pending => "pending",
            TicketPhase::Reserved => "reserved",
            TicketPhase::Claimed => "claimed",
            TicketPhase::Expired => "expired",
        };
        let amount = |name: &str| {
            let requests = ticket.spec.as_ref().ok().map(|spec| &spec.requests);
            requests.and_then(|requests| requests.get(name)).map_or(0.0, |amount| amount.nanos() as f64 / 1e9)
        };
        let kept_since = record.activated.filter(|_| !claimed && phase == TicketPhase::Reserved);
        Counted { state, cpu: amount("cpu"), memory: amount("memory"), kept_since }
    }

    fn add(&self, times: i64, metrics: &Metrics) {
        let by = ByState { state: self.state };
        metrics.tickets.get_or_create(&by).inc_by(times);
        if matches!(self.state, "reserved" | "claimed") {
            metrics.reserved_cpu.get_or_create(&by).inc_by(times as f64 * self.cpu);
            metrics.reserved_memory.get_or_create(&by).inc_by(times as f64 * self.memory);
        }
    }
}

impl TicketGauges {
    /// Updates the gauges after a decision about a ticket; `None` if it is deleted.
    pub fn count(&mut self, uid: Uid, ticket: Option<&Ticket>, now: Timestamp, metrics: &Metrics) {
        let new = ticket.map(Counted::from_ticket);
        let old = match new {
            Some(new) => self.counted.insert(uid, new),
            None => self.counted.remove(&uid),
        };
        if let Some(old) = old {
            old.add(-1, metrics);
            let came = new.is_some_and(|new| matches!(new.state, "reserved" | "claimed"));
            if let Some(since) = old.kept_since.filter(|_| !came) {
                let seconds = now.duration_since(since).as_secs_f64().max(0.0);
                metrics.unclaimed_cpu.inc_by(old.cpu * seconds);
                metrics.unclaimed_memory.inc_by(old.memory * seconds);
            }
        }
        if let Some(new) = new {
            new.add(1, metrics);
        }
    }
}

impl Engine {
    pub(crate) fn count_ticket(&mut self, uid: Uid) {
        let (ticket, now) = (self.index.reservations.ticket(uid), self.clock.now());
        self.tickets.count(uid, ticket, now, &self.shared.metrics);
    }

    /// Records the duration of the hand-over when a claiming pod no longer waits, if it has received a ticket.
    pub(crate) fn count_hand_over(&self, pod: Uid) {
        let claim = self.index.reservations.claimed_by(pod).and_then(|ticket| ticket.claim());
        if let (Some(claim), Some(_)) = (claim, self.index.cluster.pod(pod)) {
            let took = self.clock.now().duration_since(claim.at).as_secs_f64();
            self.shared.metrics.hand_over.observe(took.max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(state: &'static str, kept_since: Option<Timestamp>) -> Counted {
        Counted { state, cpu: 0.5, memory: 1024.0, kept_since }
    }

    #[test]
    fn room_that_nobody_came_for_is_counted_when_it_is_given_up() {
        let (metrics, uid) = (Metrics::new(), Uid::digest("a"));
        let begun = Timestamp::UNIX_EPOCH;
        let later = begun + jiff::SignedDuration::from_secs(60);
        let mut gauges = TicketGauges::default();
        let kept = counted("reserved", Some(begun));
        kept.add(1, &metrics);
        gauges.counted.insert(uid, kept);
        assert_eq!(metrics.reserved_cpu.get_or_create(&ByState { state: "reserved" }).get(), 0.5);
        gauges.count(uid, None, later, &metrics);
        assert_eq!(metrics.reserved_cpu.get_or_create(&ByState { state: "reserved" }).get(), 0.0);
        assert_eq!(metrics.tickets.get_or_create(&ByState { state: "reserved" }).get(), 0);
        assert_eq!((metrics.unclaimed_cpu.get(), metrics.unclaimed_memory.get()), (30.0, 61440.0));
        // A ticket that was never counted changes nothing.
        gauges.count(uid, None, later, &metrics);
        assert_eq!(metrics.unclaimed_cpu.get(), 30.0);
    }
}
