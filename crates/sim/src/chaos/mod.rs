//! Everything that can go wrong, on purpose: the production controller in the embedded cluster, with faults in its way.
//!
//! - [`fault`]: what there is, each with a name and a counter. [`faulty`]: the way between controller and server.
//! - [`mischief`]: what happens to the cluster itself. `second_start`: a sequence that is stopped and started once more. [`process`]: controllers that crash, stop and start.
//! - [`world`]: the objects of a run, and what has to become of them. [`seen`]: what each controller was shown.
//! - [`history`]: what is checked of every commit. `release_order`: when pods were released. `node_order`: where they landed.
//!   `launch_order`: when their containers started. `reservation_order`: who sat in whose room.
//!   `allowed`: what each feature may write. `unchanged`: what must not be touched.
//! - [`plan`], [`lab`], [`run`]: one run, from its seed. [`verdict`]: compares it with a run without faults.
//!   [`batch`]: many runs.

mod allowed;
pub mod batch;
mod disturbed;
pub mod fault;
pub mod faults;
pub mod faulty;
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
pub mod reservation_order;
pub mod run;
mod second_start;
pub mod seen;
mod unchanged;
pub mod verdict;
pub mod world;
