//! The embedded cluster, and the production controller in it, under virtual time.

mod defaults;
mod first;
mod launch;
mod nodes;
mod rereads;
mod workloads;
