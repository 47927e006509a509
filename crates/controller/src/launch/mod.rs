//! Loop code that only the order of containers uses: the ConfigMaps that containers wait for.

mod barriers;
mod gauges;

pub use barriers::write_barrier;
pub(crate) use gauges::Launching;
