//! `rollcall`: the controller, and what a person needs to see and steer it. Also runs as `kubectl rollcall`, when
//! it is found in the path as `kubectl-rollcall`.
//!
//! Where to look:
//! - [`cli`]: the arguments, and which command they mean; [`commands`] has a file or folder for each.
//! - [`connect`], [`load`]: how the cluster is reached, and how its objects become facts of the core.
//! - [`output`]: data to stdout, talk to stderr. [`shown`]: what may be shown to people.
//! - [`outcome`]: the exit codes.

// What goes to a terminal goes through `output`.
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
    // The first thing: kube panics at its first connection without a provider.
    let installed = rustls::crypto::ring::default_provider().install_default();
    debug_assert!(installed.is_ok(), "nobody else is here to install one");
    match cli::run() {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            output::error(&error);
            Outcome::Impossible.into()
        }
    }
}
