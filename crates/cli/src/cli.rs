//! Command-line arguments, and the dispatch to the commands.

use crate::commands::{
    completion, controller, demo, doctor, explain, install, keys, lint, reference, release,
    reservation::{self, orders, tickets},
    simulate, status, version,
    workload::{restart, start, stop},
};
use crate::outcome::{EXIT_CODES, Outcome};
use anyhow::Result;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::{Path, PathBuf};

/// Name of the executable when kubectl runs it as a plugin.
const PLUGIN: &str = "kubectl-rollcall";

/// Ordered pod start on Kubernetes
#[derive(Debug, Parser)]
#[command(name = "rollcall", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub access: Access,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that select the cluster and the user to connect as.
#[derive(Args, Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig file to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of the current one
    #[arg(long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

/// The `-n` flag, for commands about namespaced objects.
#[derive(Args, Clone, Debug, Default)]
pub struct InNamespace {
    /// The namespace to use instead of the context's default
    #[arg(short, long, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::Arguments),
    Explain(explain::Arguments),
    Release(release::Arguments),
    /// Show the progress of Orders: reserved capacity, and reasons for waiting
    Orders(reservation::Arguments),
    /// List tickets: node, claiming pod and expiry
    Tickets(reservation::Arguments),
    Stop(stop::Arguments),
    Start(start::Arguments),
    Restart(restart::Arguments),
    Keys(keys::Arguments),
    Simulate(simulate::Arguments),
    Lint(lint::Arguments),
    Demo(demo::Arguments),
    Install(install::Arguments),
    Doctor(doctor::Arguments),
    Controller(controller::Arguments),
    Completion(completion::Arguments),
    Version(version::Arguments),
    #[command(hide = true)]
    Reference(reference::Arguments),
}

/// Builds the whole command line, under the name that the user invoked.
pub fn command() -> clap::Command {
    let plugin = is_plugin();
    Cli::command().bin_name(if plugin { "kubectl rollcall" } else { "rollcall" })
}

/// Returns the command that the user types to run this program.
pub fn program() -> &'static str {
    if is_plugin() { "kubectl rollcall" } else { "rollcall" }
}

fn is_plugin() -> bool {
    let called = std::env::args_os().next();
    called.as_deref().map(Path::new).and_then(Path::file_stem).is_some_and(|name| name == PLUGIN)
}

pub fn run() -> Result<Outcome> {
    let matches = command().get_matches();
    let Cli { access, command } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match command {
        Command::Controller(arguments) => controller::run(access, arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Install(arguments) => install::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
        Command::Reference(arguments) => reference::run(&arguments),
        Command::Status(arguments) => block_on(status::run(access, arguments)),
        Command::Explain(arguments) => block_on(explain::run(access, arguments)),
        Command::Release(arguments) => block_on(release::run(access, arguments)),
        Command::Orders(arguments) => block_on(orders::run(access, arguments)),
        Command::Tickets(arguments) => block_on(tickets::run(access, arguments)),
        Command::Stop(arguments) => block_on(stop::run(access, arguments)),
        Command::Start(arguments) => block_on(start::run(access, arguments)),
        Command::Restart(arguments) => block_on(restart::run(access, arguments)),
        Command::Keys(arguments) => block_on(keys::run(access, arguments)),
        Command::Lint(arguments) => block_on(lint::run(access, arguments)),
        Command::Doctor(arguments) => block_on(doctor::run(access, arguments)),
    }
}

/// Runs a command to completion on one thread.
fn block_on(command: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let arguments = std::iter::once("rollcall").chain(line.split_whitespace());
        Cli::try_parse_from(arguments).expect_err(line).to_string()
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn refusals_name_the_argument() {
        let lines = [
            "status -w",
            "status shop --timeout 5m",
            "status shop -w --timeout soon",
            "status shop -A",
            "status -o yaml",
            "explain",
            "release",
            "release shop --group db --reason because",
            "orders -A -n shop",
            "tickets -o yaml",
            "stop",
            "stop shop --timeout soon",
            "restart shop --from db",
            "controller --mode heavy",
            "controller --lease-duration 15",
            "controller --lease-duration 500ms",
            "controller --max-in-flight 0",
            "controller --metrics-bind-address 8080",
            "install --mode lite --namespace Not_A_Name",
            "completion tcsh",
        ];
        let mut answers = String::new();
        for line in lines {
            answers += &format!("$ rollcall {line}\n{}\n", refused(line));
        }
        insta::assert_snapshot!(answers);
    }
}
