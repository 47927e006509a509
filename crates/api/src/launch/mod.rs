//! Container launch order: what is read from pods, and the ConfigMap that their containers wait for.

mod barrier;
mod pod;
mod written;

pub use barrier::{BarrierObject, add_keys, config_map};
pub(crate) use pod::{Barrier, launch};
pub use written::{asks_for_order, written_pod};
