//! The statuses that the controller writes, for all kinds that have one.

use crate::act::{NewStatus, StatusWrite};
use crate::reservation::OrderStatuses;
use crate::sequence::SequenceStatuses;
use crate::statuses::{DueWrite, Outcome, Statuses};
use crate::watch::AnyWritten;
use jiff::Timestamp;
use rollcall_api::sequence::KnownSpec;
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::decision::Report;
use rollcall_core::index::{Index, Listed};
use rollcall_core::key::Key;
use rollcall_core::kind::Kind;
use std::sync::Arc;
use tokio::time::Instant;

/// Pending statuses. Each kind has its own queue, so that many sequences do not delay the status of an Order.
#[derive(Default)]
pub struct Reports {
    sequences: Statuses<SequenceStatuses>,
    orders: Statuses<OrderStatuses>,
}

impl Reports {
    /// Queues a decided status.
    pub fn want(&mut self, uid: Uid, report: Report, urgent: bool, now: Instant) {
        match report {
            Report::Sequence(status) => self.sequences.want(uid, *status, urgent, now),
            Report::Order(status) => self.orders.want(uid, *status, urgent, now),
        }
    }

    /// Records the status of an object that was seen. Ignores views that are older than the known one, and views of deleted
    /// objects.
    pub fn observed(&mut self, index: &Index, written: AnyWritten) {
        let is_known = |kind, uid, version| index.version(kind, &Listed::Uid(uid)) == Some(version);
        match written {
            AnyWritten::Sequence(written) if is_known(Kind::Sequence, written.uid, written.version) => {
                self.sequences.observed(written.uid, written);
            }
            AnyWritten::Order(written) if is_known(Kind::Order, written.uid, written.version) => {
                self.orders.observed(written.uid, written);
            }
            AnyWritten::Sequence(_) | AnyWritten::Order(_) => {}
        }
    }

    pub fn next_moment(&self) -> Option<Instant> {
        let Reports { sequences, orders } = self;
        sequences.next_moment().into_iter().chain(orders.next_moment()).min()
    }

    /// Returns the next status that is due; the inner `None` means that its object no longer exists.
    pub fn pop(
        &mut self,
        index: &Index,
        now: Instant,
        wall: Timestamp,
    ) -> Option<Option<(Key, StatusWrite)>> {
        if let Some(due) = self.sequences.pop(now, wall) {
            let entry = index.sequences.get(due.uid).filter(|entry| !entry.ghost);
            return Some(entry.map(|entry| {
                let (sequence, spec) = (&entry.sequence, KnownSpec::from(&entry.sequence));
                let target = (Kind::Sequence, &sequence.namespace, &sequence.name);
                let write = write(due, target, |status| NewStatus::Sequence { status, spec });
                (Key::Sequence(sequence.uid), write)
            }));
        }
        let due = self.orders.pop(now, wall)?;
        Some(index.reservations.order(due.uid).map(|entry| {
            let target = (Kind::Order, &entry.order.namespace, &entry.order.name);
            (Key::Order(entry.order.uid), write(due, target, NewStatus::Order))
        }))
    }

    pub fn answered(&mut self, key: Key, outcome: Outcome, now: Instant) {
        match key {
            Key::Sequence(uid) => self.sequences.answered(uid, outcome, now),
            Key::Order(uid) => self.orders.answered(uid, outcome, now),
            Key::Launch(_) | Key::Ticket(_) | Key::Claim(_) => {}
        }
    }

    pub fn forget(&mut self, uid: Uid) {
        let Reports { sequences, orders } = self;
        sequences.forget(uid);
        orders.forget(uid);
    }
}

fn write<S>(
    due: DueWrite<S>,
    (kind, namespace, name): (Kind, &Arc<str>, &Arc<str>),
    status: impl FnOnce(Box<S>) -> NewStatus,
) -> StatusWrite {
    let DueWrite { uid, resource_version, status: content } = due;
    let target = Target { kind, namespace: namespace.clone(), name: name.clone(), uid: Some(uid) };
    StatusWrite { target, resource_version, status: status(Box::new(content)) }
}
