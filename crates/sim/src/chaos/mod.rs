//! Everything that can go wrong, on purpose: the production controller in the embedded cluster, with faults in its way.
//!
//! - [`fault`]: what there is, each with a name and a counter. [`faulty`]: the way between controller and server.
//! - [`mischief`]: what happens to the cluster itself. [`process`]: controllers that crash, stop and start.
//! - [`world`]: the objects of a run. [`history`]: what is checked of every commit. [`run`]: one run, from its seed.

pub mod fault;
pub mod faulty;
pub mod history;
pub mod mischief;
pub mod process;
pub mod run;
pub mod world;
