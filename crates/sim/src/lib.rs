//! The embedded cluster: an API server in the process, the actors of a cluster around it, virtual time.
//!
//! Our own controller runs inside, unchanged, over the ordinary client. Nothing of `rollcall-core` is written a second
//! time here.
//!
//! - [`store`]: what is committed. [`cluster`]: the state as a whole. [`server`]: requests and their answers.
//! - [`actors`]: scheduler, kubelets, controllers of workloads.
//! - [`embedded`]: all of them together. [`report`]: what a run showed.

pub mod actors;
pub mod chance;
pub mod chaos;
pub mod cluster;
pub mod embedded;
pub mod kinds;
pub mod plan;
mod pod_resources;
pub mod program_behaviour;
pub mod report;
pub mod server;
pub mod simulate;
pub mod store;

#[cfg(debug_assertions)]
pub use simulate::simulate_observed;
pub use simulate::{Snapshot, simulate, simulate_for};
