//! Override by hand, with the caller's own rights.

mod group;
mod pod;

use super::target::Target;
use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::outcome::Outcome;
use anyhow::{Result, anyhow, bail};

/// Release a held pod, or open a group of a sequence, without waiting
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rollcall release pod/web --reason \"demo at ten\"
  rollcall release shop --group \"Application Layer\"

The first removes the gate from one pod and notes on it who did so and why. The second notes on the
sequence that a group is open (annotation podsequence.example.com/open-groups); the controller then
releases its members.

A pod that only waits for the room of a ticket (gate korder.dev/ticket-gate) runs without it then.

Exit code 1: the pod carries no gate of ours.")]
pub struct Arguments {
    /// pod/NAME, or the NAME of a sequence
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2)]
    target: Vec<String>,
    /// With a sequence: the group to open, by its name or as "Group N"; may be repeated
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["reason", "gate"])]
    group: Vec<String>,
    /// With a pod: why, for those who read its annotations later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With a pod: the gate to remove, instead of those of the sequences that claim it
    #[arg(long, value_name = "NAME")]
    gate: Option<String>,
    #[command(flatten)]
    place: InNamespace,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { target, group, reason, gate, place } = arguments;
    let target = match target.as_slice() {
        [name] if !name.contains('/') => Target::Sequence(name.clone()),
        words => Target::parse(words).map_err(|problem| anyhow!(problem))?,
    };
    let connect = || Connection::open(&access, place.namespace.as_deref(), REQUEST_TIMEOUT);
    match target {
        Target::Pod(name) if group.is_empty() => pod::release(&connect().await?, &name, gate, reason).await,
        Target::Pod(name) => bail!("--group: pod/{name} is a pod; name the sequence whose group is to open"),
        Target::Sequence(name) if reason.is_some() || gate.is_some() => {
            bail!("--reason and --gate are for pods; did you mean pod/{name}?")
        }
        Target::Sequence(name) => group::open(&connect().await?, &name, &group).await,
        Target::Order(name) | Target::Ticket(name) => {
            bail!("{name} holds no pod; name the pod that is to run without its room: pod/NAME")
        }
    }
}
