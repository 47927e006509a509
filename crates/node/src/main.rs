//! `rollcall-node`: one small static program for init containers and for agents on a node.
//!
//! - [`wait`]: waits until conditions hold. [`mark`]: keeps a marker while they hold. [`volume`]: keeps a folder
//!   mounted, and a marker in it.
//! - [`condition`]: what can be waited for. [`watch`]: threads that look at conditions, and what wakes them.
//! - [`marker`]: files that say "ready"; what they mean is decided in `rollcall_core::agent::marker`.
//! - [`arguments`], [`talk`]: the command line, and what is said on stderr.
//!
//! There is no configuration file and no Kubernetes client: a container that waits needs no permission.

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

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The time is over, or it failed.
    Failed,
    /// By this signal.
    Ended(i32),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            // As shells do: 143 for SIGTERM.
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
