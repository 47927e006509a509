//! Implements `rollcall keys`: prints the keys of the labels or taints that block nodes.

use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::load::Sequences;
use crate::outcome::Outcome;
use crate::output;
use crate::shown;
use crate::shown::{Show, Shown};
use anyhow::{Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use rollcall_core::sequence::keys::{PREFIX, TAINT_PREFIXES, keys, prefix};
use rollcall_core::sequence::spec::{Members, Scope};

/// Print the label or taint keys that mark nodes as blocked for the groups of a sequence
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A node that has not reached a group carries the group's key as a label (or, with nodeGuard: Taints, as a taint). A key never
changes unless the group or the sequence is renamed, so you can use it in the toleration of a DaemonSet or for an autoscaler.

Exit codes:
  0  the keys were printed
  2  the sequence does not exist or is invalid, or its scope is not Node")]
pub struct Arguments {
    /// Name of the sequence
    #[arg(value_name = "NAME")]
    name: String,
    /// Prefix of taint keys that the controller uses (`controller --taint-prefix`)
    #[arg(long, value_name = "PREFIX", default_value = PREFIX, value_parser = PossibleValuesParser::new(TAINT_PREFIXES))]
    taint_prefix: String,
    #[command(flatten)]
    place: InNamespace,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let place = arguments.place.namespace.as_deref();
    let connection = Connection::open(&access, place, REQUEST_TIMEOUT).await?;
    let sequences = Sequences::load(&connection, &connection.namespace).await?;
    let object = sequences.named(&connection.namespace, &arguments.name)?;
    let sequence = object.facts();
    let spec = sequence.spec.map_err(|invalid| anyhow!("podsequence {}: {invalid}", arguments.name))?;
    if spec.scope != Scope::Node {
        bail!("podsequence {} has scope Cluster: it blocks no nodes", arguments.name);
    }
    let of_taints = known_prefix(&arguments.taint_prefix);
    let keys = keys(prefix(spec.guard, of_taints), &sequence.namespace, &sequence.name, &spec.groups);
    // A group without members blocks no node.
    let closing = spec.groups.iter().zip(&keys).filter(|(group, _)| group.members != Members::None);
    let closing: Vec<(Shown, _)> = closing.map(|(group, key)| (group.title.shown(), key)).collect();
    let width = closing.iter().map(|(title, _)| title.width()).max().unwrap_or_default();
    let mut text = Shown::default();
    for (title, key) in closing {
        text += shown!("{}  {}\n", title.padded(width), key);
    }
    output::data(&text)?;
    Ok(Outcome::Done)
}

/// Returns the constant that equals this name; the argument parser accepts no other names.
pub fn known_prefix(name: &str) -> &'static str {
    TAINT_PREFIXES.into_iter().find(|known| *known == name).unwrap_or(PREFIX)
}
