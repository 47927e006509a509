//! The language of the cases.

mod command;
mod expect;
mod given;

use crate::support::world::World;
use given::Given;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The sentence of the specification that the case shows.
    pub about: String,
    #[serde(default)]
    pub sequences: BTreeMap<String, Given>,
    pub steps: Vec<ScriptStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptStep {
    /// The commands: see `command.rs`.
    #[serde(default, rename = "do")]
    pub commands: Vec<String>,
    /// Sequences to create or update.
    #[serde(default)]
    pub edit: BTreeMap<String, Given>,
    /// The pods that are released, in order. Empty: none may be released.
    #[serde(default)]
    pub released: Vec<String>,
    /// Notes that are written or removed, in order.
    pub notes: Option<Vec<String>>,
    /// Whether the status had content that must be written without delay.
    pub urgent: Option<bool>,
    /// The expected state of each named sequence.
    #[serde(default)]
    pub see: BTreeMap<String, expect::Seen>,
    /// `pod/NAME` or `sequence/NAME`, with the expected explanation.
    #[serde(default)]
    pub explain: BTreeMap<String, String>,
}

pub fn run(case: Case) -> Result<(), String> {
    let mut world = World::new();
    for (name, given) in &case.sequences {
        given.apply(name, &mut world)?;
    }
    for (number, step) in case.steps.iter().enumerate() {
        let place = || format!("{}\n  step {}: {}", case.about, number + 1, step.commands.join("; "));
        take(step, &mut world).map_err(|problem| format!("{}\n{problem}", place()))?;
    }
    Ok(())
}

fn take(step: &ScriptStep, world: &mut World) -> Result<(), String> {
    for command in &step.commands {
        command::run(command, world).map_err(|problem| format!("{command}: {problem}"))?;
    }
    for (name, given) in &step.edit {
        given.apply(name, world)?;
    }
    world.settle();
    expect::check(step, world)
}
