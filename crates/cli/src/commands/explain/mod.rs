//! Explains why an object waits. The judgement is the controller's own, applied to the objects that the caller may read.

mod agent;
mod events;
mod launch;
mod node;
mod render;
mod reservation;

use super::target::CommandTarget;
use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::load::{Loaded, Sequences, load};
use crate::outcome::Outcome;
use crate::output::{self, Format};
use crate::shown::Shown;
pub use agent::containers;
use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
pub use node::CommandStyle;
use node::Node;
use rollcall_api::sequence::SequenceObject;
use rollcall_api::watch::Meta;
use rollcall_core::dispatch::explain_pod;
use rollcall_core::sequence::explain::explain_sequence;

/// Explain why a pod, a sequence, an Order or a ticket waits, and what to do about it
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  rollcall explain pod/web\n  rollcall explain podseq shop -n staging\n  rollcall explain order/agents\n  rollcall explain ticket/agents-node-b"
)]
pub struct Arguments {
    /// Object to explain: pod/NAME, podseq/NAME, order/NAME or ticket/NAME
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,
    #[command(flatten)]
    place: InNamespace,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { object, place, output } = arguments;
    let target = CommandTarget::parse(&object).map_err(|problem| anyhow!(problem))?;
    let connection = Connection::open(&access, place.namespace.as_deref(), REQUEST_TIMEOUT).await?;
    let now = Timestamp::now();
    let mut gaps = Vec::new();
    let (loaded, line) = match target {
        CommandTarget::Pod(name) => {
            let waits = agent::line(&connection, &name, now, &mut gaps).await?;
            let sequences = match Sequences::load(&connection, &connection.namespace).await {
                // A cluster can use agents without having sequences installed.
                Err(_) if waits.is_some() => Sequences { objects: Vec::new(), gap: None },
                sequences => sequences?,
            };
            let mut loaded = load(&connection, &connection.namespace, &sequences, now).await?;
            launch::look(&connection, &mut loaded, &name).await?;
            reservation::look(&connection, &mut loaded, &name, now).await?;
            let mut line = explain_pod(&loaded.index, loaded.pod(&name)?, now);
            line.below.extend(launch::unordered(&connection, &loaded, &name).await?);
            let line = agent::instead_of(line, waits);
            (loaded, line)
        }
        CommandTarget::Order(name) => reservation::order(&connection, &name, now).await?,
        CommandTarget::Ticket(name) => reservation::ticket(&connection, &name, now).await?,
        CommandTarget::Sequence(name) => {
            let sequences = Sequences::load(&connection, &connection.namespace).await?;
            let object = sequences.named(&connection.namespace, &name)?;
            let facts = object.facts();
            let target =
                facts.spec.as_ref().map_or(facts.namespace.clone(), |spec| spec.pod_namespace.clone());
            let loaded = load(&connection, &target, &sequences, now).await?;
            let entry = loaded
                .index
                .sequences
                .get(facts.uid)
                .context("the sequence was deleted while this command ran; run it again")?;
            let line = explain_sequence(loaded.index.facts(), entry, now);
            unseen(object);
            (loaded, line)
        }
    };
    let mut node = Node::new(line, &CommandStyle::new(&connection));
    let gap = events::add(&mut node, &connection, &loaded, now).await;
    loaded.gaps.iter().chain(&gaps).chain(&gap).for_each(output::note);
    match output {
        Format::Text => output::data(&render::text(&node))?,
        Format::Json => output::json(&node)?,
    }
    Ok(Outcome::Done)
}

/// Explains why a pod waits, as text for people.
pub fn pod(loaded: &Loaded, name: &str, style: &CommandStyle, now: Timestamp) -> Result<Shown> {
    let line = explain_pod(&loaded.index, loaded.pod(name)?, now);
    Ok(render::text(&Node::new(line, style)))
}

/// Prints a note if no controller has processed this sequence or its newest spec.
pub fn unseen(sequence: &SequenceObject) {
    unseen_by(&sequence.metadata, sequence.status().and_then(|status| status.observed_generation));
}

/// Like [`unseen`], for any kind. `seen` is the object's `status.observedGeneration`.
fn unseen_by(metadata: &Meta, seen: Option<i64>) {
    let (name, generation) = (&metadata.name, metadata.generation.unwrap_or_default());
    match seen {
        Some(seen) if seen >= generation => {}
        Some(_) => output::note(format!("no controller has processed the newest spec of {name} yet")),
        None => output::note(format!(
            "no controller has processed {name} yet; check that the controller is running"
        )),
    }
}
