//! Container launch order: what is read from pods, and the ConfigMap that their containers wait for.

mod barrier;
mod pod;

pub use barrier::{BarrierObject, add_keys, config_map, delete_options};
pub(crate) use pod::{Barrier, launch};
