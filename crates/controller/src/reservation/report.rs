//! Reporting for Orders.

use crate::engine::Engine;
use crate::statuses::Reported;
use jiff::Timestamp;
use rollcall_api::reservation::{OrderStatus, order_status};
use rollcall_core::Uid;
use rollcall_core::reservation::status;

/// The statuses of Orders.
pub struct OrderStatuses;

impl Reported for OrderStatuses {
    type Wanted = status::OrderStatus;
    type Status = OrderStatus;

    fn report(wanted: &status::OrderStatus, written: Option<&OrderStatus>, wall: Timestamp) -> OrderStatus {
        order_status(wanted, written, wall)
    }

    fn generation(wanted: &status::OrderStatus) -> i64 {
        wanted.observed_generation
    }

    fn observed(status: &OrderStatus) -> Option<i64> {
        status.observed_generation
    }

    /// Whether one of the numbers that users watch has changed.
    fn has_progress(wanted: &status::OrderStatus, written: Option<&OrderStatus>) -> bool {
        let numbers = (wanted.desired, wanted.available, wanted.claimed, wanted.ready.holds);
        let known = written.map(|written| {
            let ready = holds(written, "Ready");
            let number = |number: Option<u32>| number.unwrap_or_default();
            (
                number(written.desired_replicas),
                number(written.available_replicas),
                number(written.claimed_replicas),
                ready,
            )
        });
        known != Some(numbers)
    }

    /// An Order that has settled must report it immediately, because its previous status says that tickets are still being
    /// created or removed. The time of a scheduled reservation is also urgent, because later decisions depend on it.
    fn is_awaited(wanted: &status::OrderStatus, written: &OrderStatus) -> bool {
        let known = (holds(written, "Progressing"), holds(written, "Ready"));
        let settles = !wanted.progressing.holds && known != (false, wanted.ready.holds);
        let journaled = written.last_schedule_time.as_ref().map(|time| time.0);
        settles || wanted.last_schedule.is_some() && wanted.last_schedule != journaled
    }

    fn parts(_: &status::OrderStatus) -> u32 {
        0
    }
}

fn holds(status: &OrderStatus, condition: &str) -> bool {
    status.conditions.iter().any(|known| known.type_ == condition && known.status == "True")
}

impl Engine {
    /// Drops pending statuses and events of an Order or a ticket.
    pub(crate) fn forget_reservation(&mut self, uid: Uid) {
        self.reports.forget(uid);
        self.announcer.forget(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statuses::{Outcome, Statuses};
    use crate::watch::WrittenStatus;
    use rollcall_core::reservation::reason::Reason;
    use rollcall_core::reservation::status::Cause;
    use tokio::time::Instant;

    fn status(available: u32, desired: u32) -> status::OrderStatus {
        let settled = available == desired;
        let cause = |holds, reason| Cause { holds, reason, message: String::new() };
        status::OrderStatus {
            observed_generation: 1,
            desired,
            replicas: desired,
            available,
            unavailable: desired - available,
            terminal: 0,
            updated: desired,
            claimed: 0,
            nodes: None,
            last_schedule: None,
            next_schedule: None,
            message: format!("{available} of {desired} tickets reserved"),
            ready: cause(settled, Reason::Reserved),
            progressing: cause(!settled, Reason::Reserving),
            failure: cause(false, Reason::NoFailure),
            stalled: None,
        }
    }

    struct Told {
        statuses: Statuses<OrderStatuses>,
        uid: Uid,
        wall: Timestamp,
    }

    impl Told {
        fn new() -> Told {
            let mut told = Told {
                statuses: Statuses::default(),
                uid: Uid::digest("order"),
                wall: Timestamp::UNIX_EPOCH,
            };
            told.seen(None);
            told
        }

        fn seen(&mut self, status: Option<OrderStatus>) {
            let written = WrittenStatus {
                uid: self.uid,
                version: 1,
                status,
                resource_version: "1".into(),
                generation: 1,
            };
            self.statuses.observed(self.uid, written);
        }

        /// Requests a status; returns the message that is written now, if any.
        fn says(&mut self, status: status::OrderStatus, now: Instant) -> Option<String> {
            self.statuses.want(self.uid, status, false, now);
            let due = self.statuses.pop(now, self.wall)?;
            let message = due.status.message.clone();
            self.seen(Some(due.status));
            self.statuses.answered(self.uid, Outcome::Done, now);
            message
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_has_settled_says_so_at_once() {
        let (mut told, now) = (Told::new(), Instant::now());
        assert_eq!(told.says(status(0, 2), now).as_deref(), Some("0 of 2 tickets reserved"));
        assert_eq!(told.says(status(1, 2), now), None, "progress can wait a second");
        assert_eq!(told.says(status(2, 2), now).as_deref(), Some("2 of 2 tickets reserved"));
        assert_eq!(told.says(status(1, 2), now), None, "progress can wait a second");
    }

    #[tokio::test(start_paused = true)]
    async fn the_tick_of_a_reservation_is_journaled_at_once() {
        let (mut told, now) = (Told::new(), Instant::now());
        told.says(status(0, 2), now);
        let reserves = status::OrderStatus { last_schedule: Some(told.wall), ..status(0, 2) };
        assert!(told.says(reserves, now).is_some());
    }
}
