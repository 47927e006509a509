//! What people see of sequences: their statuses, and what is told of them when they are gone.

use crate::act::StatusWrite;
use crate::engine::Engine;
use crate::statuses::Reported;
use crate::watch::Written;
use jiff::Timestamp;
use rollcall_api::sequence::{KnownSpec, PodSequenceStatus, report};
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::kind::Kind;
use rollcall_core::sequence::Status;
use tokio::time::Instant;

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

    /// A group has opened or completed.
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
    /// The status of a sequence that was decided.
    pub(crate) fn want_status(
        &mut self,
        sequence: Uid,
        status: Status,
        urgent: bool,
        hold: bool,
        now: Instant,
    ) {
        self.gauges.count(sequence, &status, &self.shared.metrics);
        // While its note is being written nothing is released; the next decision has more to say.
        if !hold && !self.config.dry_run {
            self.statuses.want(sequence, status, urgent, now);
        }
    }

    /// A status that is due, unless its sequence is gone.
    pub(crate) fn next_status(&mut self, now: Instant) -> Option<Option<StatusWrite>> {
        let due = self.statuses.pop(now, self.clock.now())?;
        let entry = self.index.sequences.get(due.uid).filter(|entry| !entry.ghost);
        Some(entry.map(|entry| StatusWrite {
            target: Target {
                kind: Kind::Sequence,
                namespace: entry.sequence.namespace.clone(),
                name: entry.sequence.name.clone(),
                uid: Some(due.uid),
            },
            uid: due.uid,
            resource_version: due.resource_version,
            status: due.status,
            spec: KnownSpec::from(&entry.sequence),
        }))
    }

    /// A sequence was seen, with what its status says. An older view than the one known, or one of a sequence that is gone, says
    /// nothing about its status either.
    pub(crate) fn sequence_seen(&mut self, written: Written<PodSequenceStatus>) {
        let known = self.index.sequences.get(written.uid).filter(|known| !known.ghost);
        if known.is_some_and(|known| known.sequence.version == written.version) {
            self.statuses.observed(written.uid, written);
        }
    }

    /// There is nothing more to tell about a sequence.
    pub(crate) fn forget_reports(&mut self, sequence: Uid) {
        self.notes.forget(sequence);
        self.statuses.forget(sequence);
        self.announcer.forget(sequence);
        self.gauges.forget(sequence, &self.shared.metrics);
    }
}
