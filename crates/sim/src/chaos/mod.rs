//! Fault runs: the production controller runs in the embedded cluster while requests, processes and objects fail on
//! purpose.
//!
//! - [`fault`]: the list of faults, each with a name and a counter. [`faulty`]: injects faults between controller and
//!   server.
//! - [`mischief`]: faults of the cluster itself. `second_start`: stops a sequence and starts it again.
//! - [`process`]: controllers that crash, stop and restart.
//! - [`world`]: the objects of a run and their expected end state. [`seen`]: the objects that each controller has received.
//! - [`history`]: checks every commit. `release_order`: when pods are released. `node_order`: where they are
//!   placed.
//! - `launch_order`: when their containers start. `hand_over_order`: which pods use which tickets.
//! - `allowed`: what each feature may write. `unchanged`: what no feature may change.
//! - [`plan`], [`lab`], [`run`]: a single run, reproducible from its seed. [`verdict`]: compares it with a run without
//!   faults.
//! - [`batch`]: many runs.

mod allowed;
pub mod batch;
mod disturbed;
pub mod fault;
pub mod faults;
pub mod faulty;
pub mod hand_over_order;
pub mod history;
pub mod lab;
mod launch_mischief;
pub mod launch_order;
pub mod mischief;
mod node_mischief;
pub mod node_order;
pub mod plan;
pub mod process;
pub mod release_order;
mod reservation_mischief;
pub mod run;
mod second_start;
pub mod seen;
mod unchanged;
pub mod verdict;
pub mod world;
