//! `rollcall doctor`: checks the installation and prints the command that repairs each problem.
//!
//! ```text
//! fetch (the cluster) ──▶ ClusterView ──▶ check (pure) ──▶ findings ──▶ print
//! ```
//!
//! The expected state is the output of `rollcall install`; there is no second list of objects, rules or names here.

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

/// Check the installation, and print a command that repairs each problem
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Checks the API server, the CRDs, the controller and its lease, its permissions, admission (policies or webhook), certificates,
the requirements of sequences, and leftovers of deleted sequences and reservations. Changes nothing. A check that you are not
permitted to make is reported as unknown.

Exit codes:
  0  no problems, possibly notes
  1  problems found
  2  no problems found, but some checks could not be made; or the cluster cannot be reached")]
pub struct Arguments {
    /// Namespace of the controller
    #[arg(short, long, value_name = "NAME", default_value = names::OWN_NAMESPACE, value_parser = install::namespace)]
    namespace: String,
    /// Output format
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
