//! Tests on one cluster where the definitions are installed and no controller runs.

mod admission;
mod cli;
mod order;
mod validation;
