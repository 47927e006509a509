//! Ordered stop, start and restart of the workloads of a sequence, with the permissions of the caller.
//!
//! ```text
//! world: state of the cluster, read before each step    tiers: which workloads belong to which group
//! warnings, rights: warnings and permission checks before the first change
//! stop, start, restart: world → next step               drive: executes it, shows the progress, and reads the world again
//! ```
//!
//! A command can be killed at any point and called again: state that it must remember is in annotations of the workloads.

mod drive;
pub mod restart;
mod rights;
pub mod start;
pub mod stop;
mod stuck;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tiers;
mod unready;
mod warnings;
mod world;
mod write;

use super::status;
use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::load::Sequences;
use anyhow::{Result, anyhow, bail};
use rollcall_core::sequence::Spec;
use rollcall_core::sequence::spec::InvalidField;
use std::sync::Arc;
use std::time::Duration;
use world::World;

/// Arguments of all three commands.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// Name of the sequence
    name: String,
    /// Print the planned changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Time limit for each group, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = status::duration)]
    timeout: Duration,
    #[command(flatten)]
    place: InNamespace,
}

/// The initial state of a command.
struct Begun {
    connection: Connection,
    world: World,
    spec: Arc<Spec>,
}

async fn begin(access: &Access, common: &Common) -> Result<Begun> {
    let connection = Connection::open(access, common.place.namespace.as_deref(), REQUEST_TIMEOUT).await?;
    let sequences = Sequences::load(&connection, &connection.namespace).await?;
    let object = sequences.named(&connection.namespace, &common.name)?.clone();
    let invalid = |problem: &InvalidField| anyhow!("podsequence {} is invalid: {problem}", common.name);
    let spec = object.facts().spec.map_err(|problem| invalid(&problem))?;
    let world = World::load(&connection, object, sequences.objects, true).await;
    let world = world.map_err(|unread| unread.error)?;
    let (home, there) = (&connection.namespace, &spec.pod_namespace);
    if !world.index.cluster.permits(there, home) {
        bail!(
            "namespace {there} does not permit sequences from namespace {home}: podsequence {} has no members there",
            common.name
        );
    }
    Ok(Begun { connection, world, spec })
}
