//! What several rules see in manifests.

pub mod claims;
pub mod pods;
pub mod schedule;

pub use claims::{Claims, Sequence};
