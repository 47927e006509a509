//! What people see of sequences: their statuses, and what is told of them when they are gone.

use crate::act::StatusWrite;
use crate::engine::Engine;
use crate::watch::Written;
use rollcall_api::sequence::KnownSpec;
use rollcall_core::Uid;
use rollcall_core::cluster::Target;
use rollcall_core::kind::Kind;
use rollcall_core::sequence::Status;
use tokio::time::Instant;

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
    pub(crate) fn sequence_seen(&mut self, written: Written) {
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
