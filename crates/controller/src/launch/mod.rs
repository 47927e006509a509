//! Controller code for the start order of containers: the ConfigMaps that containers wait for.

mod barriers;
mod gauges;

pub use barriers::write_barrier;
pub(crate) use gauges::Launching;
