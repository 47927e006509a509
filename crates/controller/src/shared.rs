//! State that the loop shares with the servers beside it: health, metrics, and the roster of sequences.

use crate::health::Health;
use crate::metrics::Metrics;
#[cfg(debug_assertions)]
use rollcall_core::index::Index;
use rollcall_core::roster::Roster;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A function of a test that is given the controller's index.
#[cfg(debug_assertions)]
pub type IdleObserver = Box<dyn FnMut(&Index) + Send>;

#[derive(Default)]
pub struct Shared {
    pub health: Health,
    pub metrics: Metrics,
    /// In Full mode: the sequences as admission sees them, for the webhook.
    roster: RwLock<Roster>,
    /// Called after each turn of the loop that leaves nothing to decide and no write unanswered.
    #[cfg(debug_assertions)]
    pub idle_observer: std::sync::Mutex<Option<IdleObserver>>,
}

impl Shared {
    pub fn roster(&self) -> RwLockReadGuard<'_, Roster> {
        self.roster.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn roster_mut(&self) -> RwLockWriteGuard<'_, Roster> {
        self.roster.write().unwrap_or_else(PoisonError::into_inner)
    }
}
