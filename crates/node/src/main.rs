//! `rollcall-node`: one small static program for init containers and for agents on a node.
//!
//! - [`wait`]: waits until conditions hold. [`mark`]: keeps a marker while they hold. [`volume`]: keeps a folder
//!   mounted, and a marker in it.
//! - [`condition`]: the conditions. [`watch`]: threads that check conditions, and the events that trigger a check.
//! - [`marker`]: marker files; `rollcall_core::agent::marker` decides whether a marker is valid.
//! - [`arguments`], [`talk`]: the command line, and messages on stderr.
//!
//! There is no configuration file and no Kubernetes client: a container that waits needs no permissions.

mod arguments;
mod condition;
mod mark;
mod marker;
mod talk;
mod volume;
mod wait;
mod watch;

use arguments::{Command, HELP};
use std::process::ExitCode;

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Timeout or failure.
    Failed,
    /// Terminated by this signal.
    Ended(i32),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            // The exit code that shells use: 143 for SIGTERM.
            Outcome::Ended(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
        }
    }
}

fn main() -> ExitCode {
    let command = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("rollcall-node: {problem}\nhint: rollcall-node --help");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Help => {
            print!("{HELP}");
            Ok(Outcome::Done)
        }
        Command::Version => {
            println!("rollcall-node {}", env!("CARGO_PKG_VERSION"));
            Ok(Outcome::Done)
        }
        Command::Wait(options) => wait::run(&options),
        Command::Mark(options) => mark::run(options),
        Command::Volume(options) => volume::run(&options),
        Command::VolumeCheck(options) => Ok(volume::check(&options)),
    };
    outcome.map_or_else(
        |error| {
            eprintln!("rollcall-node: {error}");
            ExitCode::from(1)
        },
        ExitCode::from,
    )
}
