//! `rollcall orders` and `rollcall tickets`: how far reservations are, as their statuses say.

pub mod orders;
pub mod tickets;

use crate::cli::InNamespace;
use crate::output;
use clap::ValueEnum;

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

fn none_there(what: &str, all_namespaces: bool, namespace: &str) {
    match all_namespaces {
        true => output::note(format!("no {what} anywhere")),
        false => output::note(format!("no {what} in namespace {namespace}; -A shows all")),
    }
}
