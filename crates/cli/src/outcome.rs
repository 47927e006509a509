//! How a command ended, as the shell sees it.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked for; what it was asked about is well.
    Done,
    /// What it was asked about has failed, or there is nothing to do it to.
    Failed,
    /// It was called wrongly, found nothing of that name, or could not reach the cluster.
    Impossible,
    /// It took longer than it was given.
    TimedOut,
}

/// For `--help` and for the reference page.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done; with `status`: the sequence is complete, or may still become so; with `simulate`: everything arrives; with `doctor`: no problem;
     with `lint`: no error
  1  it has failed: the sequence is Failed, the controller gave up, nothing to release, something can never start, `doctor` found a problem, `lint` an error,
     a stop was undone, a restart does not come up
  2  not possible: wrong arguments or manifests, no such object, cluster not reached, not allowed
  3  the time given by --timeout or --until is over";

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
