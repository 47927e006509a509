//! State that the loop shares with the servers beside it: health, metrics, and the roster of sequences.

use crate::health::Health;
use crate::metrics::Metrics;
use rollcall_core::roster::Roster;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub struct Shared {
    pub health: Health,
    pub metrics: Metrics,
    /// In Full mode: the sequences as admission sees them, for the webhook.
    roster: RwLock<Roster>,
}

impl Shared {
    pub fn roster(&self) -> RwLockReadGuard<'_, Roster> {
        self.roster.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn roster_mut(&self) -> RwLockWriteGuard<'_, Roster> {
        self.roster.write().unwrap_or_else(PoisonError::into_inner)
    }
}
