//! `rollcall doctor`: is the installation well, and what repairs it if not.
//!
//! ```text
//! fetch (what there is) ──▶ ClusterView ──▶ check (pure) ──▶ findings ──▶ print
//! ```
//!
//! What is right is what `rollcall install` prints; there is no second list of objects, rules or names here.

mod check;
mod command_line;
mod compare;
mod fetch;
mod fetched;
mod finding;
mod print;
mod rights;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_reservations;

use crate::cli::Access;
use crate::commands::install;
use crate::connect::{Connection, REQUEST_TIMEOUT};
use crate::outcome::Outcome;
use crate::output::{self, Format};
use anyhow::Result;
use command_line::CommandLine;
use rollcall_api::names;

/// Check the installation, and print the command that repairs each finding
#[derive(clap::Args, Debug)]
#[command(after_help = "\
It looks at the API server, the CRDs, the controller and its lease, its permissions, admission (policies or webhook), certificates,
what sequences need, and what is left of sequences and reservations that are gone. It writes nothing. What you may not see is said and left out.

Exit codes:
  0  all is well, or there are only notes
  1  there are problems
  2  no problem was found, but not all could be checked; or the cluster cannot be reached")]
pub struct Arguments {
    /// The controller's own namespace
    #[arg(short, long, value_name = "NAME", default_value = names::OWN_NAMESPACE, value_parser = install::namespace)]
    namespace: String,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

pub async fn run(access: Access, arguments: Arguments) -> Result<Outcome> {
    let Arguments { namespace, output } = arguments;
    let connection = Connection::open(&access, Some(&namespace), REQUEST_TIMEOUT).await?;
    let seen = fetch::fetch(&connection, &namespace).await?;
    let findings = check::all(&seen, &CommandLine::new(&access, &namespace));
    match output {
        Format::Text => output::data(&print::text(&findings))?,
        Format::Json => output::json(&print::json(&seen.server, &findings))?,
    }
    Ok(finding::outcome(&findings))
}
