//! The works that are measured.

pub mod chain;
pub mod storm;
pub mod watched;

/// `--max-in-flight` of the controller, and of the floods beside it.
pub const IN_FLIGHT: usize = 8;
