//! Container launch order: reads pods, and builds the ConfigMap for whose keys their containers wait.

mod barrier;
mod pod;
mod written;

pub use barrier::{BarrierObject, add_keys, config_map};
pub(crate) use pod::{Barrier, launch};
pub use written::{asks_for_order, written_pod};
