//! The faults of a run: those still to strike, how often each has struck, and the outages that last.

use super::fault::{Counts, Fault, Place, Planned};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// A part of the server that does not work for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    Server,
    Kind,
    Quota,
}

#[derive(Default)]
struct State {
    planned: Vec<Planned>,
    counts: Counts,
    writes: u64,
    lists: u64,
    watches: u64,
    /// Steps of hand-overs that were sent.
    steps: u64,
    /// Writes that were sent, leases apart.
    requests: u64,
    starts: u64,
    /// The first answer to each list, to be shown again.
    lists_seen: BTreeMap<String, Bytes>,
    outages: BTreeSet<Outage>,
    /// Watches that are dead for good, by process and path.
    hung: BTreeSet<(usize, String)>,
    hung_since: Option<Instant>,
}

/// Shared by all clients of a run.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    /// Told when all connections break.
    broken: watch::Sender<()>,
    pub small_pages: bool,
    pub breaks_connections: bool,
}

impl Faults {
    pub fn new(planned: Vec<Planned>) -> Faults {
        let has = |fault: Fault| planned.iter().any(|plan| plan.fault == fault);
        let small_pages = has(Fault::ExpiredToken);
        let breaks_connections = has(Fault::ServerRestart) || has(Fault::Unseen);
        let state = Arc::new(Mutex::new(State { planned, ..State::default() }));
        Faults { state, broken: watch::Sender::new(()), small_pages, breaks_connections }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Writes that were sent so far.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Writes that were sent so far, leases apart.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }

    /// How often a process was started.
    pub fn starts(&self) -> u64 {
        self.state().starts
    }

    pub fn struck(&self, fault: Fault) {
        *self.state().counts.entry(fault).or_default() += 1;
    }

    pub fn wrote(&self, path: &str) {
        self.state().requests += u64::from(!path.contains("/leases"));
    }

    /// What strikes the next request of its kind.
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

    /// The first answer to a list; this one, if there was none.
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

    /// Ends when all connections break.
    pub fn breaks(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut broken = self.broken.subscribe();
        async move {
            // The sender lives as long as the run.
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

    /// Since when a watch is dead for good.
    pub fn hung_since(&self) -> Option<Instant> {
        self.state().hung_since
    }

    /// A process is started: its connections are new.
    pub fn begins(&self, process: usize) {
        let mut state = self.state();
        state.starts += 1;
        state.hung.retain(|(hung, _)| *hung != process);
        if state.hung.is_empty() {
            state.hung_since = None;
        }
    }
}
