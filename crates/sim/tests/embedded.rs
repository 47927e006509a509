//! Runs the production controller in the embedded cluster in virtual time.

mod defaults;
mod first;
mod launch;
mod nodes;
mod rereads;
mod workloads;
