//! The `rollcall` program: the controller, and the commands that people use to inspect and steer it. Installed in the PATH as
//! `kubectl-rollcall`, it also runs as the kubectl plugin `kubectl rollcall`.
//!
//! Where to look:
//! - [`cli`]: parses the arguments and dispatches to a command; [`commands`] has a file or folder for each command.
//! - [`connect`], [`load`]: connect to the cluster and convert its objects into facts of the core.
//! - [`output`]: writes data to stdout and messages to stderr. [`shown`]: text that is safe to print on a terminal.
//! - [`outcome`]: the exit codes.

// All terminal output must pass through the `output` module.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod commands;
mod connect;
mod load;
mod outcome;
mod output;
mod shown;
mod similar;
#[cfg(test)]
mod testing;

use outcome::Outcome;
use std::process::ExitCode;

fn main() -> ExitCode {
    // This must come first: without a crypto provider, kube panics when it opens its first connection.
    let installed = rustls::crypto::ring::default_provider().install_default();
    debug_assert!(installed.is_ok(), "another crypto provider is already installed");
    match cli::run() {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            output::error(&error);
            Outcome::Impossible.into()
        }
    }
}
