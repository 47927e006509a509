//! Implements `rollcall orders` and `rollcall tickets`: list reservations from the statuses of Orders and tickets.

pub mod orders;
pub mod tickets;

use crate::cli::{Access, InNamespace};
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::outcome::Outcome;
use crate::output;
use crate::shown::Shown;
use anyhow::Result;
use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

/// Arguments of both commands.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// List the objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    place: InNamespace,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: ListFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    #[default]
    Text,
    /// Like text, with more columns
    Wide,
    Json,
}

/// Maximum number of names in a cell; the remaining ones are only counted.
const NAMES: usize = 3;

/// Joins names: `a, b, c and 4 more`.
fn some(names: &[&str]) -> String {
    match names.len() {
        0..=NAMES => names.join(", "),
        more => format!("{} and {} more", names[..NAMES].join(", "), more - NAMES),
    }
}

/// A connection, the namespaces to list, and the output format.
struct Question {
    connection: Connection,
    all_namespaces: bool,
    output: ListFormat,
}

/// Optional columns of the table.
#[derive(Clone, Copy, Debug)]
struct Columns {
    namespace: bool,
    wide: bool,
}

impl Question {
    async fn open(access: &Access, arguments: Arguments) -> Result<Question> {
        let Arguments { all_namespaces, place, output } = arguments;
        let connection = Connection::open(access, place.namespace.as_deref(), REQUEST_TIMEOUT).await?;
        Ok(Question { connection, all_namespaces, output })
    }

    /// The namespace to list, or `None` for all namespaces.
    fn namespace(&self) -> Option<&str> {
        (!self.all_namespaces).then_some(self.connection.namespace.as_str())
    }

    fn answer<V: Serialize>(
        &self,
        what: &str,
        views: &[V],
        text: fn(&[V], Columns, Timestamp) -> Shown,
    ) -> Result<Outcome> {
        match (self.output, self.namespace()) {
            (ListFormat::Json, _) => output::json(&json!({"items": views}))?,
            (ListFormat::Text | ListFormat::Wide, None) if views.is_empty() => {
                output::note(format!("no {what} in any namespace"));
            }
            (ListFormat::Text | ListFormat::Wide, Some(namespace)) if views.is_empty() => {
                output::note(format!("no {what} in namespace {namespace}; -A lists all namespaces"));
            }
            (ListFormat::Text | ListFormat::Wide, namespace) => {
                let columns =
                    Columns { namespace: namespace.is_none(), wide: self.output == ListFormat::Wide };
                output::data(&text(views, columns, Timestamp::now()))?;
            }
        }
        Ok(Outcome::Done)
    }
}
