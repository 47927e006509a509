//! The plan of a run: a seed, which also determines the world, and the faults.

use super::fault::{Fault, Place, Planned};
use super::world::{self, World};
use crate::chance::Chance;

#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    pub seed: u64,
    pub faults: Vec<Planned>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn calm(seed: u64) -> FaultPlan {
        FaultPlan { seed, faults: Vec::new() }
    }

    /// A plan with random faults.
    pub fn random(seed: u64) -> FaultPlan {
        let (mut chance, world) = (Chance::seeded(seed), world::ALL[world::index_of(seed)]);
        let number = 1 + chance.below(4);
        let faults = (0..number).map(|_| {
            let possible = Fault::ALL.iter().copied().filter(|fault| world.allows(*fault));
            let possible: Vec<Fault> = possible.collect();
            let fault = possible[chance.below(possible.len() as u64) as usize];
            sometime(fault, &mut chance)
        });
        FaultPlan { seed, faults: faults.collect() }
    }

    /// Parses faults as printed by [`FaultPlan::command`], such as `away@1200,410@3`.
    pub fn given(seed: u64, faults: &str) -> Result<FaultPlan, String> {
        let faults: Result<Vec<Planned>, String> = faults.split(',').map(str::parse).collect();
        Ok(FaultPlan { seed, faults: faults? })
    }

    /// A plan with these faults at random times.
    pub fn with_faults(seed: u64, faults: &[Fault]) -> FaultPlan {
        let mut chance = Chance::seeded(seed);
        FaultPlan { seed, faults: faults.iter().map(|fault| sometime(*fault, &mut chance)).collect() }
    }

    pub fn world(&self) -> &'static World {
        world::ALL[world::index_of(self.seed)]
    }

    /// The command that repeats the run.
    pub fn command(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(Planned::to_string).collect();
        format!("make chaos SEED={} FAULTS={}", self.seed, faults.join(","))
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults.iter().any(|plan| plan.fault == fault)
    }

    /// Time of the last fault that strikes at a time, in milliseconds.
    pub fn last_timed(&self) -> u64 {
        self.faults
            .iter()
            .filter(|plan| plan.fault.is_timed())
            .map(|plan| plan.when)
            .max()
            .unwrap_or_default()
    }
}

fn sometime(fault: Fault, chance: &mut Chance) -> Planned {
    let when = match fault.place() {
        Place::Write => 1 + chance.below(40),
        // Each start lists and watches nine kinds, or eleven in Full mode.
        Place::List | Place::Watch => 1 + chance.below(20),
        // Each claim takes five steps.
        Place::HandOver => 1 + chance.below(25),
        Place::Process | Place::Cluster | Place::Nodes | Place::Launch | Place::Reservation => {
            chance.below(9_000)
        }
    };
    Planned { fault, when }
}
