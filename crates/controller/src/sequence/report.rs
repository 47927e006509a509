//! Reporting for sequences: their statuses, and the cleanup after their deletion.

use crate::engine::Engine;
use crate::statuses::Reported;
use jiff::Timestamp;
use rollcall_api::sequence::{PodSequenceStatus, report};
use rollcall_core::Uid;
use rollcall_core::sequence::Status;

/// The statuses of sequences.
pub struct SequenceStatuses;

impl Reported for SequenceStatuses {
    type Wanted = Status;
    type Status = PodSequenceStatus;

    fn report(wanted: &Status, written: Option<&PodSequenceStatus>, wall: Timestamp) -> PodSequenceStatus {
        report(wanted, written, wall)
    }

    fn generation(wanted: &Status) -> i64 {
        wanted.observed_generation
    }

    fn observed(status: &PodSequenceStatus) -> Option<i64> {
        status.observed_generation
    }

    /// Whether a group has opened or completed since the last status.
    fn has_progress(wanted: &Status, written: Option<&PodSequenceStatus>) -> bool {
        let wanted =
            wanted.groups.iter().map(|group| (group.opened_at.is_some(), group.completed_at.is_some()));
        let written = written.into_iter().flat_map(|status| &status.groups);
        !wanted.eq(written.map(|group| (group.opened_at.is_some(), group.completed_at.is_some())))
    }

    fn parts(wanted: &Status) -> u32 {
        wanted.groups.len() as u32
    }
}

impl Engine {
    /// Drops all pending reports and gauges of a sequence.
    pub(crate) fn forget_reports(&mut self, sequence: Uid) {
        self.notes.forget(sequence);
        self.reports.forget(sequence);
        self.announcer.forget(sequence);
        self.gauges.forget(sequence, &self.shared.metrics);
    }
}
