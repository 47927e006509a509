//! Implements `rollcall release`: a manual override with the caller's own permissions.

mod group;
mod pod;

use super::target::CommandTarget;
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

The first command removes the gate from one pod and records the user and the reason on the pod.
The second command records on the sequence that a group is open (annotation
podsequence.example.com/open-groups); the controller then releases its members.

A pod that waits only for a ticket (gate korder.dev/ticket-gate) then runs without the reserved capacity.

Exit code 1: the pod has no Rollcall gate.")]
pub struct Arguments {
    /// pod/NAME, or the NAME of a sequence
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2)]
    target: Vec<String>,
    /// With a sequence: the group to open, by its name or as "Group N"; repeatable
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["reason", "gate"])]
    group: Vec<String>,
    /// With a pod: the reason, recorded as an annotation of the pod
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With a pod: the gate to remove, instead of the gates of the sequences that the pod belongs to
    #[arg(long, value_name = "NAME")]
    gate: Option<String>,
    #[command(flatten)]
    place: InNamespace,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { target, group, reason, gate, place } = arguments;
    let target = match target.as_slice() {
        [name] if !name.contains('/') => CommandTarget::Sequence(name.clone()),
        words => CommandTarget::parse(words).map_err(|problem| anyhow!(problem))?,
    };
    let connect = || Connection::open(&access, place.namespace.as_deref(), REQUEST_TIMEOUT);
    match target {
        CommandTarget::Pod(name) if group.is_empty() => {
            pod::release(&connect().await?, &name, gate, reason).await
        }
        CommandTarget::Pod(name) => {
            bail!("--group: pod/{name} is a pod; name a sequence to open one of its groups")
        }
        CommandTarget::Sequence(name) if reason.is_some() || gate.is_some() => {
            bail!("--reason and --gate are for pods; did you mean pod/{name}?")
        }
        CommandTarget::Sequence(name) => group::open(&connect().await?, &name, &group).await,
        CommandTarget::Order(name) | CommandTarget::Ticket(name) => {
            bail!("{name} holds no pods; name the pod to run without reserved capacity: pod/NAME")
        }
    }
}
