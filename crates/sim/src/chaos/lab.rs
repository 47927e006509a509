//! Sets up a run: the world, the cluster and the checks.

use super::faults::Faults;
use super::history::{History, identity};
use super::plan::FaultPlan;
use super::process::{Handle, Process};
use super::seen::Seen;
use super::world::World;
use crate::embedded::{self, Embedded};
use crate::server::Shared;
use jiff::Timestamp;
use rollcall_controller::Config;
use rollcall_controller::clock::Clock;
use std::sync::Arc;

/// Start time of every run.
const BEGINNING: i64 = 1_767_225_600;

pub struct Lab {
    pub world: &'static World,
    pub shared: Arc<Shared>,
    pub faults: Faults,
    pub history: History,
    pub handles: [Handle; 2],
    seen: Seen,
    clock: Clock,
    seed: u64,
}

impl Lab {
    /// Creates the objects of the plan's world. The caller must run the returned cluster.
    pub fn new(plan: &FaultPlan) -> (Lab, Embedded) {
        let world = plan.world();
        let beginning = Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH);
        let clock = Clock::starting_at(beginning);
        let embedded = Embedded::new(clock, plan.seed);
        let (shared, seen) = (embedded.shared.clone(), Seen::default());
        let history = History::new(world, seen.clone());
        {
            let mut cluster = shared.lock();
            cluster.store.observe(Box::new(history.clone()));
            world.create(&mut cluster);
        }
        let faults = Faults::new(plan.faults.clone());
        let handles = [Handle::default(), Handle::default()];
        (Lab { world, shared, faults, history, handles, seen, clock, seed: plan.seed }, embedded)
    }

    /// Creates a controller process, which the caller must run.
    pub fn process(&self, number: usize, leader_elect: bool) -> Process {
        let seed = self.seed.wrapping_add(number as u64);
        let config = Config {
            full: self.world.full,
            reservations: self.world.reservation,
            leader_elect,
            ..embedded::config(&identity(number), seed)
        };
        Process {
            number,
            shared: self.shared.clone(),
            faults: self.faults.clone(),
            seen: self.seen.clone(),
            config,
            clock: self.clock,
            handle: self.handles[number].clone(),
        }
    }
}
