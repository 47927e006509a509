//! Implements `rollcall status`: shows the progress of sequences from their statuses.

pub mod screen;
mod table;
mod tree;
pub mod view;
mod watch;

use super::explain::unseen;
use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT, WATCH_TIMEOUT};
use crate::load::{self, Sequences};
use crate::outcome::Outcome;
use crate::output::{self, Format};
use anyhow::Result;
use jiff::Timestamp;
use rollcall_api::duration::GoDuration;
use rollcall_api::sequence::Phase;
use serde_json::json;
use std::io::IsTerminal;
use std::time::Duration;
use view::SequenceView;

/// Show the progress of sequences
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes with NAME:
  0  the sequence is complete; without -w also: it is in progress
  1  the sequence has failed (the condition Stalled has the reason)
  2  the sequence does not exist, or the cluster cannot be reached
  3  -w: not complete within --timeout")]
pub struct Arguments {
    /// Sequence to show group by group; without it, a table of all sequences in the namespace
    name: Option<String>,
    /// Update the output until the sequence is complete or has failed
    #[arg(short, long, requires = "name")]
    watch: bool,
    /// With -w: maximum time to wait, such as 90s or 5m
    #[arg(long, value_name = "DURATION", requires = "watch", value_parser = duration)]
    timeout: Option<Duration>,
    /// List the sequences of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    place: InNamespace,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

/// Parses a duration such as `90s` or `5m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<GoDuration>().map(GoDuration::get).map_err(|error| error.to_string())
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { name, watch, timeout, all_namespaces, place, output } = arguments;
    let silence = if watch { WATCH_TIMEOUT } else { REQUEST_TIMEOUT };
    let connection = Connection::open(&access, place.namespace.as_deref(), silence).await?;
    match name {
        None => all(&connection, all_namespaces, output).await,
        Some(name) if watch => watch::until_settled(&connection, &name, timeout, output).await,
        Some(name) => show_one(&connection, &name, output).await,
    }
}

async fn all(connection: &Connection, all_namespaces: bool, format: Format) -> Result<Outcome> {
    let objects = match all_namespaces {
        true => load::everywhere(connection).await?,
        false => load::in_namespace(connection, &connection.namespace).await?,
    };
    let views: Vec<SequenceView> = objects.iter().map(SequenceView::new).collect();
    match format {
        Format::Json => output::json(&json!({"items": views}))?,
        Format::Text if views.is_empty() && all_namespaces => {
            output::note("no podsequences in any namespace")
        }
        Format::Text if views.is_empty() => {
            output::note(format!(
                "no podsequences in namespace {}; -A lists all namespaces",
                connection.namespace
            ));
        }
        Format::Text => output::data(&table::text(&views, all_namespaces, Timestamp::now()))?,
    }
    Ok(Outcome::Done)
}

async fn show_one(connection: &Connection, name: &str, format: Format) -> Result<Outcome> {
    let objects = load::in_namespace(connection, &connection.namespace).await?;
    let sequences = Sequences { objects, gap: None };
    let object = sequences.named(&connection.namespace, name)?;
    let view = SequenceView::new(object);
    unseen(object);
    match format {
        Format::Json => output::json(&view)?,
        Format::Text => {
            let style = tree::Style { bars: std::io::stdout().is_terminal(), rows: usize::MAX };
            output::data(&tree::text(&view, style, Timestamp::now()))?;
        }
    }
    match view.settled() {
        Some(Phase::Failed) => Ok(Outcome::Failed),
        Some(_) | None => Ok(Outcome::Done),
    }
}
