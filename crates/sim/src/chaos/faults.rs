//! The faults of a run: those still planned, counts of those that struck, and current outages.

use super::fault::{Counts, Fault, Place, Planned};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// A part of the server that fails for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    Server,
    Kind,
    Quota,
}

#[derive(Default)]
struct FaultsState {
    planned: Vec<Planned>,
    counts: Counts,
    writes: u64,
    lists: u64,
    watches: u64,
    /// Number of hand-over steps sent so far.
    steps: u64,
    /// Number of writes sent so far, without lease writes.
    requests: u64,
    starts: u64,
    /// The first answer to each list, for the fault `OlderList`.
    lists_seen: BTreeMap<String, Bytes>,
    outages: BTreeSet<Outage>,
    /// Watches that are permanently dead, by process and path.
    hung: BTreeSet<(usize, String)>,
    hung_since: Option<Instant>,
}

/// The faults of a run, shared by all of its clients.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<FaultsState>>,
    /// Notified when all connections break.
    broken: watch::Sender<()>,
    pub small_pages: bool,
    pub breaks_connections: bool,
}

impl Faults {
    pub fn new(planned: Vec<Planned>) -> Faults {
        let has = |fault: Fault| planned.iter().any(|plan| plan.fault == fault);
        let small_pages = has(Fault::ExpiredToken);
        let breaks_connections = has(Fault::ServerRestart) || has(Fault::Unseen);
        let state = Arc::new(Mutex::new(FaultsState { planned, ..FaultsState::default() }));
        Faults { state, broken: watch::Sender::new(()), small_pages, breaks_connections }
    }

    fn state(&self) -> MutexGuard<'_, FaultsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Number of writes sent so far.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Number of writes sent so far, without lease writes.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// Number of process starts.
    pub fn starts(&self) -> u64 {
        self.state().starts
    }

    pub fn struck(&self, fault: Fault) {
        *self.state().counts.entry(fault).or_default() += 1;
    }

    pub fn wrote(&self, path: &str) {
        self.state().requests += u64::from(!path.contains("/leases"));
    }

    /// Counts a request and returns the fault that strikes it, with the number of the request.
    pub fn next(&self, place: Place, continues: bool) -> Option<(Fault, u64)> {
        let mut state = self.state();
        let number = match place {
            Place::Write => &mut state.writes,
            Place::List => &mut state.lists,
            Place::HandOver => &mut state.steps,
            _ => &mut state.watches,
        };
        *number += 1;
        let number = *number;
        let strikes = |plan: &Planned| match plan.fault {
            Fault::ExpiredToken => continues && plan.when <= number,
            fault => fault.place() == place && plan.when == number,
        };
        let at = state.planned.iter().position(strikes)?;
        let fault = state.planned.remove(at).fault;
        *state.counts.entry(fault).or_default() += 1;
        Some((fault, number))
    }

    /// The first answer to a list. The first call for a path stores `now`.
    pub fn first_list(&self, path: String, now: &Bytes) -> Bytes {
        self.state().lists_seen.entry(path).or_insert_with(|| now.clone()).clone()
    }

    pub fn set(&self, outage: Outage, on: bool) {
        let mut state = self.state();
        match on {
            true => state.outages.insert(outage),
            false => state.outages.remove(&outage),
        };
        if outage == Outage::Server {
            self.broken.send_replace(());
        }
    }

    pub fn is_out(&self, outage: Outage) -> bool {
        self.state().outages.contains(&outage)
    }

    /// Returns a future that completes when all connections break.
    pub fn breaks(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut broken = self.broken.subscribe();
        async move {
            // The sender lives as long as the run, so this does not fail.
            let _ = broken.changed().await;
        }
    }

    pub fn hang(&self, process: usize, path: &str) {
        let mut state = self.state();
        state.hung.insert((process, path.to_owned()));
        state.hung_since.get_or_insert_with(Instant::now);
    }

    pub fn hangs(&self, process: usize, path: &str) -> bool {
        let state = self.state();
        !state.hung.is_empty() && state.hung.contains(&(process, path.to_owned()))
    }

    /// Since when at least one watch is permanently dead.
    pub fn hung_since(&self) -> Option<Instant> {
        self.state().hung_since
    }

    /// Records the start of a process. Its dead watches are replaced.
    pub fn begins(&self, process: usize) {
        let mut state = self.state();
        state.starts += 1;
        state.hung.retain(|(hung, _)| *hung != process);
        if state.hung.is_empty() {
            state.hung_since = None;
        }
    }
}
