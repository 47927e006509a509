//! What people see of Orders: their statuses.

use crate::engine::Engine;
use crate::statuses::Reported;
use crate::watch::Written;
use jiff::Timestamp;
use rollcall_api::reservation::{OrderStatus, order_status};
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::kind::Kind;
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

    /// The numbers that people watch.
    fn has_progress(wanted: &status::OrderStatus, written: Option<&OrderStatus>) -> bool {
        let numbers = (wanted.desired, wanted.available, wanted.claimed, wanted.ready.holds);
        let known = written.map(|written| {
            let ready =
                written.conditions.iter().any(|known| known.type_ == "Ready" && known.status == "True");
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

    fn parts(_: &status::OrderStatus) -> u32 {
        0
    }
}

/// The status of an Order, to be written.
pub struct OrderWrite {
    pub target: Target,
    pub resource_version: String,
    pub status: OrderStatus,
}

impl Engine {
    /// A status of an Order that is due, unless the Order is gone.
    pub(crate) fn next_order_status(&mut self, now: tokio::time::Instant) -> Option<Option<OrderWrite>> {
        let due = self.order_statuses.pop(now, self.clock.now())?;
        let entry = self.index.reservations.order(due.uid);
        Some(entry.map(|entry| OrderWrite {
            target: Target {
                kind: Kind::Order,
                namespace: entry.order.namespace.clone(),
                name: entry.order.name.clone(),
                uid: Some(due.uid),
            },
            resource_version: due.resource_version,
            status: due.status,
        }))
    }

    pub(crate) fn order_seen(&mut self, written: Written<OrderStatus>) {
        let known = self.index.reservations.order(written.uid);
        if known.is_some_and(|known| known.order.version == written.version) {
            self.order_statuses.observed(written.uid, written);
        }
    }

    /// There is nothing more to tell about an Order, or a ticket.
    pub(crate) fn forget_reservation(&mut self, uid: Uid) {
        self.order_statuses.forget(uid);
        self.announcer.forget(uid);
    }
}
