//! The result of a command, and its exit code.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command succeeded; for commands that check or watch an object, the object is in order.
    Done,
    /// The object of the command has failed, or there is nothing to do.
    Failed,
    /// The arguments are wrong, the object does not exist, or the cluster cannot be reached.
    Impossible,
    /// The command did not complete within its time limit.
    TimedOut,
}

/// Text for `--help` and for the reference page.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success; `status`: the sequence is complete or in progress; `simulate`: all pods arrive; `doctor`: no problem;
     `lint`: no error
  1  failure: the sequence is Failed, the controller gave up, nothing to release, some pods can never start, `doctor` found a problem, `lint` an error,
     a stop was undone, restarted pods do not become ready
  2  not possible: invalid arguments or manifests, object not found, cluster not reachable, not allowed
  3  timeout: not complete within --timeout or --until";

impl Outcome {
    pub fn code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::Impossible => 2,
            Outcome::TimedOut => 3,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(outcome.code())
    }
}
