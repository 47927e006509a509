//! Ordered stop, start and restart of the workloads behind a sequence, with the rights of whoever calls.
//!
//! ```text
//! world: what is there, read anew before each step      tiers: which workloads belong to which group
//! warnings, rights: what is said and asked before anything is changed
//! stop, start, restart: world → what is next            drive: carries that out, shows it, and looks again
//! ```
//!
//! What to do next depends on nothing but the world. So a command can be killed at any point and called again: what it has to
//! remember stands in annotations of the workloads.

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
mod warnings;
mod world;
mod write;

use super::status;
use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::load::Sequences;
use anyhow::{Result, anyhow, bail};
use rollcall_core::sequence::Spec;
use rollcall_core::sequence::spec::Invalid;
use std::sync::Arc;
use std::time::Duration;
use world::World;

/// What all three commands take.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// The sequence
    name: String,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// How long one tier may take, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = status::duration)]
    timeout: Duration,
    #[command(flatten)]
    place: InNamespace,
}

/// What a command begins with.
struct Begun {
    connection: Connection,
    world: World,
    spec: Arc<Spec>,
}

async fn begin(access: &Access, common: &Common) -> Result<Begun> {
    let connection = Connection::open(access, common.place.namespace.as_deref(), REQUEST_TIMEOUT).await?;
    let sequences = Sequences::load(&connection, &connection.namespace).await?;
    let object = sequences.named(&connection.namespace, &common.name)?.clone();
    let invalid = |problem: &Invalid| anyhow!("podsequence {} is invalid: {problem}", common.name);
    let spec = object.facts().spec.map_err(|problem| invalid(&problem))?;
    let world = World::load(&connection, object, sequences.objects, true).await;
    let world = world.map_err(|unread| unread.error)?;
    let (home, there) = (&connection.namespace, &spec.pod_namespace);
    if !world.index.cluster.permits(there, home) {
        bail!(
            "namespace {there} does not allow sequences from {home}: podsequence {} claims nothing there",
            common.name
        );
    }
    Ok(Begun { connection, world, spec })
}
