//! `rollcall orders` and `rollcall tickets`: how far reservations are, as their statuses say.

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

/// What both take.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    place: InNamespace,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Text,
    /// With more columns
    Wide,
    Json,
}

/// Names in a cell; the others are counted.
const NAMES: usize = 3;

/// `a, b, c and 4 more`.
fn some(names: &[&str]) -> String {
    match names.len() {
        0..=NAMES => names.join(", "),
        more => format!("{} and {} more", names[..NAMES].join(", "), more - NAMES),
    }
}

/// What somebody wants to see, and where.
struct Question {
    connection: Connection,
    all_namespaces: bool,
    output: Format,
}

/// How a table is drawn.
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

    /// `None` for all of them.
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
            (Format::Json, _) => output::json(&json!({"items": views}))?,
            (Format::Text | Format::Wide, None) if views.is_empty() => {
                output::note(format!("no {what} anywhere"));
            }
            (Format::Text | Format::Wide, Some(namespace)) if views.is_empty() => {
                output::note(format!("no {what} in namespace {namespace}; -A shows all"));
            }
            (Format::Text | Format::Wide, namespace) => {
                let columns = Columns { namespace: namespace.is_none(), wide: self.output == Format::Wide };
                output::data(&text(views, columns, Timestamp::now()))?;
            }
        }
        Ok(Outcome::Done)
    }
}
