//! Tests on one cluster where the CRDs are installed but no controller runs.

mod admission;
mod cli;
mod order;
mod validation;
