//! An embedded Kubernetes cluster: an in-process API server and simplified cluster components, all in virtual time.
//!
//! Rollcall's controller runs inside it unchanged, through an ordinary `kube` client. No logic of `rollcall-core` is
//! duplicated here.
//! - [`store`]: committed objects. [`cluster`]: the whole state of the cluster. [`server`]: handles API requests.
//! - [`actors`]: the scheduler, kubelets and workload controllers.
//! - [`embedded`]: puts these parts together. [`report`]: the report of a simulation.

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
